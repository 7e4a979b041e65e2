//! Where the children of the tree are now. Each of their starts is reached through the same reference, so nobody holds on
//! to one that has died.

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
    /// With its number: one more for each start.
    pool: Mutex<Option<(Pool, u64)>>,
}

impl Mailboxes {
    pub(crate) fn set_pool(&self, pool: Option<Pool>) {
        let mut link = lock(&self.pool);
        let number = link.as_ref().map_or(0, |(_, number)| number + 1);
        *link = pool.map(|pool| (pool, number));
    }

    /// Lets go of the pool: the tree has ended. What it holds on to, this among it, is free then.
    pub(crate) fn clear(&self) {
        self.set_pool(None);
    }

    /// The pool, and which start of it this is.
    pub(crate) fn pool(&self) -> Option<(Pool, u64)> {
        lock(&self.pool).clone()
    }

    /// Sends to the registry. A registry that is down finds the work in the journal when it is up again.
    pub(crate) fn tell_registry(&self, message: RegistryMessage) {
        let _ = self.registry.send(message);
    }

    /// Sends to the evaluator. One that is down reads what it missed in the journal when it is up again.
    pub(crate) fn tell_evaluator(&self, message: EvaluatorMessage) {
        let _ = self.evaluator.send(message);
    }

    #[cfg(test)]
    pub(crate) fn registry(&self) -> Option<ractor::ActorRef<RegistryMessage>> {
        self.registry.get().ok()
    }
}

/// Wait before a start that could not be is tried again.
pub(crate) const START_AGAIN: Duration = Duration::from_millis(10);

/// Starts a child. One of its name may still be on its way out: then it waits.
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
