//! State of the judge.

use ostler_kernel::evaluation::Judgement;
use tokio::task::AbortHandle;

#[derive(Default)]
pub(super) enum JudgeState {
    #[default]
    Unasked,
    Asked(AbortHandle),
    /// The opinion, or why there is none; and the adherence in thousandths, if the judge rates it.
    Said(Judgement, Option<u16>),
}

impl JudgeState {
    pub(super) fn abort(&self) {
        if let JudgeState::Asked(task) = self {
            task.abort();
        }
    }
}
