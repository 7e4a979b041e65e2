//! A question to the clearance authority.

use tokio_util::sync::CancellationToken;

/// A question to the authority that is under way.
pub(super) struct Asked {
    pub(super) attempt: u32,
    pub(super) end: CancellationToken,
}

impl Asked {
    /// Ends it: nobody waits for the answer any more. Its message still brings the slot back.
    pub(super) fn end(&self) {
        self.end.cancel();
    }
}
