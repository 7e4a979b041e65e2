//! What is told of what went wrong.

use ostler_kernel::run::RunStatus;
use serde::{Deserialize, Serialize};

/// A problem as RFC 9457 writes it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemDetails {
    /// `about:blank`: the code says what it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, where, and what was expected.
    pub detail: String,
    /// A stable word for programs.
    pub code: String,
    /// Every fault of a plan that was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultLine>,
    /// Of `invalid_state`: where the agent stands with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<RunStatus>,
    /// Of `invalid_state`: where it would have to stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<RunStatus>,
}

/// A fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultLine {
    /// Which rule is broken, such as `V03`.
    pub code: String,
    /// The node, or `*`.
    pub node: String,
    /// Where it stands in the plan, as a JSON pointer; empty: the plan as a whole.
    #[serde(default)]
    pub pointer: String,
    /// What is wrong.
    pub detail: String,
    /// What would mend it.
    pub mend: String,
    /// The line where that is, from 1, within the text that stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}
