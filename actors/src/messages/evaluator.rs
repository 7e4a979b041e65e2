//! Messages to the evaluator.

use ostler_kernel::id::RunId;

use crate::base::keys::FairShareKey;

pub(crate) enum EvaluatorMessage {
    /// A run was closed, or a person judged it (`is_verdict`). The scores are in the journal.
    Evaluated { lane: FairShareKey, run: RunId, is_verdict: bool },
}
