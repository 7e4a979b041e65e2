//! Messages to the evaluator.

use ostler_kernel::id::RunId;

use crate::base::keys::FairShareKey;

pub(crate) enum EvaluatorMessage {
    /// A run of these was closed, or (`is_verdict`) a person has judged it. How well it was done stands in the journal.
    Evaluated { lane: FairShareKey, run: RunId, is_verdict: bool },
}
