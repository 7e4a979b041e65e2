//! The run queue behind a lock, open while the scheduler's actor lives. A call takes effect before it returns, and
//! between calls every slot that can be granted is granted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ractor::{ActorProcessingErr, ActorRef};

use super::slot_allocator::SlotAllocator;
use crate::base::keys::{AttemptKey, Owner};
use crate::base::lock::lock;
use crate::base::panic_message::panic_message;
use crate::messages::agent::AgentMessage;
use crate::messages::mailboxes::Mailboxes;
use crate::messages::scheduler::SchedulerMessage;
use crate::messages::slots::{Granted, Job, Ticket};
use crate::metrics::QueueLook;
use crate::scheduler::context::QueueContext;
use crate::scheduler::rows::QueueShown;

/// The run queue. While it is closed nothing is granted or settled; agents restart after the scheduler and queue their
/// jobs again.
pub(crate) struct SchedulerHandle {
    cx: QueueContext,
    slots: Mutex<Option<SlotAllocator>>,
}

impl SchedulerHandle {
    pub(crate) fn new(cx: QueueContext) -> SchedulerHandle {
        SchedulerHandle { cx, slots: Mutex::default() }
    }

    pub(crate) fn mailboxes(&self) -> &Mailboxes {
        &self.cx.mailboxes
    }

    /// Opens the queue and returns its epoch. Settlements wait while running attempts are adopted.
    pub(crate) fn open(&self, slots: u32) -> Result<u64, ActorProcessingErr> {
        let mut held = lock(&self.slots);
        if let Some(grants) = held.take() {
            leave(&grants, &self.cx);
        }
        let grants = held.insert(SlotAllocator::adopting(&self.cx, slots)?);
        // Resumed attempts receive their slots from here.
        grants.give_out(&self.cx, None);
        Ok(grants.epoch())
    }

    /// Closes the queue of the epoch and stores the accounts.
    pub(crate) fn close(&self, epoch: u64) {
        if let Some(grants) = lock(&self.slots).take_if(|grants| grants.epoch() == epoch) {
            leave(&grants, &self.cx);
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
            let accounts = grants.charge(&self.cx, ticket, cost, covered);
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
            leave(&grants, &self.cx);
        }
        drop(held);
        let _ = self.cx.mailboxes.scheduler.send(SchedulerMessage::Broken(why));
        None
    }
}

fn leave(grants: &SlotAllocator, cx: &QueueContext) {
    if catch_unwind(AssertUnwindSafe(|| grants.leave(cx))).is_err() {
        tracing::error!(
            "the scheduler left its queue in a state that cannot be read: who is behind is forgotten"
        );
    }
}
