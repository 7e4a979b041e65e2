//! Who waits for what to be durable.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::port::JournalError;
use tokio::sync::oneshot;

use super::frame::Place;

/// Most spans of lost places that are told apart; the two oldest become one beyond it.
const LOST_SPANS_MAX: usize = 1024;

type Answer = Result<(), JournalError>;

/// Who waits for what to be durable, and what is.
pub(crate) struct Acks(Mutex<State>);

struct State {
    /// Frames that start before this are durable, unless they are lost.
    synced: Place,
    /// Places that were given out and then taken back, since the disk was full.
    lost: Vec<(Place, Place, JournalError)>,
    failed: Option<JournalError>,
    waiting: Vec<(Place, oneshot::Sender<Answer>)>,
}

impl State {
    fn answer(&self, place: Place) -> Option<Answer> {
        if let Some((.., error)) = self.lost.iter().find(|(from, to, _)| (*from..*to).contains(&place)) {
            return Some(Err(error.clone()));
        }
        if place < self.synced {
            return Some(Ok(()));
        }
        self.failed.clone().map(Err)
    }

    fn settle(&mut self) {
        for (place, sender) in std::mem::take(&mut self.waiting) {
            match self.answer(place) {
                // Whoever stopped waiting needs no answer.
                Some(answer) => drop(sender.send(answer)),
                None => self.waiting.push((place, sender)),
            }
        }
    }
}

impl Acks {
    pub(crate) fn new(synced: Place) -> Acks {
        Acks(Mutex::new(State { synced, lost: Vec::new(), failed: None, waiting: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where what is durable ends.
    pub(crate) fn synced(&self) -> Place {
        self.state().synced
    }

    /// Everything before `end` is durable.
    pub(crate) fn sync_to(&self, end: Place) {
        let mut state = self.state();
        state.synced = end;
        state.settle();
    }

    /// What was given out from `from` to `to` never will be durable.
    pub(crate) fn lose(&self, from: Place, to: Place, error: JournalError) {
        let mut state = self.state();
        if state.lost.len() == LOST_SPANS_MAX {
            let (from, ..) = state.lost.remove(0);
            state.lost[0].0 = from;
        }
        state.lost.push((from, to, error));
        state.settle();
    }

    /// Nothing more will be durable.
    pub(crate) fn fail(&self, error: JournalError) {
        let mut state = self.state();
        state.failed.get_or_insert(error);
        state.settle();
    }

    /// The answer about `place`, or where it will come.
    pub(crate) fn wait(&self, place: Place) -> Result<Answer, oneshot::Receiver<Answer>> {
        let mut state = self.state();
        if let Some(answer) = state.answer(place) {
            return Ok(answer);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push((place, sender));
        Err(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_stays_lost_however_far_the_rest_gets() {
        let acks = Acks::new(Place(10));
        let full = || JournalError::Full("x".into());
        let pending = acks.wait(Place(12)).unwrap_err();
        acks.lose(Place(10), Place(20), full());
        acks.sync_to(Place(30));
        assert_eq!(pending.blocking_recv().unwrap(), Err(full()));
        for (place, expected) in [(9, Ok(())), (10, Err(full())), (19, Err(full())), (20, Ok(()))] {
            assert_eq!(acks.wait(Place(place)).unwrap(), expected, "{place}");
        }
        for span in 0..2 * LOST_SPANS_MAX as u64 {
            acks.lose(Place(100 + 2 * span), Place(101 + 2 * span), full());
        }
        assert_eq!(acks.state().lost.len(), LOST_SPANS_MAX);
    }
}
