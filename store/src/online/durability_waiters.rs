//! Callers waiting for durability.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::port::JournalError;
use tokio::sync::oneshot;

use crate::format::lsn::Lsn;

/// Most ranges of rejected addresses kept apart. Beyond the limit the two oldest ranges merge, which also covers the durable
/// addresses between: their callers, if any still ask, get a spurious error rather than a false acknowledgement.
const REJECTED_RANGES_MAX: usize = 1024;

type Answer = Result<(), JournalError>;

pub(super) struct DurabilityWaiters(Mutex<State>);

struct State {
    /// Frames starting before this address are durable, unless rejected.
    durable_end: Lsn,
    rejected: Vec<(Lsn, Lsn, JournalError)>,
    failed: Option<JournalError>,
    waiting: Vec<(Lsn, oneshot::Sender<Answer>)>,
}

impl State {
    fn answer(&self, lsn: Lsn) -> Option<Answer> {
        if let Some((.., error)) = self.rejected.iter().find(|(from, to, _)| (*from..*to).contains(&lsn)) {
            return Some(Err(error.clone()));
        }
        if lsn < self.durable_end {
            return Some(Ok(()));
        }
        self.failed.clone().map(Err)
    }

    fn answer_all(&mut self) {
        for (lsn, sender) in std::mem::take(&mut self.waiting) {
            match self.answer(lsn) {
                // The caller may have dropped the future.
                Some(answer) => drop(sender.send(answer)),
                None => self.waiting.push((lsn, sender)),
            }
        }
    }
}

impl DurabilityWaiters {
    pub(super) fn new(durable_end: Lsn) -> DurabilityWaiters {
        DurabilityWaiters(Mutex::new(State {
            durable_end,
            rejected: Vec::new(),
            failed: None,
            waiting: Vec::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn durable_end(&self) -> Lsn {
        self.state().durable_end
    }

    /// Sets the durable end and acknowledges everything before.
    pub(super) fn advance_to(&self, end: Lsn) {
        let mut state = self.state();
        state.durable_end = end;
        state.answer_all();
    }

    /// Rejects the addresses from `from` to before `to` for good.
    pub(super) fn reject(&self, from: Lsn, to: Lsn, error: JournalError) {
        let mut state = self.state();
        if state.rejected.len() == REJECTED_RANGES_MAX {
            let (from, ..) = state.rejected.remove(0);
            state.rejected[0].0 = from;
        }
        state.rejected.push((from, to, error));
        state.answer_all();
    }

    /// Fails all current and later waits for addresses behind the durable end.
    pub(super) fn fail_all(&self, error: JournalError) {
        let mut state = self.state();
        state.failed.get_or_insert(error);
        state.answer_all();
    }

    /// The answer for `lsn`, or a receiver of the answer.
    pub(super) fn wait(&self, lsn: Lsn) -> Result<Answer, oneshot::Receiver<Answer>> {
        let mut state = self.state();
        if let Some(answer) = state.answer(lsn) {
            return Ok(answer);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push((lsn, sender));
        Err(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_addresses_stay_rejected_however_far_the_durable_end_moves() {
        let waiters = DurabilityWaiters::new(Lsn(10));
        let full = || JournalError::Full("x".into());
        let pending = waiters.wait(Lsn(12)).unwrap_err();
        waiters.reject(Lsn(10), Lsn(20), full());
        waiters.advance_to(Lsn(30));
        assert_eq!(pending.blocking_recv().unwrap(), Err(full()));
        for (lsn, expected) in [(9, Ok(())), (10, Err(full())), (19, Err(full())), (20, Ok(()))] {
            assert_eq!(waiters.wait(Lsn(lsn)).unwrap(), expected, "{lsn}");
        }
        for range in 0..2 * REJECTED_RANGES_MAX as u64 {
            waiters.reject(Lsn(100 + 2 * range), Lsn(101 + 2 * range), full());
        }
        assert_eq!(waiters.state().rejected.len(), REJECTED_RANGES_MAX);
    }
}
