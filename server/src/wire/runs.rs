//! Runs.

use std::collections::BTreeMap;

use ostler_kernel::id::NodeId;
use ostler_kernel::run::{RunOutcome, RunStatus, Undone, WaitReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ShortfallView;

/// The answer to `GET /v1/runs`: a page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunList {
    /// The runs, newest first.
    pub runs: Vec<RunLine>,
    /// The `after` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLine {
    /// The run as a UUID.
    pub run: String,
    /// Id of the plan.
    pub plan: String,
    /// The client that pays.
    pub client: String,
    /// The agent.
    pub agent: String,
    /// Status of the run.
    pub status: RunStatus,
    /// Cause of `waiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// Outcome of a closed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// Reason of a suspension or quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answering process drives it, or has it in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
    /// Time of the opening in milliseconds since the Unix epoch.
    pub opened_ms: i64,
    /// Time of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<i64>,
    /// Nodes that have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_over: Option<usize>,
    /// Nodes of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Nodes that failed.
    #[serde(default, skip_serializing_if = "ostler_kernel::json::is_zero")]
    pub failed: u32,
    /// The model of a goal run as the command named it by a file, such as `scripted:script.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// The attempt that opened the run, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// Nodes that wait for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// Questions in runs below it, while nothing goes on without their answers; of at most 16 runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_below: Vec<WaitingBelow>,
    /// The earlier run of the same agent that waits for a person and holds this one.
    #[serde(rename = "behind", default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// By the records, the client lacks credits and nothing more starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_credit: bool,
    /// Nodes whose next call waits for the rate of its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_waits: Vec<RateWaitView>,
    /// State of the undo; absent before a request to undo. Of closed runs, only the newest have it, like `absent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoView>,
    /// Outputs that a guard ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The records cannot be read; nothing goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
    /// Number of the last record of an open run: its events can be followed from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

impl RunLine {
    /// True if the run continues only after `ostler resume`: it is queued, and no process executes it.
    pub fn is_idle(&self) -> bool {
        self.status == RunStatus::Queued && !self.active
    }

    /// True if the answering process drives the run and nothing holds it.
    pub fn is_in_progress(&self) -> bool {
        let is_open = matches!(self.status, RunStatus::Queued | RunStatus::Running | RunStatus::Waiting);
        self.active && is_open && !needs_answer(self.waits_for)
    }
}

pub(super) fn needs_answer(waits_for: Option<WaitReason>) -> bool {
    matches!(waits_for, Some(WaitReason::Person | WaitReason::Answer))
}

/// A call of a model that waits for the rate limits of the model or client, or because the provider asked to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateWaitView {
    /// The node.
    pub node: String,
    /// Name of the model in the configuration.
    pub model: String,
    /// Least time until the call, in milliseconds.
    pub ms: u64,
}

/// The parent of a run: a step of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentView {
    /// The run as a UUID.
    pub run: String,
    /// The node.
    pub node: String,
    /// Id of the step.
    pub step: String,
}

/// What came of the diagnoses of a category of failures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DiagnosisView {
    /// Diagnoses.
    pub made: u32,
    /// Diagnoses with a recovery level that was tried to its end.
    pub tried: u32,
    /// Tried levels that mended the failure.
    pub mended: u32,
    /// Brier score of the confidences, 0 to 1, 0 the best; absent if no level was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
}

/// Reliability from the precision of the contracts of executed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBounds {
    /// Valid if nodes err independently.
    pub independent: f64,
    /// Always valid.
    pub always: f64,
}

/// Root cause of lost nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    /// The node.
    pub node: String,
    /// State of the node.
    pub state: String,
    /// The reason.
    pub reason: String,
    /// A message.
    #[serde(default)]
    pub message: Option<String>,
    /// Nodes that were lost with it.
    pub lost: Vec<String>,
}

/// The answer to `GET /v1/runs/{id}/results`: a check of every result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultsCheck {
    /// Readable results.
    pub read: u64,
    /// Bytes of the readable results.
    pub bytes: u64,
    /// Damaged results.
    pub damaged: Vec<DamagedResult>,
}

/// A result that cannot be read, or differs from its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedResult {
    /// The node.
    pub node: String,
    /// The damage, in words.
    pub what: String,
}

/// The children of an expanded node, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListView {
    /// Elements of the list.
    pub items: usize,
    /// Children that are executed.
    pub executed: usize,
    /// Children that failed, or were cancelled or skipped.
    pub lost: usize,
}

/// Progress of undoing a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoView {
    /// Overall state of the undo.
    pub state: Undone,
    /// The undo nodes, in the order of their rounds and turns.
    pub nodes: Vec<NodeId>,
    /// Executed effects without an undo in the plan, ascending.
    pub without: Vec<NodeId>,
    /// Nodes with an unknown effect, ascending: a person settles them.
    pub unsure: Vec<NodeId>,
    /// Commands that settle nodes of `unsure`, by node: one of them suffices. That of a node that has ended comes after its effect
    /// was undone by hand. None of a node that has ended while the run goes on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settle: BTreeMap<String, Vec<String>>,
}

/// A node that waits for an answer from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// The node.
    pub node: String,
    /// Time at which the node fails without an answer, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Its callback address with a hidden token; absent without a listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// A run below another one, and its nodes that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingBelow {
    /// The run as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// The step that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<ParentView>,
    /// The run is suspended: a person resumes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// Nodes of the run that wait for a person.
    pub waiting: Vec<Waiting>,
    /// Nodes of the run that wait for an answer from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitView>,
}

/// A node that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The node.
    pub node: String,
    /// Kind of the question: `before`, `after`, `node`, `budget`, `in_doubt`.
    pub ask: String,
    /// Id for `POST /v1/approvals/{id}`; absent in doubt, which is settled instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Digest of the shown content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Time at which silence cancels the node, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// The attempt in doubt, from 1, for `POST /v1/runs/{id}/resolve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The last failure of the attempt in doubt, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Nodes that cannot start before the answer; the first hundred.
    #[serde(rename = "holds_up", default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
    /// The call that does not fit the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<ShortfallView>,
}

/// A record: a line of `events --json` and `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// `event`.
    #[serde(rename = "type")]
    pub line_type: String,
    /// Sequence number.
    pub seq: u64,
    /// Time in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The run as a UUID.
    pub run: String,
    /// Kind of the event, such as `node_transition`.
    pub kind: String,
    /// The other fields.
    pub body: Value,
}
