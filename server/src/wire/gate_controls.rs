//! Lockdown of the gate, and epochs of the policy.

use serde::{Deserialize, Serialize};

/// `GET` and `POST /v1/lockdown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lockdown {
    /// True: no new call of a tool starts.
    pub on: bool,
}

/// The answer to `POST /v1/policy/reload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEpoch {
    /// Epoch of the policy in force.
    pub epoch: u64,
}
