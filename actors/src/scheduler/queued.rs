//! A job in the run queue.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ostler_scheduler::JobHandle;
use tokio::sync::oneshot;

use crate::base::keys::{AttemptKey, Owner};
use crate::base::lock::lock;
use crate::messages::slots::Job;
use crate::state::ledger::Books;

#[derive(Clone)]
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) owner: Arc<Owner>,
    pub(super) books: Books,
    pub(super) since: Option<Instant>,
    pub(super) purpose: Purpose,
}

/// What a granted job is for.
#[derive(Clone)]
pub(super) enum Purpose {
    /// A new attempt.
    Start,
    /// A running attempt that wants a slot again.
    Resume(AttemptKey),
    /// A call that waits for its turn, and needs no slot.
    Turn(TurnSignal),
}

/// The answer to a request for a turn.
pub(super) enum Asked {
    /// The limits admit the call now.
    Taken,
    /// The receiver gets the turn; it fails if the queue is closed before.
    Waits(JobHandle, oneshot::Receiver<()>),
    /// The queue is full.
    Full,
}

/// Wakes the call that waits for a turn.
#[derive(Clone)]
pub(super) struct TurnSignal(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl TurnSignal {
    pub(super) fn new() -> (TurnSignal, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (TurnSignal(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    /// False if the call no longer waits.
    pub(super) fn send(&self) -> bool {
        lock(&self.0).take().is_some_and(|sender| sender.send(()).is_ok())
    }
}
