//! Where the children of the tree are now. Each start of a child puts a fresh reference here, so nobody holds on to
//! one that has died.

use std::sync::Mutex;

use ostler_scheduler::JobHandle;
use ostler_supervisor::Pool;
use ractor::ActorRef;

use crate::registry::RegistryMessage;
use crate::scheduler::SchedulerMessage;
use crate::services::lock;

#[derive(Default)]
pub(crate) struct Links {
    registry: Mutex<Option<ActorRef<RegistryMessage>>>,
    scheduler: Mutex<Option<ActorRef<SchedulerMessage>>>,
    /// With its number: one more for each start.
    pool: Mutex<Option<(Pool, u64)>>,
}

impl Links {
    pub(crate) fn set_registry(&self, registry: Option<ActorRef<RegistryMessage>>) {
        *lock(&self.registry) = registry;
    }

    pub(crate) fn set_scheduler(&self, scheduler: Option<ActorRef<SchedulerMessage>>) {
        *lock(&self.scheduler) = scheduler;
    }

    pub(crate) fn set_pool(&self, pool: Option<Pool>) {
        let mut link = lock(&self.pool);
        let number = link.as_ref().map_or(0, |(_, number)| number + 1);
        *link = pool.map(|pool| (pool, number));
    }

    /// Lets go of everybody: the tree has ended. What they hold on to, this among it, is free then.
    pub(crate) fn clear(&self) {
        self.set_registry(None);
        self.set_scheduler(None);
        self.set_pool(None);
    }

    /// The pool, and which start of it this is.
    pub(crate) fn pool(&self) -> Option<(Pool, u64)> {
        lock(&self.pool).clone()
    }

    /// Gives a granted slot back unused.
    pub(crate) fn give_back(&self, job: JobHandle) {
        self.tell_scheduler(SchedulerMessage::Settle { job, cost: 1, ended: None });
    }

    /// Sends to the registry. A registry that is down finds the work in the journal when it is up again.
    pub(crate) fn tell_registry(&self, message: RegistryMessage) {
        if let Some(registry) = &*lock(&self.registry) {
            let _ = registry.cast(message);
        }
    }

    /// Sends to the scheduler; false if it is down. Agents are restarted after it, and queue their work again.
    pub(crate) fn tell_scheduler(&self, message: SchedulerMessage) -> bool {
        lock(&self.scheduler).as_ref().is_some_and(|scheduler| scheduler.cast(message).is_ok())
    }

    pub(crate) fn registry(&self) -> Option<ActorRef<RegistryMessage>> {
        lock(&self.registry).clone()
    }

    pub(crate) fn scheduler(&self) -> Option<ActorRef<SchedulerMessage>> {
        lock(&self.scheduler).clone()
    }
}
