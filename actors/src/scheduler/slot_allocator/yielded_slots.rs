//! Attempts that give their slot back while they wait, and want one again to go on.

use ostler_kernel::event::Accounts;
use ostler_kernel::id::RunId;
use ractor::ActorProcessingErr;

use super::Grants;
use crate::attempts::attempt_table::{AttemptKey, Leaves, Wants};
use crate::run::AgentMessage;
use crate::scheduler::Job;
use crate::services::Services;

impl Grants {
    /// An attempt waits from here on: what it cost so far is charged, and its slot is free.
    pub(in crate::scheduler) fn vacate(&mut self, services: &Services, key: &AttemptKey) {
        if let Some(leaves) = services.effects.vacate(key) {
            self.take_leave(services, key.run, leaves);
        }
    }

    /// Takes an attempt out of the queue, and charges what it owes: how the accounts stand then, if it held a slot.
    pub(super) fn take_leave(
        &mut self,
        services: &Services,
        run: RunId,
        Leaves { ticket, owner, due }: Leaves,
    ) -> Option<Accounts> {
        services.ledger.client(&owner.lane.client).spend(run, due);
        let ticket = ticket.filter(|ticket| ticket.life == self.life)?;
        if self.queue.cancel(ticket.job, &mut self.events).is_ok() {
            self.forget(&owner.agent, ticket.job);
            None
        } else if due == 0 {
            // It was paid for when it gave up the slot before.
            self.free(services, ticket.job)
        } else {
            self.charge(services, ticket, due)
        }
    }

    /// Queues an attempt that wants a slot to go on; false if there is no room. What is under way goes before what has not begun.
    pub(in crate::scheduler) fn reclaim(
        &mut self,
        services: &Services,
        key: &AttemptKey,
    ) -> Result<bool, ActorProcessingErr> {
        let Some(Wants { owner, agent, estimate }) = services.effects.wants(key, self.life) else {
            return Ok(true);
        };
        if !self.know(services, &owner, &agent) {
            return Ok(false);
        }
        let job = Job { run: key.run, node: key.node.clone(), rank: 0, opened_ms: 0, estimate };
        let pushed = self.push(&owner, job, Some(key.clone()))?;
        if let Some(ticket) = pushed {
            services.effects.queued(key, ticket);
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

    /// Queues an attempt anew that is queued to go on, as it waits for no credits any more.
    pub(in crate::scheduler) fn requeue(
        &mut self,
        services: &Services,
        key: &AttemptKey,
    ) -> Result<(), ActorProcessingErr> {
        let Some(leaves) = services.effects.unqueue(key) else { return Ok(()) };
        self.take_leave(services, key.run, leaves);
        if !self.reclaim(services, key)? {
            services.effects.ask_again(key);
        }
        Ok(())
    }

    /// Queues whatever wants a slot to go on, in an earlier life of the scheduler or since.
    pub(super) fn reclaim_all(&mut self, services: &Services) -> Result<(), ActorProcessingErr> {
        for key in services.effects.all_wanting() {
            if !self.reclaim(services, &key)? {
                services.effects.ask_again(&key);
            }
        }
        Ok(())
    }
}
