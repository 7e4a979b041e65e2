//! The run queue behind a lock, open while the scheduler's actor lives. A call takes effect before it returns, and
//! between calls every slot that can be granted is granted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_scheduler::JobHandle;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::queue_time::KeptLevels;
use super::queued::Asked;
use super::slot_allocator::SlotAllocator;
use crate::base::keys::{AttemptKey, Owner};
use crate::base::lock::lock;
use crate::base::panic_message::panic_message;
use crate::messages::agent::AgentMessage;
use crate::messages::mailboxes::Mailboxes;
use crate::messages::scheduler::SchedulerMessage;
use crate::messages::slots::{Granted, Job, ModelUse, Ticket, TurnRequest};
use crate::metrics::QueueLook;
use crate::scheduler::context::QueueContext;
use crate::scheduler::rows::{QueueShown, RateWait};
use crate::state::rates::Rates;

/// The run queue. While it is closed nothing is granted or settled; agents restart after the scheduler and queue their
/// jobs again.
pub(crate) struct SchedulerHandle {
    cx: QueueContext,
    slots: Mutex<Option<SlotAllocator>>,
    /// Levels of the last closed queue.
    levels: Mutex<Option<KeptLevels>>,
}

impl SchedulerHandle {
    pub(crate) fn new(cx: QueueContext) -> SchedulerHandle {
        SchedulerHandle { cx, slots: Mutex::default(), levels: Mutex::default() }
    }

    pub(crate) fn mailboxes(&self) -> &Mailboxes {
        &self.cx.mailboxes
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.cx.rates
    }

    /// Opens the queue and returns its epoch. Settlements wait while running attempts are adopted.
    pub(crate) fn open(&self, slots: u32) -> Result<u64, ActorProcessingErr> {
        let mut held = lock(&self.slots);
        if let Some(grants) = held.take() {
            self.leave(&grants);
        }
        let levels = lock(&self.levels).take();
        let grants = held.insert(SlotAllocator::adopting(&self.cx, slots, levels)?);
        // Resumed attempts receive their slots from here.
        grants.give_out(&self.cx, None);
        Ok(grants.epoch())
    }

    /// Closes the queue of the epoch and stores the accounts.
    pub(crate) fn close(&self, epoch: u64) {
        if let Some(grants) = lock(&self.slots).take_if(|grants| grants.epoch() == epoch) {
            self.leave(&grants);
        }
    }

    /// Queues jobs of an agent and returns its immediate grants. Grants of others are sent.
    pub(crate) fn enqueue(
        &self,
        owner: &Arc<Owner>,
        reply_to: &ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    ) -> Vec<Granted> {
        let granted = self.with(|grants| {
            grants.enqueue(&self.cx, owner, reply_to, jobs)?;
            Ok(grants.give_out(&self.cx, Some(&owner.agent)))
        });
        granted.unwrap_or_default()
    }

    /// Settles an inline attempt; returns the accounts and the agent's new grants. `None` accounts: the slot is of
    /// another epoch.
    pub(crate) fn settle(
        &self,
        owner: &Owner,
        run: RunId,
        ticket: Ticket,
        cost: u64,
    ) -> (Option<Accounts>, Vec<Granted>) {
        let settled = self.with(|grants| {
            // Under the lock, a concurrent renewal of terms counts both or neither.
            let covered = self.cx.ledger.client(&owner.lane.client).spend(run, cost);
            let accounts = grants.charge(&self.cx, ticket, cost, covered, 0);
            Ok((accounts, grants.give_out(&self.cx, Some(&owner.agent))))
        });
        settled.unwrap_or_else(|| {
            self.cx.ledger.client(&owner.lane.client).spend(run, cost);
            Default::default()
        })
    }

    pub(crate) fn settle_ended(&self) {
        self.tell(|grants| {
            grants.settle_ended(&self.cx, Vec::new());
            Ok(())
        });
    }

    /// Returns the slot of an attempt that never started.
    pub(crate) fn give_back(&self, ticket: Ticket) {
        self.tell(|grants| {
            grants.give_back(&self.cx, ticket);
            Ok(())
        });
    }

    /// Frees the slot of an attempt that only waits. `false` during a restart of the scheduler: the attempt keeps its
    /// slot.
    pub(crate) fn yield_slot(&self, key: &AttemptKey) -> bool {
        let yielded = self.with(|grants| {
            grants.yield_slot(&self.cx, key);
            grants.give_out(&self.cx, None);
            Ok(())
        });
        yielded.is_some()
    }

    /// Queues an attempt that wants a slot again; `false` if the queue is full. A restarting scheduler finds it in the
    /// table.
    pub(crate) fn reclaim(&self, key: &AttemptKey) -> bool {
        let reclaimed = self.with(|grants| {
            let has_room = grants.reclaim(&self.cx, key)?;
            grants.give_out(&self.cx, None);
            Ok(has_room)
        });
        reclaimed.unwrap_or(true)
    }

    /// Requeues a free attempt with only its end left to report.
    pub(crate) fn drains(&self, key: &AttemptKey) {
        self.cx.attempts.drains(key);
        self.tell(|grants| grants.requeue(&self.cx, key));
    }

    /// Registers a started agent: voids what its earlier incarnation queued, except running jobs.
    pub(crate) fn register(&self, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        self.tell(|grants| {
            grants.register(&self.cx, agent, actor);
            Ok(())
        });
    }

    /// Voids what an agent without an actor has queued, except running jobs.
    pub(crate) fn unregister(&self, agent: &AgentId) {
        self.tell(|grants| {
            grants.void(&self.cx, agent);
            Ok(())
        });
    }

    pub(crate) fn renew_terms(&self, client: &ClientId) {
        self.tell(|grants| grants.renew_terms(&self.cx, client));
    }

    /// Credits held by running attempts of a client; `None` during a restart of the scheduler.
    pub(crate) fn held(&self, client: &ClientId) -> Option<u64> {
        self.with(|grants| Ok(grants.held(client)))
    }

    pub(crate) fn stop(&self) {
        self.tell(|grants| {
            grants.stop();
            Ok(())
        });
    }

    /// Asks for the turn of a call that no job stands for.
    pub(crate) fn ask_turn(self: &Arc<Self>, request: TurnRequest) -> TurnAnswer {
        let (client, uses) = (request.owner.lane.client.clone(), request.uses.clone());
        let asked = self.with(|grants| {
            let asked = grants.ask_turn(&self.cx, request)?;
            grants.give_out(&self.cx, None);
            Ok((asked, grants.epoch()))
        });
        match asked {
            Some((Asked::Taken, _)) => TurnAnswer::Taken,
            Some((Asked::Waits(turn, receiver), epoch)) => {
                let scheduler = Arc::clone(self);
                TurnAnswer::Waits(TurnWait { scheduler, client, uses, epoch, turn, receiver, is_used: false })
            }
            Some((Asked::Full, _)) | None => TurnAnswer::NotNow,
        }
    }

    /// Counts the tokens and requests of an ended call beyond those of its turn, which may be negative, and parks the model for
    /// `park_ms`.
    pub(crate) fn turn_ended(
        &self,
        client: &ClientId,
        model: &str,
        beyond: (i64, i64),
        park_ms: Option<u64>,
    ) {
        if beyond != (0, 0) || park_ms.is_some() {
            self.tell(|grants| grants.turn_ended(client, model, beyond, park_ms));
        }
    }

    /// Grants what the passed time admits.
    pub(crate) fn time_passed(&self) {
        self.tell(|grants| {
            grants.timer_fired();
            Ok(())
        });
    }

    /// Calls of a run that wait for the rate of their model; none during a restart of the scheduler.
    pub(crate) fn rate_waits(&self, agent: &AgentId, run: RunId) -> Vec<RateWait> {
        self.with(|grants| Ok(grants.rate_waits(agent, run))).unwrap_or_default()
    }

    /// State of the queue; `None` during a restart of the scheduler.
    pub(crate) fn show(&self) -> Option<QueueShown> {
        self.with(|grants| Ok(grants.show()))
    }

    pub(crate) fn look(&self) -> Option<QueueLook> {
        self.with(|grants| Ok(grants.look()))
    }

    /// Accounts of clients and agents as text: virtual times, remainders and balances.
    #[cfg(test)]
    pub(crate) fn accounts(&self) -> Option<Vec<String>> {
        self.with(|grants| Ok(grants.accounts()))
    }

    /// Stores the accounts and levels of a queue that is closed.
    fn leave(&self, grants: &SlotAllocator) {
        let left = catch_unwind(AssertUnwindSafe(|| {
            *lock(&self.levels) = Some(grants.levels());
            grants.leave(&self.cx);
        }));
        if left.is_err() {
            tracing::error!(
                "the scheduler left its queue in a state that cannot be read: who is behind is forgotten"
            );
        }
    }

    fn tell(&self, act: impl FnOnce(&mut SlotAllocator) -> Result<(), ActorProcessingErr>) {
        self.with(|grants| {
            act(grants)?;
            grants.give_out(&self.cx, None);
            Ok(())
        });
    }

    /// Runs `act` on an open queue. A failure closes the queue and ends its actor; the next epoch reads everything
    /// again.
    fn with<T>(&self, act: impl FnOnce(&mut SlotAllocator) -> Result<T, ActorProcessingErr>) -> Option<T> {
        let mut held = lock(&self.slots);
        let grants = held.as_mut()?;
        let act = AssertUnwindSafe(|| {
            self.cx.status.faults.inject_panic("scheduler");
            act(grants)
        });
        let why = match catch_unwind(act) {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("the run queue panicked: {}", panic_message(&*panic)),
        };
        if let Some(grants) = held.take() {
            self.leave(&grants);
        }
        drop(held);
        let _ = self.cx.mailboxes.scheduler.send(SchedulerMessage::Broken(why));
        None
    }
}

/// The answer to a request for a turn.
pub(crate) enum TurnAnswer {
    /// The call may be made.
    Taken,
    /// The call waits.
    Waits(TurnWait),
    /// The queue is full, or restarts: the caller asks again after a delay.
    NotNow,
}

/// A call that waits for its turn. Dropping it gives the turn up.
pub(crate) struct TurnWait {
    scheduler: Arc<SchedulerHandle>,
    client: ClientId,
    uses: ModelUse,
    epoch: u64,
    turn: JobHandle,
    receiver: oneshot::Receiver<()>,
    is_used: bool,
}

impl TurnWait {
    /// Waits for the turn; `false` if the queue was closed before: the caller asks again.
    pub(crate) async fn granted(mut self) -> bool {
        let is_granted = (&mut self.receiver).await.is_ok();
        self.is_used = true;
        is_granted
    }
}

impl Drop for TurnWait {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        let TurnWait { client, uses, .. } = self;
        self.scheduler.tell(|grants| {
            // A turn that was given meanwhile is returned to the buckets.
            if grants.epoch() == self.epoch && !grants.cancel_turn(self.turn) {
                let tokens = i64::try_from(uses.tokens).unwrap_or(i64::MAX);
                grants.turn_ended(client, &uses.model, (-tokens, -1), None)?;
            }
            Ok(())
        });
    }
}
