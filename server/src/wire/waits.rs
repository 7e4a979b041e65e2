//! Answers from outside.

use ostler_kernel::event::AnswerVerdict;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `POST /v1/runs/{run}/nodes/{node}/answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitAnswerRequest {
    /// Result of the node, if the contract of the node holds.
    pub value: Value,
    /// The sender's id of the answer; marks a repeated delivery of the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The verdict on a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackAnswered {
    /// The verdict.
    pub verdict: AnswerVerdict,
}

/// The verdict on an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitAnswered {
    /// The run.
    pub run: String,
    /// The node.
    pub node: String,
    /// The verdict.
    pub verdict: AnswerVerdict,
    /// Of `invalid`: the rules that the value breaks, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// Of `late`, if the node fails once the run goes on: its deadline, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}
