//! What is asked of runs, and what is told about them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use ostler_kernel::plan::PlanDraft;
use ostler_kernel::run::{RunOutcome, RunStatus, WaitReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of `POST /v1/runs`.
///
/// A caller in the same process may hand over a plan that it has validated already: the request then has an empty body and
/// carries a `SubmitRequest<Arc<Plan>>` as an HTTP extension, which no request over a socket can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest<P = PlanDraft> {
    /// The plan as written.
    pub plan: P,
    /// Who pays; the client of the agent, where one is named.
    #[serde(default = "super::local")]
    pub client: String,
    /// The agent that is to run it; absent: one that is there for this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The most impact it may have, 0..=2.
    #[serde(default = "super::operate")]
    pub intent: u8,
    /// The scope it acts in.
    #[serde(default = "super::default_scope")]
    pub scope: String,
    /// The folder its tools may touch, as an absolute path.
    pub workspace: String,
    /// Credits that it may cost at most, all together, 1 or more; absent: as many as its client has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NonZeroU64>,
    /// The id it is to have, a UUID of version 7: who asks once more because no answer came gets the run that was
    /// opened then, if all else is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The answer to everything that starts or changes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// The run, as a UUID.
    pub run: String,
}

/// The body of `POST /v1/runs/{id}/interject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterjectRequest {
    /// What a person is to decide about.
    pub text: String,
    /// Milliseconds until silence cancels the run.
    pub wait_ms: NonZeroU64,
}

/// What was interjected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interjected {
    /// The run.
    pub run: String,
    /// The node that asks: its question is among the approvals.
    pub node: String,
}

/// The body of `POST /v1/runs/{id}/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The node whose attempt is in doubt.
    pub node: String,
    /// The attempt that was looked at, as `waiting` tells it: no other is settled, and saying the same once more changes
    /// nothing. Absent: whichever is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What became of it.
    pub how: Resolution,
    /// Its result, with [`How::Done`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What became of an attempt in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It was done; the request has its result.
    Done,
    /// It is to be done again.
    Redo,
    /// It counts as failed.
    Fail,
}

/// The answer to `GET /v1/runs`: a page of the table of runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunLine>,
    /// What `after` gives the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One line of the table of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLine {
    /// The run, as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// Who pays.
    pub client: String,
    /// Who runs it.
    pub agent: String,
    /// Its status.
    pub status: RunStatus,
    /// What a waiting run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// Its outcome, if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RunOutcome>,
    /// Why it is suspended or quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the process that answers executes it, or has it in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub opened_ms: i64,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<i64>,
    /// Nodes that are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_over: Option<usize>,
    /// Nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Nodes that wait for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// The run of the same agent that comes before it and waits for a person: until that is over, this one does not go on.
    #[serde(rename = "behind", default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Nothing more of it starts, by its records, because the credits of its client are used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_credit: bool,
    /// Its records cannot be read: nobody knows how it stands, and nothing of it goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

impl RunLine {
    /// Whether the run continues only after `ostler resume`: it is queued, and no process executes it.
    pub fn is_idle(&self) -> bool {
        self.status == RunStatus::Queued && !self.active
    }

    /// Whether the process that answers executes the run, and nothing keeps it from going on.
    pub fn is_in_progress(&self) -> bool {
        let is_open = matches!(self.status, RunStatus::Queued | RunStatus::Running | RunStatus::Waiting);
        self.active && is_open && self.waits_for != Some(WaitReason::Person)
    }
}

impl Summary {
    /// Whether the run continues only after `ostler resume`: it is queued, and no process executes it.
    pub fn is_idle(&self) -> bool {
        self.status == RunStatus::Queued && !self.active
    }

    /// Whether nothing goes on until a person answers.
    pub fn waits_for_person(&self) -> bool {
        self.waits_for == Some(WaitReason::Person)
    }
}

/// What a run amounts to: `GET /v1/runs/{id}`, `show --format json`, the last line of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `summary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The run, as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// Version of the plan.
    pub version: u32,
    /// Its status.
    pub status: RunStatus,
    /// What a waiting run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// Its outcome; `null` while it is open.
    pub outcome: Option<RunOutcome>,
    /// Why it is suspended or quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the process that answers executes it, or has it in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
    /// Where each node stands. Of a run that nobody drives, where it stands as soon as somebody does.
    pub nodes: BTreeMap<String, String>,
    /// The nodes among them whose attempt ended with its process, and is done again when the run goes on: nothing runs until then.
    #[serde(rename = "cut_off", default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
    /// Attempts started.
    pub dispatches: u32,
    /// Attempts started between one end of an attempt and the next.
    pub rounds: Vec<u32>,
    /// Most nodes ready or running at once.
    pub peak_ready: u32,
    /// Nodes ready or running, averaged over time.
    pub mean_ready: f64,
    /// From the first record to the last, or to now while it goes on.
    pub makespan_ms: i64,
    /// The longest chain of attempts, by the time they took.
    pub critical_path_ms: i64,
    /// Time in attempts over makespan.
    pub parallelism: f64,
    /// (makespan - critical path) over executed nodes.
    pub overhead_us_per_node: f64,
    /// Attempts of all nodes, those that the process did not live to end included.
    pub attempts: u32,
    /// Nodes whose result was taken from an earlier run.
    pub reused: u32,
    /// Credits spent.
    pub cost: u64,
    /// What each loss comes down to.
    #[serde(rename = "culprits")]
    pub root_causes: Vec<RootCause>,
    /// How likely all that was accepted is correct; `null` where a contract says nothing of its precision.
    #[serde(default)]
    pub reliability: Option<ReliabilityBounds>,
    /// Digest of the artifact of each output that is executed.
    pub outputs: BTreeMap<String, String>,
    /// Nodes that wait for a person.
    pub waiting: Vec<Waiting>,
    /// The run of the same agent that comes before it and waits for a person: until that is over, this one does not go on.
    #[serde(rename = "behind", default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Nothing more of it starts, by its records, because the credits of its client are used up: `GET /v1/clients/{client}`
    /// tells whether that is so still (`parked`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_credit: bool,
    /// Credits that it may cost, all together, if it has a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// The attempt that opened it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// Who pays.
    pub client: String,
    /// Who runs it.
    pub agent: String,
    /// The folder its tools may touch.
    pub workspace: String,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub opened_ms: i64,
    /// The record it is told up to.
    pub seq: u64,
    /// Whether records follow that one: it is told as it stood then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub past: bool,
}

/// Who opened a run: a step of a node of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentView {
    /// The run, as a UUID.
    pub run: String,
    /// The node.
    pub node: String,
    /// Id of the step.
    pub step: String,
}

/// What the precision of the contracts of executed nodes says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBounds {
    /// Valid if the nodes err independently.
    pub independent: f64,
    /// Valid always.
    pub always: f64,
}

/// What the loss of nodes comes down to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    /// The node where it began.
    pub node: String,
    /// Its state.
    pub state: String,
    /// Why.
    pub reason: String,
    /// What happened, in words.
    #[serde(default)]
    pub message: Option<String>,
    /// The nodes that were lost with it.
    pub lost: Vec<String>,
}

/// The answer to `GET /v1/runs/{id}/results`: what reading every result of the run gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultsCheck {
    /// Those that could be read, whatever they hold.
    pub read: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong.
    pub damaged: Vec<DamagedResult>,
}

/// A result that cannot be read, or is not what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedResult {
    /// Its node.
    pub node: String,
    /// What is wrong with it, in words.
    pub what: String,
}

/// A node that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The node.
    pub node: String,
    /// What is asked: `before`, `after`, `node`, `in_doubt`.
    pub ask: String,
    /// Names the question, for `POST /v1/approvals/{id}`; absent in doubt, which is resolved instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Digest of what the question shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When silence cancels the node, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// The attempt that is in doubt, from 1, for `POST /v1/runs/{id}/resolve`; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What the attempt met that is in doubt; absent where that is all that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Nodes that cannot start before; the first hundred.
    #[serde(rename = "holds_up", default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
}

/// A record as it is told: a line of `events --json` and of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// `event`.
    #[serde(rename = "type")]
    pub line_type: String,
    /// Its place in the run.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The run, as a UUID.
    pub run: String,
    /// What happened, such as `node_transition`.
    pub kind: String,
    /// The rest of it.
    pub body: Value,
}
