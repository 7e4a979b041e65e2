//! Attempts that yield their slot while they wait, and want one again.

use ostler_kernel::event::Accounts;
use ostler_kernel::id::RunId;
use ractor::ActorProcessingErr;

use super::SlotAllocator;
use crate::base::keys::AttemptKey;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::Job;
use crate::scheduler::context::QueueContext;
use crate::scheduler::queued::Purpose;
use crate::state::attempt_slot::{Leaves, Wants};

impl SlotAllocator {
    /// Charges an attempt that waits, and frees its slot.
    pub(in crate::scheduler) fn yield_slot(&mut self, cx: &QueueContext, key: &AttemptKey) {
        if let Some(leaves) = cx.attempts.yield_slot(key) {
            self.take_leave(cx, key.run, leaves);
        }
    }

    /// Removes an attempt from the queue and charges the rest of its cost; returns the accounts if it held a slot.
    pub(super) fn take_leave(
        &mut self,
        cx: &QueueContext,
        run: RunId,
        Leaves { ticket, owner, due, token_charge }: Leaves,
    ) -> Option<Accounts> {
        let covered = cx.ledger.client(&owner.lane.client).spend(run, due);
        let ticket = ticket.filter(|ticket| ticket.epoch == self.epoch)?;
        if self.queue.cancel(ticket.job, &mut self.events).is_ok() {
            self.forget(&owner.agent, ticket.job);
            None
        } else if due == 0 && token_charge == 0 {
            // Yielding had paid for it.
            self.free(cx, ticket.job)
        } else {
            self.charge(cx, ticket, due, covered, token_charge)
        }
    }

    /// Queues an attempt that wants a slot again, before jobs that have not begun; `false` if the queue is full.
    pub(in crate::scheduler) fn reclaim(
        &mut self,
        cx: &QueueContext,
        key: &AttemptKey,
    ) -> Result<bool, ActorProcessingErr> {
        let Some(Wants { owner, agent, estimate }) = cx.attempts.wants(key, self.epoch) else {
            return Ok(true);
        };
        if !self.know(cx, &owner, &agent) {
            return Ok(false);
        }
        let job = Job { run: key.run, node: key.node.clone(), rank: 0, opened_ms: 0, estimate, model: None };
        let pushed = self.push(&owner, job, Purpose::Resume(key.clone()))?;
        if let Some(ticket) = pushed {
            cx.attempts.queued(key, ticket);
        }
        if let Some(known) = self.agents.get(&owner.agent) {
            if known.books.client.is_parked() {
                let _ = known.actor.cast(AgentMessage::OutOfCredit { out: true, surplus: false });
            }
            if known.jobs.is_empty() {
                self.agents.remove(&owner.agent);
            }
        }
        self.tenants.restore_new(&mut self.queue, &mut self.events)?;
        Ok(pushed.is_some())
    }

    /// Queues an attempt again on terms that need no credits.
    pub(in crate::scheduler) fn requeue(
        &mut self,
        cx: &QueueContext,
        key: &AttemptKey,
    ) -> Result<(), ActorProcessingErr> {
        let Some(leaves) = cx.attempts.unqueue(key) else { return Ok(()) };
        self.take_leave(cx, key.run, leaves);
        if !self.reclaim(cx, key)? {
            cx.attempts.ask_again(key);
        }
        Ok(())
    }

    pub(super) fn reclaim_all(&mut self, cx: &QueueContext) -> Result<(), ActorProcessingErr> {
        for key in cx.attempts.all_wanting() {
            if !self.reclaim(cx, &key)? {
                cx.attempts.ask_again(&key);
            }
        }
        Ok(())
    }
}
