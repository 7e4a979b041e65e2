//! The effects table: every attempt that runs, or has ended and is not recorded yet. It belongs to the process, not
//! to an actor, so an agent that is restarted finds its attempts here instead of paying for them again.

mod sweep;
mod yielding;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam::queue::SegQueue;
use dashmap::DashMap;
use futures::FutureExt;
use ostler_kernel::event::Accounts;
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::port::Position;
use ractor::ActorRef;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::attempt_end::Ended;
use crate::base::keys::{AttemptKey, Owner};
use crate::base::paused_time::PausedTime;
use crate::messages::agent::AgentMessage;
use crate::messages::mailboxes::Mailboxes;
use crate::messages::registry::RegistryMessage;
use crate::messages::slots::Ticket;
use crate::state::active_runs::ActiveRuns;
use crate::state::attempt_slot::{Leaves, Slot};
use crate::storage::journal_client::JournalClient;

enum AttemptState {
    Running { cancel: CancellationToken },
    Done(Ended),
}

struct AttemptEntry {
    /// On whose behalf it runs.
    owner: Arc<Owner>,
    /// The slot it holds, until the scheduler has settled its end.
    slot: Slot,
    /// Credits that were charged for it when it gave slots back.
    charged: u64,
    started: Instant,
    waited: Arc<PausedTime>,
    /// Told when it has a slot again, or is to ask again.
    stirs: Arc<Notify>,
    /// The agent that waits for it.
    agent: ActorRef<AgentMessage>,
    /// It does something to the world.
    acts: bool,
    /// It is not wanted any more, and has its end to tell alone.
    drains: bool,
    /// Its end is ordered up to there, and may be undone still: it is kept for that.
    ordered: Option<Position>,
    state: AttemptState,
}

impl AttemptEntry {
    /// What it came to, if it has ended and is settled.
    fn settled(&self) -> Option<&Ended> {
        match &self.state {
            AttemptState::Done(ended) if self.slot == Slot::Settled && self.ordered.is_none() => Some(ended),
            AttemptState::Done(_) | AttemptState::Running { .. } => None,
        }
    }
}

/// Every attempt that runs or is not recorded yet: at most as many as there are slots, and those that drain; and of those that acted,
/// the ones whose record is on its way to the disk.
pub(crate) struct AttemptTable {
    entries: DashMap<AttemptKey, AttemptEntry>,
    /// Attempts that have ended and are not settled; whoever settles one settles them together.
    ended: SegQueue<AttemptKey>,
    /// Told whenever an entry goes.
    forgotten: Notify,
    /// Lives of the scheduler so far.
    epochs: AtomicU64,
    /// Attempts that acted, whose end is ordered up to there: about in the order of these places.
    kept: Mutex<VecDeque<(Position, AttemptKey)>>,
    journal: Arc<JournalClient>,
    active_runs: Arc<ActiveRuns>,
    mailboxes: Arc<Mailboxes>,
}

/// What the table knows of an attempt.
pub(crate) enum Found {
    /// Its agent will hear of its end.
    UnderWay,
    Ended,
}

impl AttemptTable {
    pub(crate) fn new(
        journal: Arc<JournalClient>,
        active_runs: Arc<ActiveRuns>,
        mailboxes: Arc<Mailboxes>,
    ) -> AttemptTable {
        let (entries, ended, forgotten) = (DashMap::new(), SegQueue::new(), Notify::new());
        let (epochs, kept) = (AtomicU64::new(0), Mutex::default());
        AttemptTable { entries, ended, forgotten, epochs, kept, journal, active_runs, mailboxes }
    }

    /// Takes in an attempt that starts with a slot. Gives the token that stops it.
    pub(crate) fn start(
        &self,
        key: AttemptKey,
        (owner, slot): (Arc<Owner>, Ticket),
        agent: ActorRef<AgentMessage>,
        acts: bool,
        waited: Arc<PausedTime>,
    ) -> CancellationToken {
        let cancel = CancellationToken::new();
        let state = AttemptState::Running { cancel: cancel.clone() };
        let (started, slot, charged, stirs) = (Instant::now(), Slot::Held(slot), 0, Arc::default());
        let (drains, ordered) = (false, None);
        let entry = AttemptEntry {
            owner,
            slot,
            charged,
            started,
            waited,
            stirs,
            agent,
            acts,
            drains,
            ordered,
            state,
        };
        self.entries.insert(key, entry);
        cancel
    }

    /// Removes an attempt that never began. Gives the slot that it held, if any; `None`: it was removed before.
    pub(crate) fn withdraw(&self, key: &AttemptKey) -> Option<Option<Ticket>> {
        let (_, entry) = self.entries.remove(key)?;
        self.forgotten.notify_waiters();
        Some(entry.slot.held())
    }

    /// Keeps the outcome of an attempt until the scheduler has settled it; false if nothing waits for it any more.
    pub(crate) fn finish(&self, key: &AttemptKey, ended: Ended) -> bool {
        let Some(mut entry) = self.entries.get_mut(key) else { return false };
        // One that ends without a slot has paid for those it had.
        let cost = if entry.slot.held().is_some() { ended.cost.max(entry.charged) } else { entry.charged };
        entry.state = AttemptState::Done(Ended { cost, ..ended });
        drop(entry);
        self.ended.push(key.clone());
        true
    }

    /// An agent that was restarted takes its attempt up again.
    pub(crate) fn attach(&self, key: &AttemptKey, agent: &ActorRef<AgentMessage>) -> Option<Found> {
        let mut entry = self.entries.get_mut(key)?;
        entry.agent = agent.clone();
        entry.ordered = None;
        let is_settled = matches!(entry.state, AttemptState::Done(_)) && entry.slot == Slot::Settled;
        Some(if is_settled { Found::Ended } else { Found::UnderWay })
    }

    /// What became of an attempt, if it has ended and is settled.
    pub(crate) fn ended(&self, key: &AttemptKey) -> Option<Ended> {
        self.entries.get(key)?.settled().cloned()
    }

    /// The same, and whether it acts on the world.
    pub(crate) fn ended_acting(&self, key: &AttemptKey) -> Option<(Ended, bool)> {
        let entry = self.entries.get(key)?;
        Some((entry.settled()?.clone(), entry.acts))
    }

    /// Every attempt that has ended and is settled.
    pub(crate) fn all_ended(&self) -> Vec<AttemptKey> {
        self.keys(|_, entry| entry.settled().is_some())
    }

    /// Who was charged for attempts that are not recorded, or not any more; for which run, and how much.
    pub(crate) fn unrecorded(&self) -> Vec<(ClientId, RunId, u64)> {
        let is_undone = |upto| matches!(self.journal.durable(upto).now_or_never(), Some(Err(_)));
        let charged = self.entries.iter().filter_map(|entry| {
            let cost = match &entry.state {
                AttemptState::Done(ended) if entry.slot == Slot::Settled => {
                    entry.ordered.is_none_or(is_undone).then_some(ended.cost)?
                }
                AttemptState::Done(_) | AttemptState::Running { .. } => entry.charged,
            };
            Some((entry.owner.lane.client.clone(), entry.key().run, cost))
        });
        charged.filter(|(_, _, cost)| *cost > 0).collect()
    }

    /// What is to be settled of an attempt. `None` if it runs, or that was done.
    pub(crate) fn to_settle(&self, key: &AttemptKey) -> Option<Leaves> {
        let entry = self.entries.get(key)?;
        match &entry.state {
            AttemptState::Done(_) if entry.slot == Slot::Settled => None,
            AttemptState::Done(ended) => {
                let (ticket, owner) = (entry.slot.ticket(), Arc::clone(&entry.owner));
                Some(Leaves { ticket, owner, due: ended.cost.saturating_sub(entry.charged) })
            }
            AttemptState::Running { .. } => None,
        }
    }

    /// The end of an attempt is settled. Gives the agent that is to hear of it; if nobody drives its run, the registry hears.
    pub(crate) fn settled(
        &self,
        key: &AttemptKey,
        after: Option<Accounts>,
    ) -> Option<ActorRef<AgentMessage>> {
        let mut entry = self.entries.get_mut(key)?;
        entry.slot = Slot::Settled;
        if let AttemptState::Done(ended) = &mut entry.state {
            ended.accounts = after;
        }
        // Whoever takes the run up looks for the attempt after it is known to drive it: it finds it ended.
        if self.active_runs.has(key.run) {
            return Some(entry.agent.clone());
        }
        drop(entry);
        self.mailboxes.tell_registry(RegistryMessage::UndeliveredResult(key.clone()));
        None
    }

    /// An attempt that has ended and is not settled.
    pub(crate) fn next_ended(&self) -> Option<AttemptKey> {
        self.ended.pop()
    }

    /// The scheduler begins another epoch: the number of it.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The attempts that hold a slot of an earlier epoch of the scheduler: which, for whom, and who waits for them.
    pub(crate) fn holding(&self) -> Vec<(AttemptKey, Ticket, Arc<Owner>, ActorRef<AgentMessage>)> {
        let held = self.entries.iter().filter_map(|entry| {
            let held = entry.slot.held()?;
            Some((entry.key().clone(), held, Arc::clone(&entry.owner), entry.agent.clone()))
        });
        held.collect()
    }

    /// The slot that an attempt holds from now on.
    pub(crate) fn hold(&self, key: &AttemptKey, slot: Ticket) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.slot = Slot::Held(slot);
        }
    }

    /// Whether the attempt runs, or has ended and is not recorded yet.
    pub(crate) fn knows(&self, key: &AttemptKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.ordered.is_none())
    }

    /// Every such attempt of a run.
    pub(crate) fn of_run(&self, run: RunId) -> Vec<AttemptKey> {
        self.keys(|key, entry| key.run == run && entry.ordered.is_none())
    }

    fn keys(&self, are_wanted: impl Fn(&AttemptKey, &AttemptEntry) -> bool) -> Vec<AttemptKey> {
        let wanted = self.entries.iter().filter(|entry| are_wanted(entry.key(), entry));
        wanted.map(|entry| entry.key().clone()).collect()
    }

    /// Whether there is any such attempt of the run.
    pub(crate) fn knows_run(&self, run: RunId) -> bool {
        self.knows_another(run, &[])
    }

    /// Whether there is any such attempt of the run but these.
    pub(crate) fn knows_another(&self, run: RunId, these: &[AttemptKey]) -> bool {
        let is_another = |key: &AttemptKey, entry: &AttemptEntry| {
            key.run == run && entry.ordered.is_none() && !these.contains(key)
        };
        self.entries.iter().any(|entry| is_another(entry.key(), &entry))
    }

    /// The end of the attempt is in the journal.
    pub(crate) fn forget(&self, key: &AttemptKey) {
        self.entries.remove(key);
        self.forgotten.notify_waiters();
    }

    /// Stops an attempt as far as that is possible; its end comes like any other.
    pub(crate) fn cancel(&self, key: &AttemptKey) {
        if let Some(entry) = self.entries.get(key)
            && let AttemptState::Running { cancel } = &entry.state
        {
            cancel.cancel();
        }
    }

    /// Stops what only looks or computes of a run that nobody drives.
    pub(crate) fn cancel_run(&self, run: RunId) {
        for entry in self.entries.iter().filter(|entry| entry.key().run == run && !entry.acts) {
            if let AttemptState::Running { cancel } = &entry.state {
                cancel.cancel();
            }
        }
    }

    /// Stops whatever only looks or computes, and forgets it: the process ends, which is no failure of theirs, and
    /// they are done again when their run is taken up.
    pub(crate) fn stop_pure(&self) {
        self.entries.retain(|_, entry| match &entry.state {
            AttemptState::Running { cancel } if !entry.acts => {
                cancel.cancel();
                false
            }
            AttemptState::Running { .. } | AttemptState::Done(_) => true,
        });
    }

    /// Stops whatever acts on the world as far as that is possible, and gives it, with what has ended and is not recorded.
    pub(crate) fn stop_acting(&self) -> Vec<InDoubt> {
        let acting = self.keys(|_, entry| entry.acts && entry.ordered.is_none());
        acting.iter().for_each(|key| self.cancel(key));
        acting.into_iter().map(|AttemptKey { run, node, .. }| InDoubt { run, node }).collect()
    }

    /// Stops an attempt, and forgets it, as its process ends.
    pub(crate) fn leave(&self, key: &AttemptKey) {
        self.cancel(key);
        self.forget(key);
    }

    /// Waits until no attempt that acts on the world runs, and the end of each is recorded.
    pub(crate) async fn drained(&self) {
        self.none_left(|entry| entry.acts).await;
    }

    /// Waits until nothing runs, and the end of everything is recorded.
    #[cfg(test)]
    pub(crate) async fn emptied(&self) {
        self.none_left(|_| true).await;
    }

    async fn none_left(&self, counts: impl Fn(&AttemptEntry) -> bool) {
        loop {
            let forgotten = self.forgotten.notified();
            tokio::pin!(forgotten);
            forgotten.as_mut().enable();
            if !self.entries.iter().any(|entry| entry.ordered.is_none() && counts(&entry)) {
                return;
            }
            forgotten.await;
        }
    }
}

/// A step that was stopped while it acted on the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    /// Of which run.
    pub run: RunId,
    /// Which.
    pub node: NodeId,
}
