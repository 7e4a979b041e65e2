//! The clearance authority: an outside yes or no to one call.

use std::fmt;

use serde_json::Value;

use super::BoxFuture;
use crate::gate::DenialCode;

/// Answers whether a call may run. Anything but a plain yes in time is a no.
pub trait ClearanceAuthority: Send + Sync + 'static {
    /// Requests clearance of one call. `request`: see
    /// [`ClearanceRequest::to_json`](crate::gate::ClearanceRequest::to_json). `deadline_ms`: time limit for the complete
    /// answer, in milliseconds.
    ///
    /// # Errors
    ///
    /// A code `CLEARANCE_*`, see [`Reply::judge`](crate::gate::Reply::judge).
    fn ask(&self, request: Value, deadline_ms: u64) -> BoxFuture<'_, Result<(), DenialCode>>;
}

impl fmt::Debug for dyn ClearanceAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClearanceAuthority")
    }
}
