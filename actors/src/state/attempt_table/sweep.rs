//! Attempts that acted stay in the table until their end is durable, because they must not run again.

use std::sync::Arc;

use futures::FutureExt;
use ostler_kernel::port::{JournalError, Position};

use super::AttemptTable;
use crate::base::keys::AttemptKey;
use crate::base::lock::lock;
use crate::messages::registry::RegistryMessage;

impl AttemptTable {
    /// Notes the position of the record of an end. The entry of an attempt that acted stays until that is durable.
    pub(crate) fn ordered(&self, key: AttemptKey, upto: Position) {
        let acts = self.entries.get_mut(&key).is_some_and(|mut entry| {
            entry.ordered = entry.acts.then_some(upto);
            entry.acts
        });
        if acts {
            lock(&self.kept).push_back((upto, key));
        } else {
            self.entries.remove(&key);
        }
        self.forgotten.notify_waiters();
    }

    /// Position of the last record that entries wait for.
    pub(crate) fn last_kept(&self) -> Option<Position> {
        lock(&self.kept).iter().map(|(upto, _)| *upto).max()
    }

    /// Removes entries with durable records. Returns attempts with rolled back records.
    fn take_undone(&self) -> Vec<AttemptKey> {
        let mut undone = Vec::new();
        let mut kept = lock(&self.kept);
        while let Some((upto, key)) = kept.front() {
            // An entry that was recorded again or attached has another position, or none.
            match self.journal.durable(*upto).now_or_never() {
                None => break,
                Some(Ok(())) => drop(self.entries.remove_if(key, |_, entry| entry.ordered == Some(*upto))),
                Some(Err(JournalError::Full(_))) => {
                    let entry = self.entries.get_mut(key).filter(|entry| entry.ordered == Some(*upto));
                    undone.extend(entry.map(|mut entry| {
                        entry.ordered = None;
                        key.clone()
                    }));
                }
                // The journal is gone, and the process ends.
                Some(Err(_)) => {}
            }
            kept.pop_front();
        }
        undone
    }

    /// Removes attempts with durable records. A rolled back end is recorded again by the run's driver.
    pub(crate) fn sweep(&self) {
        self.take_undone().into_iter().for_each(|key| self.undelivered_result(key));
    }

    /// The same, once all present entries can be durable.
    pub(crate) fn sweep_when_durable(self: &Arc<AttemptTable>) {
        let Some(last) = self.last_kept() else { return };
        let table = Arc::clone(self);
        tokio::spawn(async move {
            // The sweep decides whether the records are durable or were rolled back.
            let _ = table.journal.durable(last).await;
            table.sweep();
        });
    }

    /// Handles a result that reached an agent with another run: a driver finds its results itself, and the registry
    /// records the ones of inactive runs.
    pub(crate) fn undelivered_result(&self, key: AttemptKey) {
        if !self.active_runs.has(key.run) {
            self.mailboxes.tell_registry(RegistryMessage::UndeliveredResult(key));
        }
    }
}
