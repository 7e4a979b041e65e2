//! A job as the run queue holds it.

use std::sync::Arc;
use std::time::Instant;

use crate::base::keys::{AttemptKey, Owner};
use crate::messages::slots::Job;
use crate::state::ledger::Books;

/// What a job is queued as.
#[derive(Clone)]
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) owner: Arc<Owner>,
    pub(super) books: Books,
    /// When, if that is measured.
    pub(super) since: Option<Instant>,
    /// The attempt that is under way and wants the slot to go on; `None`: it is for one that has not begun.
    pub(super) resumes: Option<AttemptKey>,
}
