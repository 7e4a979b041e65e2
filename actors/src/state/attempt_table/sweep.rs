//! Attempts that acted on the world stay in the table until their end is durable: it would not be done again.

use std::sync::Arc;

use futures::FutureExt;
use ostler_kernel::port::{JournalError, Position};

use super::AttemptTable;
use crate::base::keys::AttemptKey;
use crate::base::lock::lock;
use crate::messages::registry::RegistryMessage;

impl AttemptTable {
    /// The end of the attempt is ordered, up to there. What acted on the world is kept until that is durable, as it would not be done
    /// again.
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

    /// Where the last end is ordered of those that are kept for it.
    pub(crate) fn last_kept(&self) -> Option<Position> {
        lock(&self.kept).iter().map(|(upto, _)| *upto).max()
    }

    /// Lets go of what is kept and durable by now. Gives those whose end was undone: it is not ordered any more.
    fn take_undone(&self) -> Vec<AttemptKey> {
        let mut undone = Vec::new();
        let mut kept = lock(&self.kept);
        while let Some((upto, key)) = kept.front() {
            // What was ordered anew meanwhile, or taken up again, has another place, or none.
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

    /// Forgets attempts that acted and whose end is durable by now. An end that was undone is recorded anew, by whatever
    /// drives the run then.
    pub(crate) fn sweep(&self) {
        self.take_undone().into_iter().for_each(|key| self.undelivered_result(key));
    }

    /// The same, once all that is kept by now is durable.
    pub(crate) fn sweep_when_durable(self: &Arc<AttemptTable>) {
        let Some(last) = self.last_kept() else { return };
        let table = Arc::clone(self);
        tokio::spawn(async move {
            // The sweep finds out whether it is, or was undone.
            let _ = table.journal.durable(last).await;
            table.sweep();
        });
    }

    /// The end of an attempt reached an agent that drives another run: the agent of its run finds the end itself, and for
    /// a run that is not active the registry records it.
    pub(crate) fn undelivered_result(&self, key: AttemptKey) {
        if !self.active_runs.has(key.run) {
            self.mailboxes.tell_registry(RegistryMessage::UndeliveredResult(key));
        }
    }
}
