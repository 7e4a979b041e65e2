//! State of the judge.

use ostler_kernel::evaluation::Judgement;
use tokio::task::AbortHandle;

#[derive(Default)]
pub(super) enum JudgeState {
    #[default]
    Unasked,
    Asked(AbortHandle),
    /// The opinion, or why there is none.
    Said(Judgement),
}

impl JudgeState {
    pub(super) fn abort(&self) {
        if let JudgeState::Asked(task) = self {
            task.abort();
        }
    }
}
