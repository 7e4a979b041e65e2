//! The effects table: every attempt that runs, or has ended and is not recorded yet. It belongs to the process, not
//! to an actor, so an agent that is restarted finds its attempts here instead of paying for them again.

mod slots;

use std::any::Any;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam::queue::SegQueue;
use dashmap::DashMap;
use futures::FutureExt;
use ostler_kernel::event::{Accounts, AttemptResult, Failure, Outcome};
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::port::{Journal, JournalError, Position};
use ostler_kernel::run::FailureCategory;
use ractor::ActorRef;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::api::system::InDoubt;
use crate::attempts::attempt_journal::LiveLog;
use crate::base::lock::lock;
use crate::registry::RegistryMessage;
use crate::run::AgentMessage;
use crate::scheduler::{Owner, Ticket};
use crate::services::Services;
use crate::storage::disk_space::Waited;
use slots::Slot;
pub(crate) use slots::{Leaves, Wants};

/// One try of a node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AttemptKey {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    pub(crate) attempt: u32,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) duration_ms: u64,
    /// In credits: a millisecond of a slot is one.
    pub(crate) cost: u64,
    /// How its client stood once that was charged; `None` if it held no slot any more.
    pub(crate) accounts: Option<Accounts>,
}

impl Ended {
    /// The record of it.
    pub(crate) fn result_of(self, key: &AttemptKey) -> Box<AttemptResult> {
        let (node, attempt) = (key.node.clone(), key.attempt);
        let Ended { outcome, duration_ms, cost, accounts } = self;
        Box::new(AttemptResult { node, attempt, outcome, duration_ms, cost, accounts })
    }
}

enum State {
    Running { cancel: CancellationToken },
    Done(Ended),
}

struct Entry {
    /// On whose behalf it runs.
    owner: Arc<Owner>,
    /// The slot it holds, until the scheduler has settled its end.
    slot: Slot,
    /// Credits that were charged for it when it gave slots back.
    charged: u64,
    started: tokio::time::Instant,
    waited: Arc<Waited>,
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
    state: State,
}

impl Entry {
    /// What it came to, if it has ended and is settled.
    fn settled(&self) -> Option<&Ended> {
        match &self.state {
            State::Done(ended) if self.slot == Slot::Settled && self.ordered.is_none() => Some(ended),
            State::Done(_) | State::Running { .. } => None,
        }
    }
}

/// Every attempt that runs or is not recorded yet: at most as many as there are slots, and those that drain; and of those that acted,
/// the ones whose record is on its way to the disk.
#[derive(Default)]
pub(crate) struct Effects {
    entries: DashMap<AttemptKey, Entry>,
    /// Attempts that have ended and are not settled; whoever settles one settles them together.
    ended: SegQueue<AttemptKey>,
    /// Told whenever an entry goes.
    forgotten: Notify,
    /// Lives of the scheduler so far.
    lives: AtomicU64,
    /// Attempts that acted, whose end is ordered up to there: about in the order of these places.
    kept: Mutex<VecDeque<(Position, AttemptKey)>>,
}

/// What the table knows of an attempt.
pub(crate) enum Found {
    /// Its agent will hear of its end.
    UnderWay,
    Ended,
}

impl Effects {
    /// Starts an attempt, and keeps its log. `acts`: it does something to the world, so a shutdown waits for it. One that comes to
    /// nothing has not begun: it is as if there had been none.
    pub(crate) fn spawn(
        services: &Arc<Services>,
        key: AttemptKey,
        (owner, slot): (Arc<Owner>, Ticket),
        agent: ActorRef<AgentMessage>,
        (acts, log): (bool, Arc<LiveLog>),
        attempt: impl Future<Output = Option<Outcome>> + Send + 'static,
    ) {
        let cancel = CancellationToken::new();
        let state = State::Running { cancel: cancel.clone() };
        let (started, waited) = (tokio::time::Instant::now(), Arc::clone(&log.waited));
        let (slot, charged, stirs) = (Slot::Held(slot), 0, Arc::default());
        let (drains, ordered) = (false, None);
        let entry =
            Entry { owner, slot, charged, started, waited, stirs, agent, acts, drains, ordered, state };
        services.effects.entries.insert(key.clone(), entry);
        let services_of_task = Arc::clone(services);
        // Boxed: a task is moved several times.
        let attempt = Box::pin(attempt);
        tokio::spawn(async move {
            let shielded = AssertUnwindSafe(attempt).catch_unwind();
            let outcome = tokio::select! {
                biased;
                ended = shielded => match ended {
                    Ok(Some(outcome)) => outcome,
                    Ok(None) => return withdraw(&services_of_task, &key),
                    Err(panic) => panicked(&*panic),
                },
                () = cancel.cancelled() => failed(FailureCategory::Crash, "stopped before it had ended".to_owned()),
            };
            let (duration_ms, _) = cost_since(started + log.waited.total());
            // Time in which there was no room for a result, or without a slot, costs nobody anything.
            let (_, cost) = cost_since(started + log.waited.unpaid());
            let ended = Ended { outcome, duration_ms, cost, accounts: None };
            finish(&services_of_task, &key, ended);
        });
    }

    /// An agent that was restarted takes its attempt up again.
    pub(crate) fn attach(&self, key: &AttemptKey, agent: &ActorRef<AgentMessage>) -> Option<Found> {
        let mut entry = self.entries.get_mut(key)?;
        entry.agent = agent.clone();
        entry.ordered = None;
        let is_settled = matches!(entry.state, State::Done(_)) && entry.slot == Slot::Settled;
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
    pub(crate) fn unrecorded(&self, journal: &dyn Journal) -> Vec<(ClientId, RunId, u64)> {
        let is_undone = |upto| matches!(journal.durable(upto).now_or_never(), Some(Err(_)));
        let charged = self.entries.iter().filter_map(|entry| {
            let cost = match &entry.state {
                State::Done(ended) if entry.slot == Slot::Settled => {
                    entry.ordered.is_none_or(is_undone).then_some(ended.cost)?
                }
                State::Done(_) | State::Running { .. } => entry.charged,
            };
            Some((entry.owner.lane.client.clone(), entry.key().run, cost))
        });
        charged.filter(|(_, _, cost)| *cost > 0).collect()
    }

    /// What is to be settled of an attempt. `None` if it runs, or that was done.
    pub(crate) fn to_settle(&self, key: &AttemptKey) -> Option<Leaves> {
        let entry = self.entries.get(key)?;
        match &entry.state {
            State::Done(_) if entry.slot == Slot::Settled => None,
            State::Done(ended) => {
                let (ticket, owner) = (entry.slot.ticket(), Arc::clone(&entry.owner));
                Some(Leaves { ticket, owner, due: ended.cost.saturating_sub(entry.charged) })
            }
            State::Running { .. } => None,
        }
    }

    /// The end of an attempt is settled. Gives the agent that is to hear of it; if nobody drives its run, the registry hears.
    pub(crate) fn settled(
        &self,
        services: &Services,
        key: &AttemptKey,
        after: Option<Accounts>,
    ) -> Option<ActorRef<AgentMessage>> {
        let mut entry = self.entries.get_mut(key)?;
        entry.slot = Slot::Settled;
        if let State::Done(ended) = &mut entry.state {
            ended.accounts = after;
        }
        // Whoever takes the run up looks for the attempt after it is known to drive it: it finds it ended.
        if services.driven.has(key.run) {
            return Some(entry.agent.clone());
        }
        drop(entry);
        services.links.tell_registry(RegistryMessage::Unheard(key.clone()));
        None
    }

    /// An attempt that has ended and is not settled.
    pub(crate) fn next_ended(&self) -> Option<AttemptKey> {
        self.ended.pop()
    }

    /// The scheduler begins another life: the number of it.
    pub(crate) fn new_life(&self) -> u64 {
        self.lives.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The attempts that hold a slot of an earlier life of the scheduler: which, for whom, and who waits for them.
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

    fn keys(&self, are_wanted: impl Fn(&AttemptKey, &Entry) -> bool) -> Vec<AttemptKey> {
        let wanted = self.entries.iter().filter(|entry| are_wanted(entry.key(), entry));
        wanted.map(|entry| entry.key().clone()).collect()
    }

    /// Whether there is any such attempt of the run.
    pub(crate) fn knows_run(&self, run: RunId) -> bool {
        self.knows_another(run, &[])
    }

    /// Whether there is any such attempt of the run but these.
    pub(crate) fn knows_another(&self, run: RunId, these: &[AttemptKey]) -> bool {
        let is_another = |key: &AttemptKey, entry: &Entry| {
            key.run == run && entry.ordered.is_none() && !these.contains(key)
        };
        self.entries.iter().any(|entry| is_another(entry.key(), &entry))
    }

    /// The end of the attempt is ordered, up to there. What acted on the world is kept until that is durable, as it would not be done
    /// again.
    pub(crate) fn ordered(&self, key: AttemptKey, upto: Position) {
        let acts = self.entries.get_mut(&key).is_some_and(|mut entry| {
            entry.ordered = entry.acts.then_some(upto);
            entry.acts
        });
        if acts {
            lock(&self.kept).push_back((upto, key));
        } else {
            self.entries.remove(&key);
        }
        self.forgotten.notify_waiters();
    }

    /// Where the last end is ordered of those that are kept for it.
    pub(crate) fn last_kept(&self) -> Option<Position> {
        lock(&self.kept).iter().map(|(upto, _)| *upto).max()
    }

    /// Lets go of what is kept and durable by now. Gives those whose end was undone: it is not ordered any more.
    pub(crate) fn sweep(&self, journal: &dyn Journal) -> Vec<AttemptKey> {
        let mut undone = Vec::new();
        let mut kept = lock(&self.kept);
        while let Some((upto, key)) = kept.front() {
            // What was ordered anew meanwhile, or taken up again, has another place, or none.
            match journal.durable(*upto).now_or_never() {
                None => break,
                Some(Ok(())) => drop(self.entries.remove_if(key, |_, entry| entry.ordered == Some(*upto))),
                Some(Err(JournalError::Full(_))) => {
                    let entry = self.entries.get_mut(key).filter(|entry| entry.ordered == Some(*upto));
                    undone.extend(entry.map(|mut entry| {
                        entry.ordered = None;
                        key.clone()
                    }));
                }
                // The journal is gone, and the process ends.
                Some(Err(_)) => {}
            }
            kept.pop_front();
        }
        undone
    }

    /// The end of the attempt is in the journal.
    pub(crate) fn forget(&self, key: &AttemptKey) {
        self.entries.remove(key);
        self.forgotten.notify_waiters();
    }

    /// Stops an attempt as far as that is possible; its end comes like any other.
    pub(crate) fn cancel(&self, key: &AttemptKey) {
        if let Some(entry) = self.entries.get(key)
            && let State::Running { cancel } = &entry.state
        {
            cancel.cancel();
        }
    }

    /// Stops what only looks or computes of a run that nobody drives.
    pub(crate) fn cancel_run(&self, run: RunId) {
        for entry in self.entries.iter().filter(|entry| entry.key().run == run && !entry.acts) {
            if let State::Running { cancel } = &entry.state {
                cancel.cancel();
            }
        }
    }

    /// Stops whatever only looks or computes, and forgets it: the process ends, which is no failure of theirs, and
    /// they are done again when their run is taken up.
    pub(crate) fn stop_pure(&self) {
        self.entries.retain(|_, entry| match &entry.state {
            State::Running { cancel } if !entry.acts => {
                cancel.cancel();
                false
            }
            State::Running { .. } | State::Done(_) => true,
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

    async fn none_left(&self, counts: impl Fn(&Entry) -> bool) {
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

/// It has not begun, and never will: its slot is free again.
fn withdraw(services: &Services, key: &AttemptKey) {
    let Some((_, entry)) = services.effects.entries.remove(key) else { return };
    if let Some(slot) = entry.slot.held() {
        services.scheduling.give_back(services, slot);
    }
    services.effects.forgotten.notify_waiters();
    services.left_behind(key);
}

/// Keeps the outcome, and has it settled. A scheduler that is down settles what it finds here when it starts.
fn finish(services: &Services, key: &AttemptKey, ended: Ended) {
    let Some(mut entry) = services.effects.entries.get_mut(key) else { return };
    // One that ends without a slot has paid for those it had.
    let cost = if entry.slot.held().is_some() { ended.cost.max(entry.charged) } else { entry.charged };
    entry.state = State::Done(Ended { cost, ..ended });
    drop(entry);
    services.effects.ended.push(key.clone());
    services.scheduling.settle_ended(services);
}

/// What an attempt comes to that began then and ends now: in milliseconds, and in credits.
pub(crate) fn cost_since(started: tokio::time::Instant) -> (u64, u64) {
    let duration_ms = started.elapsed().as_millis() as u64;
    (duration_ms, duration_ms.clamp(1, ostler_scheduler::COST_MAX))
}

/// The outcome of an attempt that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    failed(FailureCategory::Crash, format!("the tool panicked: {}", panic_words(panic)))
}

pub(crate) fn failed(category: FailureCategory, message: String) -> Outcome {
    Outcome::Failed(Failure { category, message })
}

/// What a panic says.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned())
}
