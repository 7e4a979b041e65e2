//! Mailboxes of the tree's children. A mailbox survives the restart of its child, so no sender holds a dead actor.

use std::sync::Mutex;
use std::time::Duration;

use ostler_supervisor::{ChildRef, ChildSpec, Pool, StableRef, StartChildError};

use crate::base::lock::lock;
use crate::messages::evaluator::EvaluatorMessage;
use crate::messages::registry::RegistryMessage;
use crate::messages::scheduler::SchedulerMessage;

#[derive(Default)]
pub(crate) struct Mailboxes {
    pub(crate) registry: StableRef<RegistryMessage>,
    pub(crate) evaluator: StableRef<EvaluatorMessage>,
    pub(crate) scheduler: StableRef<SchedulerMessage>,
    pool: Mutex<Option<(Pool, u64)>>,
}

impl Mailboxes {
    pub(crate) fn set_pool(&self, pool: Option<Pool>) {
        let mut link = lock(&self.pool);
        let number = link.as_ref().map_or(0, |(_, number)| number + 1);
        *link = pool.map(|pool| (pool, number));
    }

    /// Drops the pool, which holds the mailbox, once the tree has ended.
    pub(crate) fn clear(&self) {
        self.set_pool(None);
    }

    pub(crate) fn pool(&self) -> Option<(Pool, u64)> {
        lock(&self.pool).clone()
    }

    /// Sends to the registry. A restarting registry finds the work in the journal.
    pub(crate) fn tell_registry(&self, message: RegistryMessage) {
        let _ = self.registry.send(message);
    }

    /// Sends to the evaluator. A restarting evaluator reads the journal.
    pub(crate) fn tell_evaluator(&self, message: EvaluatorMessage) {
        let _ = self.evaluator.send(message);
    }

    #[cfg(test)]
    pub(crate) fn registry(&self) -> Option<ractor::ActorRef<RegistryMessage>> {
        self.registry.get().ok()
    }
}

/// Delay before a failed start is repeated.
pub(crate) const START_AGAIN: Duration = Duration::from_millis(10);

/// Starts a child. Waits while an actor of the same name is still ending.
pub(crate) async fn start_in(pool: &Pool, spec: ChildSpec) -> Result<ChildRef, StartChildError> {
    loop {
        match pool.start_child(spec.clone()).await {
            Err(StartChildError::AlreadyPresent { .. }) => {
                tokio::time::sleep(START_AGAIN).await;
            }
            started => return started,
        }
    }
}
