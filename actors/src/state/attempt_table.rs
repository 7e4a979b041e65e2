//! The attempt table: every attempt that runs, or has ended without a durable record. The table belongs to the process,
//! so a restarted agent finds its attempts instead of paying for them again.

mod sweep;
mod yielding;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam::queue::SegQueue;
use dashmap::DashMap;
use futures::FutureExt;
use ostler_kernel::event::Accounts;
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::port::Position;
use ostler_kernel::run::FailureCategory;
use ractor::ActorRef;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::attempt_end::{Ended, ModelCalls, cost_since, failed};
use crate::base::keys::{AttemptKey, Owner};
use crate::base::lock::lock;
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
    Done(Box<Ended>),
}

struct AttemptEntry {
    owner: Arc<Owner>,
    /// The slot, until the scheduler has settled the end.
    slot: Slot,
    /// Credits charged when the attempt returned slots.
    charged: u64,
    /// Charge for the limited tokens of calls since the last slot was granted.
    token_charge: u64,
    started: Instant,
    waited: Arc<PausedTime>,
    /// Wakes the attempt when it has a slot, or must ask again.
    slot_notify: Arc<Notify>,
    agent: ActorRef<AgentMessage>,
    acts: bool,
    /// The attempt is no longer wanted and only reports its end.
    drains: bool,
    /// Position of the record of its end, which may still be rolled back.
    ordered: Option<Position>,
    state: AttemptState,
}

impl AttemptEntry {
    /// The end of a running attempt that is stopped now with its process.
    fn stopped(&self) -> Ended {
        let (duration_ms, _) = cost_since(self.started + self.waited.total());
        // An attempt without a slot has paid for those it had.
        let cost = match self.slot.held() {
            Some(_) => cost_since(self.started + self.waited.unpaid()).1.max(self.charged),
            None => self.charged,
        };
        let outcome = failed(FailureCategory::Crash, "stopped with its process; it runs again".to_owned());
        Ended { outcome, duration_ms, cost, accounts: None, model_calls: ModelCalls::default() }
    }

    /// The end, once it is settled.
    fn settled(&self) -> Option<&Ended> {
        match &self.state {
            AttemptState::Done(ended) if self.slot == Slot::Settled && self.ordered.is_none() => Some(ended),
            AttemptState::Done(_) | AttemptState::Running { .. } => None,
        }
    }
}

/// All attempts: at most the slots plus the draining ones, plus attempts that acted and have no durable record.
pub(crate) struct AttemptTable {
    entries: DashMap<AttemptKey, AttemptEntry>,
    /// Attempts that have ended and are not settled. One caller settles all of them.
    ended: SegQueue<AttemptKey>,
    forgotten: Notify,
    epochs: AtomicU64,
    /// Attempts that acted, by the position of their record, roughly ascending.
    kept: Mutex<VecDeque<(Position, AttemptKey)>>,
    /// Attempts that the shutdown stopped, until their runs record the cost.
    stopped: Mutex<BTreeMap<RunId, Vec<(AttemptKey, Ended)>>>,
    journal: Arc<JournalClient>,
    active_runs: Arc<ActiveRuns>,
    mailboxes: Arc<Mailboxes>,
}

pub(crate) enum Found {
    /// The attempt runs; its agent will receive the result.
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
        let (epochs, kept, stopped) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        AttemptTable { entries, ended, forgotten, epochs, kept, stopped, journal, active_runs, mailboxes }
    }

    /// Adds an attempt that starts with a slot, and returns its cancellation token.
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
        let (started, slot, charged, slot_notify) = (Instant::now(), Slot::Held(slot), 0, Arc::default());
        let (drains, ordered) = (false, None);
        let entry = AttemptEntry {
            owner,
            slot,
            charged,
            token_charge: 0,
            started,
            waited,
            slot_notify,
            agent,
            acts,
            drains,
            ordered,
            state,
        };
        self.entries.insert(key, entry);
        cancel
    }

    /// Removes an attempt that never began. Returns the held slot, if any; `None` if the attempt was removed before.
    pub(crate) fn withdraw(&self, key: &AttemptKey) -> Option<Option<Ticket>> {
        let (_, entry) = self.entries.remove(key)?;
        self.forgotten.notify_waiters();
        Some(entry.slot.held())
    }

    /// Stores the outcome of an attempt until the scheduler has settled it; `false` if the entry is gone.
    pub(crate) fn finish(&self, key: &AttemptKey, ended: Ended) -> bool {
        let Some(mut entry) = self.entries.get_mut(key) else { return false };
        // An attempt that ends without a slot has paid for those it had.
        let cost = if entry.slot.held().is_some() { ended.cost.max(entry.charged) } else { entry.charged };
        entry.state = AttemptState::Done(Box::new(Ended { cost, ..ended }));
        drop(entry);
        self.ended.push(key.clone());
        true
    }

    /// Adds to the charge that an attempt's slot is settled with.
    pub(crate) fn add_token_charge(&self, key: &AttemptKey, charge: u64) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.token_charge = entry.token_charge.saturating_add(charge);
        }
    }

    pub(crate) fn attach(&self, key: &AttemptKey, agent: &ActorRef<AgentMessage>) -> Option<Found> {
        let mut entry = self.entries.get_mut(key)?;
        entry.agent = agent.clone();
        entry.ordered = None;
        let is_settled = matches!(entry.state, AttemptState::Done(_)) && entry.slot == Slot::Settled;
        Some(if is_settled { Found::Ended } else { Found::UnderWay })
    }

    /// The end of an attempt, once it is settled.
    pub(crate) fn ended(&self, key: &AttemptKey) -> Option<Ended> {
        self.entries.get(key)?.settled().cloned()
    }

    /// The same, and whether the attempt acts on the world.
    pub(crate) fn ended_acting(&self, key: &AttemptKey) -> Option<(Ended, bool)> {
        let entry = self.entries.get(key)?;
        Some((entry.settled()?.clone(), entry.acts))
    }

    pub(crate) fn all_ended(&self) -> Vec<AttemptKey> {
        self.keys(|_, entry| entry.settled().is_some())
    }

    /// Charges of attempts without a record, by client and run.
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

    /// What to settle of an attempt; `None` if it runs, or was settled.
    pub(crate) fn to_settle(&self, key: &AttemptKey) -> Option<Leaves> {
        let entry = self.entries.get(key)?;
        match &entry.state {
            AttemptState::Done(_) if entry.slot == Slot::Settled => None,
            AttemptState::Done(ended) => {
                let (ticket, owner) = (entry.slot.ticket(), Arc::clone(&entry.owner));
                let due = ended.cost.saturating_sub(entry.charged);
                Some(Leaves { ticket, owner, due, token_charge: entry.token_charge })
            }
            AttemptState::Running { .. } => None,
        }
    }

    /// Marks the end of an attempt as settled, and returns the agent to notify; without a driven run, the registry is
    /// notified instead.
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
        // A new driver looks for ended attempts after it has registered, so it cannot miss this one.
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

    pub(crate) fn next_epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Attempts that hold a slot of an earlier epoch.
    pub(crate) fn holding(&self) -> Vec<(AttemptKey, Ticket, Arc<Owner>, ActorRef<AgentMessage>)> {
        let held = self.entries.iter().filter_map(|entry| {
            let held = entry.slot.held()?;
            Some((entry.key().clone(), held, Arc::clone(&entry.owner), entry.agent.clone()))
        });
        held.collect()
    }

    pub(crate) fn hold(&self, key: &AttemptKey, slot: Ticket) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.slot = Slot::Held(slot);
        }
    }

    /// True if an attempt runs, or has ended without a record.
    pub(crate) fn knows(&self, key: &AttemptKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.ordered.is_none())
    }

    pub(crate) fn of_run(&self, run: RunId) -> Vec<AttemptKey> {
        self.keys(|key, entry| key.run == run && entry.ordered.is_none())
    }

    fn keys(&self, are_wanted: impl Fn(&AttemptKey, &AttemptEntry) -> bool) -> Vec<AttemptKey> {
        let wanted = self.entries.iter().filter(|entry| are_wanted(entry.key(), entry));
        wanted.map(|entry| entry.key().clone()).collect()
    }

    /// The actor that drives the run of an attempt; `None`: the attempt is unknown.
    pub(crate) fn agent_of(&self, key: &AttemptKey) -> Option<ActorRef<AgentMessage>> {
        self.entries.get(key).map(|entry| entry.agent.clone())
    }

    pub(crate) fn knows_run(&self, run: RunId) -> bool {
        self.knows_another(run, &[])
    }

    /// True if the run has attempts other than these.
    pub(crate) fn knows_another(&self, run: RunId, these: &[AttemptKey]) -> bool {
        let is_another = |key: &AttemptKey, entry: &AttemptEntry| {
            key.run == run && entry.ordered.is_none() && !these.contains(key)
        };
        self.entries.iter().any(|entry| is_another(entry.key(), &entry))
    }

    pub(crate) fn forget(&self, key: &AttemptKey) {
        self.entries.remove(key);
        self.forgotten.notify_waiters();
    }

    /// Cancels an attempt; its end is reported like any other.
    pub(crate) fn cancel(&self, key: &AttemptKey) {
        if let Some(entry) = self.entries.get(key)
            && let AttemptState::Running { cancel } = &entry.state
        {
            cancel.cancel();
        }
    }

    /// Lets the agents of the attempts of a node look at them again.
    pub(crate) fn look_again(&self, run: RunId, node: &NodeId) {
        for entry in self.entries.iter().filter(|entry| entry.key().run == run && entry.key().node == *node) {
            let _ = entry.agent.cast(AgentMessage::Again);
        }
    }

    /// Cancels the pure attempts of runs.
    pub(crate) fn cancel_runs(&self, runs: &[RunId]) {
        for entry in self.entries.iter().filter(|entry| !entry.acts && runs.contains(&entry.key().run)) {
            if let AttemptState::Running { cancel } = &entry.state {
                cancel.cancel();
            }
        }
    }

    /// Cancels the attempts of a run, those that act too; their ends are reported like any other.
    pub(crate) fn stop_run(&self, run: RunId) {
        self.of_run(run).iter().for_each(|key| self.cancel(key));
    }

    /// Cancels and forgets pure attempts at the end of the process: they run again when their run is resumed. Keeps their
    /// costs for [`AttemptTable::take_stopped`].
    pub(crate) fn stop_pure(&self) {
        let mut stopped = lock(&self.stopped);
        self.entries.retain(|key, entry| match &entry.state {
            AttemptState::Running { cancel } if !entry.acts => {
                cancel.cancel();
                stopped.entry(key.run).or_default().push((key.clone(), entry.stopped()));
                false
            }
            AttemptState::Running { .. } | AttemptState::Done(_) => true,
        });
    }

    /// Attempts of a run that the shutdown stopped, and their ends; each once.
    pub(crate) fn take_stopped(&self, run: RunId) -> Vec<(AttemptKey, Ended)> {
        lock(&self.stopped).remove(&run).unwrap_or_default()
    }

    /// Nodes whose attempt acts on the world and has no recorded end, by name.
    pub(crate) fn acting_nodes(&self) -> BTreeSet<NodeId> {
        self.acting().into_iter().map(|key| key.node).collect()
    }

    fn acting(&self) -> Vec<AttemptKey> {
        self.keys(|_, entry| entry.acts && entry.ordered.is_none())
    }

    /// Cancels attempts that act on the world, and returns them together with ended attempts without a record.
    pub(crate) fn stop_acting(&self) -> Vec<InDoubt> {
        let acting = self.acting();
        acting.iter().for_each(|key| self.cancel(key));
        acting.into_iter().map(|AttemptKey { run, node, .. }| InDoubt { run, node }).collect()
    }

    /// Cancels and forgets an attempt at the end of the process.
    pub(crate) fn leave(&self, key: &AttemptKey) {
        self.cancel(key);
        self.forget(key);
    }

    /// Waits until no acting attempt runs and each end is recorded.
    pub(crate) async fn drained(&self) {
        self.none_left(|entry| entry.acts).await;
    }

    /// Waits until the table is empty.
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

/// An attempt stopped during an act on the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
}
