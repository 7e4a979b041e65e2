//! The run queue as everybody reaches it: behind a lock, for as long as the scheduler's actor lives. What is asked for is done when
//! the call returns; between calls every slot that can be given out is.

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

/// The run queue, if it is open. While it is closed nothing is granted and settled; whoever queued something is restarted
/// after the scheduler, and queues it again.
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

    /// Opens the queue: which epoch of the scheduler that is. What ends while its slot is taken over waits for that.
    pub(crate) fn open(&self, slots: u32) -> Result<u64, ActorProcessingErr> {
        let mut held = lock(&self.slots);
        if let Some(grants) = held.take() {
            leave(&grants, &self.cx);
        }
        let grants = held.insert(SlotAllocator::adopting(&self.cx, slots)?);
        // Attempts that go on hear of their slots from here.
        grants.give_out(&self.cx, None);
        Ok(grants.epoch())
    }

    /// Closes what this epoch has opened, and keeps what is owed to whom.
    pub(crate) fn close(&self, epoch: u64) {
        if let Some(grants) = lock(&self.slots).take_if(|grants| grants.epoch() == epoch) {
            leave(&grants, &self.cx);
        }
    }

    /// Queues ready nodes of an agent's run; gives the slots that it gets at once. Those of others are sent.
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

    /// Settles a slot of an attempt that its agent made itself: how the accounts stand then, and the slots that the agent gets now.
    /// No accounts if the slot is of another epoch of the scheduler.
    pub(crate) fn settle(
        &self,
        owner: &Owner,
        run: RunId,
        ticket: Ticket,
        cost: u64,
    ) -> (Option<Accounts>, Vec<Granted>) {
        let settled = self.with(|grants| {
            let accounts = grants.charge(&self.cx, ticket, cost);
            // Whoever renews its terms meanwhile counts both or neither.
            self.cx.ledger.client(&owner.lane.client).spend(run, cost);
            Ok((accounts, grants.give_out(&self.cx, Some(&owner.agent))))
        });
        settled.unwrap_or_else(|| {
            self.cx.ledger.client(&owner.lane.client).spend(run, cost);
            Default::default()
        })
    }

    /// Settles attempts that ended: which, and what they cost, stands in the effects table.
    pub(crate) fn settle_ended(&self) {
        self.tell(|grants| {
            grants.settle_ended(&self.cx, Vec::new());
            Ok(())
        });
    }

    /// An attempt that was granted never started.
    pub(crate) fn give_back(&self, ticket: Ticket) {
        self.tell(|grants| {
            grants.give_back(&self.cx, ticket);
            Ok(())
        });
    }

    /// An attempt only waits: others have its slot from here on. False while the scheduler is being restarted; it keeps its slot then.
    pub(crate) fn yield_slot(&self, key: &AttemptKey) -> bool {
        let yielded = self.with(|grants| {
            grants.yield_slot(&self.cx, key);
            grants.give_out(&self.cx, None);
            Ok(())
        });
        yielded.is_some()
    }

    /// An attempt that has said so wants a slot again; false if there is no room in the queue. While the scheduler is being
    /// restarted, that looks for it.
    pub(crate) fn reclaim(&self, key: &AttemptKey) -> bool {
        let reclaimed = self.with(|grants| {
            let has_room = grants.reclaim(&self.cx, key)?;
            grants.give_out(&self.cx, None);
            Ok(has_room)
        });
        reclaimed.unwrap_or(true)
    }

    /// An attempt has its end to tell alone: it waits for no credits any more. A scheduler that is being restarted finds it so.
    pub(crate) fn drains(&self, key: &AttemptKey) {
        self.cx.attempts.drains(key);
        self.tell(|grants| grants.requeue(&self.cx, key));
    }

    /// An agent was started: whatever an earlier epoch of it had queued is void, but for the jobs that still run.
    pub(crate) fn register(&self, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        self.tell(|grants| {
            grants.register(&self.cx, agent, actor);
            Ok(())
        });
    }

    /// The actor of an agent is gone for now: what it had queued is void, but for the jobs that still run.
    pub(crate) fn unregister(&self, agent: &AgentId) {
        self.tell(|grants| {
            grants.void(&self.cx, agent);
            Ok(())
        });
    }

    /// The terms of a client have changed.
    pub(crate) fn renew_terms(&self, client: &ClientId) {
        self.tell(|grants| grants.renew_terms(&self.cx, client));
    }

    /// Credits that the attempts of a client hold that are under way; `None` while the scheduler is being restarted.
    pub(crate) fn held(&self, client: &ClientId) -> Option<u64> {
        self.with(|grants| Ok(grants.held(client)))
    }

    /// No more grants.
    pub(crate) fn stop(&self) {
        self.tell(|grants| {
            grants.stop();
            Ok(())
        });
    }

    /// How the queue stands, for people and programs; `None` while the scheduler is being restarted.
    pub(crate) fn show(&self) -> Option<QueueShown> {
        self.with(|grants| Ok(grants.show()))
    }

    /// How the queue stands, for whoever measures.
    pub(crate) fn look(&self) -> Option<QueueLook> {
        self.with(|grants| Ok(grants.look()))
    }

    /// How the accounts of clients and agents stand: virtual times, what divisions left over, and balances.
    #[cfg(test)]
    pub(crate) fn accounts(&self) -> Option<Vec<String>> {
        self.with(|grants| Ok(grants.accounts()))
    }

    /// Changes the queue, and sends out what can be granted then.
    fn tell(&self, act: impl FnOnce(&mut SlotAllocator) -> Result<(), ActorProcessingErr>) {
        self.with(|grants| {
            act(grants)?;
            grants.give_out(&self.cx, None);
            Ok(())
        });
    }

    /// Does something with the queue, if it is open. One that fails in the middle is closed: its actor ends, and the next epoch
    /// reads everything again.
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
