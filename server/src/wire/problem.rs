//! Errors.

use ostler_kernel::run::RunStatus;
use serde::{Deserialize, Serialize};

/// Problem details as of RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemDetails {
    /// `about:blank`: `code` names the problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The problem, its place and the expected value.
    pub detail: String,
    /// Stable code for programs.
    pub code: String,
    /// All diagnostics of a refused plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultLine>,
    /// Of `invalid_state`: the status of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<RunStatus>,
    /// Of `invalid_state`: the statuses that accept the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<RunStatus>,
    /// Of `stale_edits`: the nodes that were edited before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Of `operator_unproven`: what a proof must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
}

/// A diagnostic of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultLine {
    /// Code of the broken rule, such as `V03`.
    pub code: String,
    /// Id of the node, or `*`.
    pub node: String,
    /// JSON pointer into the plan; empty for the plan as a whole.
    #[serde(default)]
    pub pointer: String,
    /// The problem.
    pub detail: String,
    /// The remedy.
    #[serde(rename = "mend")]
    pub help: String,
    /// Line within a text value, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}
