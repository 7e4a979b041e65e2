//! Waits of attempts that are about to begin.

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::base::workspace_turns::Turn;

/// A wait for the answer of the clearance authority.
pub(super) struct Asked {
    pub(super) attempt: u32,
    pub(super) end: CancellationToken,
}

impl Asked {
    /// Cancels the wait. Its task still sends [`ClearanceAnswer`](crate::messages::clearance::ClearanceAnswer), which
    /// returns the slot.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}

/// An attempt that waits for its turn, and then for a slot.
pub(super) struct TurnWait {
    pub(super) attempt: u32,
    /// True if the attempt repeats one that was lost with its process.
    pub(super) again: bool,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    /// Waits for the turn, until dropped.
    Turn { _end: DropGuard },
    /// Waits for a slot, with its turn, which later calls would take otherwise; `None` once the turn was yielded.
    Slot { turn: Option<Turn> },
}

impl TurnWait {
    /// True if the attempt waits for its turn.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Turn { .. })
    }
}
