//! Questions to the clearance authority.

use tokio_util::sync::CancellationToken;

/// An open question to the clearance authority.
pub(super) struct Asked {
    pub(super) attempt: u32,
    pub(super) end: CancellationToken,
}

impl Asked {
    /// Cancels the question. The task of the question still sends [`ClearanceEnd`](crate::messages::clearance::ClearanceEnd), which
    /// returns the slot.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}
