//! A job in the run queue.

use std::sync::Arc;
use std::time::Instant;

use crate::base::keys::{AttemptKey, Owner};
use crate::messages::slots::Job;
use crate::state::ledger::Books;

#[derive(Clone)]
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) owner: Arc<Owner>,
    pub(super) books: Books,
    pub(super) since: Option<Instant>,
    /// The running attempt that wants a slot again; `None` for a new attempt.
    pub(super) resumes: Option<AttemptKey>,
}
