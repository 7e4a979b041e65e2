//! Answers from outside.

use ostler_kernel::event::AnswerVerdict;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `POST /v1/runs/{run}/nodes/{node}/answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitAnswerRequest {
    /// The value: the result of the node, if its contract holds.
    pub value: Value,
    /// The sender's id of the answer: a repeated delivery is recognised by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitAnswered {
    /// The run.
    pub run: String,
    /// The node.
    pub node: String,
    /// The verdict.
    pub verdict: AnswerVerdict,
}
