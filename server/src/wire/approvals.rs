//! The questions that wait for a person, and the answers to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer to `GET /v1/approvals`: a page of the questions that wait for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalList {
    /// The questions: oldest run first.
    pub approvals: Vec<ApprovalView>,
    /// Open runs that cannot be read, so that nobody knows what they ask: each on one page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRun>,
    /// What `after` gives the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableRun {
    /// The run, as a UUID.
    pub run: String,
    /// What is wrong with it.
    pub detail: String,
}

/// A question that waits for a person, and everything it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalView {
    /// Names the question.
    pub id: String,
    /// The run, as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// Who pays.
    pub client: String,
    /// The node that asks.
    pub node: String,
    /// What is asked: `before` the action, `after` it (may its result be published?), or `node`: the node is a
    /// question itself.
    pub ask: String,
    /// What executes the node.
    pub kind: String,
    /// Its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What it does to the world.
    pub effect: String,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// The parameters it is given, resolved.
    pub params: Value,
    /// The folder that it may touch, if it takes paths or runs programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The programs that are run on its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestView>,
    /// The result that is to be published; absent where it is larger than was asked for, or cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Bytes of that result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Why it would come to nothing if it were approved, as things stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Digest of what is shown: an answer names it.
    pub digest: Option<String>,
    /// Whether tools or the policy have changed since: it is asked anew when the run goes on.
    pub outdated: bool,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub asked_ms: i64,
    /// When silence cancels the node.
    pub deadline_ms: Option<i64>,
    /// Nodes that cannot start before; the first hundred.
    #[serde(rename = "holds_up")]
    pub blocks: Vec<String>,
}

/// A test of a contract, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestView {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it does to the world.
    pub effect: String,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
}

/// The body of `POST /v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// Yes or no.
    pub decision: Decision,
    /// Digest of what was looked at.
    pub digest: String,
    /// In words, up to 4 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Who answers; `operator`, if nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a person says to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Reject,
}
