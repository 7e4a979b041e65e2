//! What operators do to the gate: stop all calls, and put another policy in force.

use std::sync::Arc;

use ostler_kernel::port::{ClearanceAuthority, LockdownStore, PolicySource};

use crate::api::system::System;

/// Why an operator's wish had no effect.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The lockdown cannot be kept.
    #[error("the lockdown cannot be kept: {0}; nothing has changed")]
    Lockdown(std::io::Error),
    /// The policy is not read from anywhere.
    #[error("no file: this system's policy is not read from one")]
    NoSource,
    /// What is written is no policy.
    #[error("{0}\nthe policy in force stays")]
    Policy(String),
}

impl System {
    /// Keeps lockdowns in a store from now on. If it says that calls are stopped, or cannot tell, they are.
    pub fn keep_lockdown(&self, store: Arc<dyn LockdownStore>) {
        let on = store.is_on().unwrap_or_else(|error| {
            tracing::error!(%error, "the lockdown cannot be read: all calls are stopped");
            true
        });
        self.services.gatekeeper.set_lockdown(on);
        let _ = self.lockdown.set(store);
    }

    /// Reads the policy from a source, whenever an operator asks for it.
    pub fn read_policy_from(&self, source: Arc<dyn PolicySource>) {
        let _ = self.policy_source.set(source);
    }

    /// Asks this authority about the calls of the policy's clearance routes. The first one stays.
    pub fn clear_with(&self, authority: Arc<dyn ClearanceAuthority>) {
        self.services.gatekeeper.clearance.set_authority(authority);
    }

    /// True if all calls are stopped.
    pub fn is_locked_down(&self) -> bool {
        self.services.gatekeeper.is_locked_down()
    }

    /// Stops all new calls of tools, or lets them go on. Durable on return, if the system has a store.
    ///
    /// # Errors
    ///
    /// [`OperatorError::Lockdown`].
    pub async fn set_lockdown(&self, on: bool) -> Result<(), OperatorError> {
        // Stopped first, released last: no call slips through while the store is written.
        if on {
            self.services.gatekeeper.set_lockdown(true);
        }
        if let Some(store) = self.lockdown.get().map(Arc::clone) {
            let kept = tokio::task::spawn_blocking(move || store.set(on)).await;
            kept.map_err(std::io::Error::other).flatten().map_err(OperatorError::Lockdown)?;
        }
        self.services.gatekeeper.set_lockdown(on);
        tracing::warn!(on, "an operator set the lockdown");
        Ok(())
    }

    /// Puts the policy in force that is written now; returns its epoch. Later verdicts are by it, and what was held before is
    /// shown again.
    ///
    /// # Errors
    ///
    /// [`OperatorError::NoSource`], [`OperatorError::Policy`]: the policy in force stays.
    pub async fn reload_policy(&self) -> Result<u64, OperatorError> {
        let source = self.policy_source.get().map(Arc::clone).ok_or(OperatorError::NoSource)?;
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let policy = read.unwrap_or_else(|error| Err(error.to_string())).map_err(OperatorError::Policy)?;
        Ok(self.services.gatekeeper.replace_policy(policy))
    }
}
