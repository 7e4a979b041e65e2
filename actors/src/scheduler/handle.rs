//! The run queue as everybody reaches it: behind a lock, for as long as the scheduler's actor lives. What is asked for is done when
//! the call returns; between calls every slot that can be given out is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ractor::{ActorProcessingErr, ActorRef};

use super::slot_allocator::Grants;
use super::{Granted, Job, Owner, SchedulerMessage, Ticket};
use crate::api::clients::QueueShown;
use crate::attempts::attempt_table::{AttemptKey, panic_words};
use crate::base::lock::lock;
use crate::metrics::QueueLook;
use crate::run::AgentMessage;
use crate::services::Services;

/// The run queue, if it is open. While it is closed nothing is granted and settled; whoever queued something is restarted
/// after the scheduler, and queues it again.
#[derive(Default)]
pub(crate) struct Scheduling(Mutex<Option<Grants>>);

impl Scheduling {
    /// Opens the queue: which life of the scheduler that is. What ends while its slot is taken over waits for that.
    pub(crate) fn open(&self, services: &Services, slots: u32) -> Result<u64, ActorProcessingErr> {
        let mut held = lock(&self.0);
        if let Some(grants) = held.take() {
            leave(&grants, services);
        }
        let grants = held.insert(Grants::adopting(services, slots)?);
        // Attempts that go on hear of their slots from here.
        grants.give_out(services, None);
        Ok(grants.life())
    }

    /// Closes what this life has opened, and keeps what is owed to whom.
    pub(crate) fn close(&self, services: &Services, life: u64) {
        if let Some(grants) = lock(&self.0).take_if(|grants| grants.life() == life) {
            leave(&grants, services);
        }
    }

    /// Queues ready nodes of an agent's run; gives the slots that it gets at once. Those of others are sent.
    pub(crate) fn enqueue(
        &self,
        services: &Services,
        owner: &Arc<Owner>,
        reply_to: &ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    ) -> Vec<Granted> {
        let granted = self.with(services, |grants| {
            grants.enqueue(services, owner, reply_to, jobs)?;
            Ok(grants.give_out(services, Some(&owner.agent)))
        });
        granted.unwrap_or_default()
    }

    /// Settles a slot of an attempt that its agent made itself: how the accounts stand then, and the slots that the agent gets now.
    /// No accounts if the slot is of another life of the scheduler.
    pub(crate) fn settle(
        &self,
        services: &Services,
        owner: &Owner,
        run: RunId,
        ticket: Ticket,
        cost: u64,
    ) -> (Option<Accounts>, Vec<Granted>) {
        let settled = self.with(services, |grants| {
            let accounts = grants.charge(services, ticket, cost);
            // Whoever renews its terms meanwhile counts both or neither.
            services.ledger.client(&owner.lane.client).spend(run, cost);
            Ok((accounts, grants.give_out(services, Some(&owner.agent))))
        });
        settled.unwrap_or_else(|| {
            services.ledger.client(&owner.lane.client).spend(run, cost);
            Default::default()
        })
    }

    /// Settles attempts that ended: which, and what they cost, stands in the effects table.
    pub(crate) fn settle_ended(&self, services: &Services) {
        self.tell(services, |grants| {
            grants.settle_ended(services, Vec::new());
            Ok(())
        });
    }

    /// An attempt that was granted never started.
    pub(crate) fn give_back(&self, services: &Services, ticket: Ticket) {
        self.tell(services, |grants| {
            grants.give_back(services, ticket);
            Ok(())
        });
    }

    /// An attempt only waits: others have its slot from here on. False while the scheduler is being restarted; it keeps its slot then.
    pub(crate) fn vacate(&self, services: &Services, key: &AttemptKey) -> bool {
        let vacated = self.with(services, |grants| {
            grants.vacate(services, key);
            grants.give_out(services, None);
            Ok(())
        });
        vacated.is_some()
    }

    /// An attempt that has said so wants a slot again; false if there is no room in the queue. While the scheduler is being
    /// restarted, that looks for it.
    pub(crate) fn reclaim(&self, services: &Services, key: &AttemptKey) -> bool {
        let reclaimed = self.with(services, |grants| {
            let has_room = grants.reclaim(services, key)?;
            grants.give_out(services, None);
            Ok(has_room)
        });
        reclaimed.unwrap_or(true)
    }

    /// An attempt has its end to tell alone: it waits for no credits any more. A scheduler that is being restarted finds it so.
    pub(crate) fn drains(&self, services: &Services, key: &AttemptKey) {
        services.effects.drains(key);
        self.tell(services, |grants| grants.requeue(services, key));
    }

    /// An agent was started: whatever an earlier life of it had queued is void, but for the jobs that still run.
    pub(crate) fn hello(&self, services: &Services, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        self.tell(services, |grants| {
            grants.hello(services, agent, actor);
            Ok(())
        });
    }

    /// The actor of an agent is gone for now: what it had queued is void, but for the jobs that still run.
    pub(crate) fn bye(&self, services: &Services, agent: &AgentId) {
        self.tell(services, |grants| {
            grants.void(services, agent);
            Ok(())
        });
    }

    /// The terms of a client have changed.
    pub(crate) fn renew_terms(&self, services: &Services, client: &ClientId) {
        self.tell(services, |grants| grants.renew_terms(services, client));
    }

    /// Credits that the attempts of a client hold that are under way; `None` while the scheduler is being restarted.
    pub(crate) fn held(&self, services: &Services, client: &ClientId) -> Option<u64> {
        self.with(services, |grants| Ok(grants.held(client)))
    }

    /// No more grants.
    pub(crate) fn stop(&self, services: &Services) {
        self.tell(services, |grants| {
            grants.stop();
            Ok(())
        });
    }

    /// How the queue stands, for people and programs; `None` while the scheduler is being restarted.
    pub(crate) fn show(&self, services: &Services) -> Option<QueueShown> {
        self.with(services, |grants| Ok(grants.show()))
    }

    /// How the queue stands, for whoever measures.
    pub(crate) fn look(&self, services: &Services) -> Option<QueueLook> {
        self.with(services, |grants| Ok(grants.look()))
    }

    /// How the accounts of clients and agents stand: virtual times, what divisions left over, and balances.
    #[cfg(test)]
    pub(crate) fn accounts(&self, services: &Services) -> Option<Vec<String>> {
        self.with(services, |grants| Ok(grants.accounts()))
    }

    /// Changes the queue, and sends out what can be granted then.
    fn tell(&self, services: &Services, act: impl FnOnce(&mut Grants) -> Result<(), ActorProcessingErr>) {
        self.with(services, |grants| {
            act(grants)?;
            grants.give_out(services, None);
            Ok(())
        });
    }

    /// Does something with the queue, if it is open. One that fails in the middle is closed: its actor ends, and the next life
    /// reads everything again.
    fn with<T>(
        &self,
        services: &Services,
        act: impl FnOnce(&mut Grants) -> Result<T, ActorProcessingErr>,
    ) -> Option<T> {
        let mut held = lock(&self.0);
        let grants = held.as_mut()?;
        let act = AssertUnwindSafe(|| {
            #[cfg(test)]
            services.trip("scheduler");
            act(grants)
        });
        let why = match catch_unwind(act) {
            Ok(Ok(done)) => return Some(done),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("the run queue panicked: {}", panic_words(&*panic)),
        };
        if let Some(grants) = held.take() {
            leave(&grants, services);
        }
        drop(held);
        let _ = services.links.scheduler.send(SchedulerMessage::Broken(why));
        None
    }
}

fn leave(grants: &Grants, services: &Services) {
    if catch_unwind(AssertUnwindSafe(|| grants.leave(services))).is_err() {
        tracing::error!(
            "the scheduler left its queue in a state that cannot be read: who is behind is forgotten"
        );
    }
}
