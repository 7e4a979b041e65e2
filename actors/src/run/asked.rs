//! Waits of attempts that are about to begin.

use tokio_util::sync::CancellationToken;

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
