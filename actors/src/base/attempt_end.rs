//! The end of an attempt and its cost.

use std::any::Any;

use ostler_kernel::event::{Accounts, AttemptResult, Failure, Outcome, Output, ResultJudged};
use ostler_kernel::ledger::Shortfall;
use ostler_kernel::port::{CageRung, ModelCall};
use ostler_kernel::run::FailureCategory;

use crate::base::keys::AttemptKey;
use crate::base::panic_message::panic_message;

#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) duration_ms: u64,
    /// Credits; one is a millisecond of a slot.
    pub(crate) cost: u64,
    /// Accounts of the client after the charge; `None` if the attempt held no slot.
    pub(crate) accounts: Option<Accounts>,
    pub(crate) model_calls: ModelCalls,
}

/// Calls of models of an attempt with the verdicts of judges, the cage of its programs, and the output that its contract refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelCalls {
    pub(crate) ended: Vec<ModelCall>,
    /// Verdicts on the result, each with the number of calls before it.
    pub(crate) verdicts: Vec<(usize, ResultJudged)>,
    /// The last call that was not made because it did not fit the budget.
    pub(crate) shortfall: Option<Box<Shortfall>>,
    /// The lowest rung of its programs.
    pub(crate) rung: Option<CageRung>,
    pub(crate) refused: Option<Box<Output>>,
}

impl Ended {
    pub(crate) fn result_of(self, key: &AttemptKey) -> Box<AttemptResult> {
        let (node, attempt) = (key.node.clone(), key.attempt);
        let Ended { outcome, duration_ms, cost, accounts, model_calls: _ } = self;
        Box::new(AttemptResult { node, attempt, outcome, duration_ms, cost, accounts })
    }
}

/// Duration in milliseconds and cost in credits of an attempt that began at `started` and ends now.
pub(crate) fn cost_since(started: tokio::time::Instant) -> (u64, u64) {
    let duration_ms = started.elapsed().as_millis() as u64;
    (duration_ms, duration_ms.clamp(1, ostler_scheduler::COST_MAX))
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    failed(FailureCategory::Crash, format!("the tool panicked: {}", panic_message(panic)))
}

/// A failure that no retry mends.
pub(crate) fn structural(message: String) -> Failure {
    Failure { category: FailureCategory::Structural, message }
}

pub(crate) fn failed(category: FailureCategory, message: String) -> Outcome {
    Outcome::Failed(Failure { category, message })
}
