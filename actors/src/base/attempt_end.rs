//! How an attempt ended, and what that costs.

use std::any::Any;

use ostler_kernel::event::{Accounts, AttemptResult, Failure, Outcome};
use ostler_kernel::run::FailureCategory;

use crate::base::keys::AttemptKey;
use crate::base::panic_message::panic_message;

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) duration_ms: u64,
    /// In credits: a millisecond of a slot is one.
    pub(crate) cost: u64,
    /// How its client stood once that was charged; `None` if it held no slot any more.
    pub(crate) accounts: Option<Accounts>,
}

impl Ended {
    /// The record of it.
    pub(crate) fn result_of(self, key: &AttemptKey) -> Box<AttemptResult> {
        let (node, attempt) = (key.node.clone(), key.attempt);
        let Ended { outcome, duration_ms, cost, accounts } = self;
        Box::new(AttemptResult { node, attempt, outcome, duration_ms, cost, accounts })
    }
}

/// What an attempt comes to that began then and ends now: in milliseconds, and in credits.
pub(crate) fn cost_since(started: tokio::time::Instant) -> (u64, u64) {
    let duration_ms = started.elapsed().as_millis() as u64;
    (duration_ms, duration_ms.clamp(1, ostler_scheduler::COST_MAX))
}

/// The outcome of an attempt that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    failed(FailureCategory::Crash, format!("the tool panicked: {}", panic_message(panic)))
}

pub(crate) fn failed(category: FailureCategory, message: String) -> Outcome {
    Outcome::Failed(Failure { category, message })
}
