//! True if the system runs, is stopping or has halted, and the signal that the state of a run may have changed.

use tokio::sync::watch;

use super::fault_injection::FaultInjector;

/// The status of a system, shared by all its components.
pub(crate) struct SystemStatus {
    stopping: watch::Sender<bool>,
    /// The reason, once the system has halted.
    halted: watch::Sender<Option<String>>,
    /// Counts changes that may concern a waiter for any run.
    changes: watch::Sender<u64>,
    pub(crate) faults: FaultInjector,
}

impl Default for SystemStatus {
    fn default() -> SystemStatus {
        SystemStatus {
            stopping: watch::Sender::new(false),
            halted: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            faults: FaultInjector::default(),
        }
    }
}

impl SystemStatus {
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(crate) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Halts the system after a failure: what is not durable by now never will be.
    pub(crate) fn halt(&self, why: &str) {
        tracing::error!(why, "the system halts");
        self.end(why);
    }

    /// Halts the system in good order. The first reason stays.
    pub(crate) fn end(&self, why: &str) {
        self.halted.send_if_modified(|halted| {
            let first = halted.is_none();
            halted.get_or_insert_with(|| why.to_owned());
            first
        });
        self.notify_changed();
    }

    /// The reason why the system has halted, if it has.
    pub(crate) fn halted(&self) -> Option<String> {
        self.halted.borrow().clone()
    }

    pub(crate) fn has_halted(&self) -> bool {
        self.halted.borrow().is_some()
    }

    pub(crate) fn watch_halted(&self) -> watch::Receiver<Option<String>> {
        self.halted.subscribe()
    }

    pub(crate) fn notify_changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Signals changes; subscribed before the state is read, it misses none.
    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
