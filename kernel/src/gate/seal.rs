//! The seal: what a verdict was about, checked again when it takes effect.

use super::code::DenialCode;
use crate::id::Digest;

/// What a verdict was about. A hold and a permit count only for the same call of the same tool under the same policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Version of the tool.
    pub tool: String,
    /// Digest of the resolved parameters, defaults included.
    pub params: Digest,
    /// Epoch of the policy.
    pub epoch: u64,
    /// The taint for which the call needs clearance.
    pub held: Option<DenialCode>,
}

impl Seal {
    /// Compares the seal with the same call as it is now; `None`: no tool of its name is registered any more, or its
    /// parameters cannot be resolved.
    ///
    /// # Errors
    ///
    /// `SEAL_MISMATCH`, or `POLICY_EPOCH_STALE` if the policy alone has changed.
    pub fn check(&self, now: Option<&Seal>) -> Result<(), DenialCode> {
        let Some(now) = now else { return Err(DenialCode::SealMismatch) };
        if (&self.tool, self.params, self.held) != (&now.tool, now.params, now.held) {
            return Err(DenialCode::SealMismatch);
        }
        if self.epoch == now.epoch { Ok(()) } else { Err(DenialCode::PolicyEpochStale) }
    }
}
