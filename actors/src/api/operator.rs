//! Operator controls of the gate: the lockdown, the policy and the clearance authority.

use std::sync::Arc;

use ostler_kernel::port::{ClearanceAuthority, LockdownStore, PolicySource};

use crate::api::system::System;

/// Error of an operator's change to the gate.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The store failed. Stopped calls stay stopped in this process, but a restart may release them.
    #[error("the lockdown cannot be stored: {0}; stopped calls stay stopped until this process ends")]
    Lockdown(std::io::Error),
    /// The system has no source of policies.
    #[error("no file: this system's policy is not read from one")]
    NoSource,
    /// The source holds no valid policy.
    #[error("{0}\nthe policy in force stays")]
    Policy(String),
}

impl System {
    /// Keeps lockdowns in a store from now on. A stored lockdown, and a store that cannot be read, stop all calls.
    pub fn keep_lockdown(&self, store: Arc<dyn LockdownStore>) {
        let on = store.is_on().unwrap_or_else(|error| {
            tracing::error!(%error, "the lockdown cannot be read: all calls are stopped");
            true
        });
        self.services.gatekeeper.set_lockdown(on);
        let _ = self.lockdown.set(store);
    }

    /// Sets the source of [`System::reload_policy`]. The first source stays.
    pub fn read_policy_from(&self, source: Arc<dyn PolicySource>) {
        let _ = self.policy_source.set(source);
    }

    /// Sets the authority for the calls of the policy's clearance routes. The first authority stays.
    pub fn clear_with(&self, authority: Arc<dyn ClearanceAuthority>) {
        self.services.gatekeeper.clearance.set_authority(authority);
    }

    /// True if all calls are stopped.
    pub fn is_locked_down(&self) -> bool {
        self.services.gatekeeper.is_locked_down()
    }

    /// Stops all new calls of tools, or releases the stop. Durable on return, if the system has a store.
    ///
    /// # Errors
    ///
    /// [`OperatorError::Lockdown`]: a stop holds until the process ends; a release has no effect.
    pub async fn set_lockdown(&self, on: bool) -> Result<(), OperatorError> {
        // A stop precedes the write and a release follows the write: no call starts during the write.
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

    /// Replaces the policy in force with the policy of the source; returns the new epoch. Later verdicts follow the new policy, and
    /// held calls are shown to a person again.
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
