//! The summary of a run.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::run::{FailureCategory, ModelUsage, NodeState, RunOutcome, RunStatus, WaitReason};
use serde::{Deserialize, Serialize};

use super::runs::needs_answer;
use super::{
    AnswerView, CallBudgetView, CarriedApprovalView, DiagnosisView, JudgedResultView, ListView, LostCallView,
    ParentView, RateWaitView, ReliabilityBounds, RootCause, UndoView, WaitView, Waiting, WaitingBelow,
};

/// Summary of a run: `GET /v1/runs/{id}`, `show --format json`, the last line of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `summary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The run as a UUID.
    pub run: String,
    /// Id of the plan.
    pub plan: String,
    /// Version of the plan.
    pub version: u32,
    /// Status of the run.
    pub status: RunStatus,
    /// Cause of `waiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// The outcome; `null` while it is open.
    pub outcome: Option<RunOutcome>,
    /// Reason of a suspension or quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answering process drives it, or has it in line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub active: bool,
    /// State of each node; of an inactive run, the state that recovery would find.
    pub nodes: BTreeMap<String, String>,
    /// Nodes with an attempt of an ended process; they run again when the run resumes.
    #[serde(rename = "cut_off", default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
    /// Nodes in `blocked` that an interjection holds.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub held: BTreeSet<String>,
    /// Started attempts.
    pub dispatches: u32,
    /// Attempts started between two ends of attempts.
    pub rounds: Vec<u32>,
    /// Maximum of nodes ready or running at once.
    pub peak_ready: u32,
    /// Mean number of nodes ready or running.
    pub mean_ready: f64,
    /// Milliseconds from the first record to the last, or to now while the run is open.
    pub makespan_ms: i64,
    /// Milliseconds of the longest chain of attempts.
    pub critical_path_ms: i64,
    /// Time in attempts divided by the makespan.
    pub parallelism: f64,
    /// (Makespan − critical path) divided by the executed nodes.
    pub overhead_us_per_node: f64,
    /// Attempts of all nodes, lost ones included.
    pub attempts: u32,
    /// Nodes with a result from an earlier run.
    pub reused: u32,
    /// Credits spent.
    pub cost: u64,
    /// Tokens and price of model calls; absent without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<ModelUsage>,
    /// The goal of a goal run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The model of a goal run as the command named it by a file, such as `scripted:script.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// Earlier runs that the goal may use, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// The answer of a goal run; absent before there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerView>,
    /// What came of the diagnoses of failures, by category; absent without one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub diagnoses: BTreeMap<FailureCategory, DiagnosisView>,
    /// Root causes of lost nodes.
    #[serde(rename = "culprits")]
    pub root_causes: Vec<RootCause>,
    /// Probability that all accepted results are correct; `null` if a contract states no precision.
    #[serde(default)]
    pub reliability: Option<ReliabilityBounds>,
    /// Tokens and money that the run and all runs that share its account may use; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_budget: Option<CallBudgetView>,
    /// Calls of models that were lost with their process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_calls: Vec<LostCallView>,
    /// Verdicts of models on the last judged attempt of each node, by rules of contracts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<JudgedResultView>,
    /// Digest of each executed output.
    pub outputs: BTreeMap<String, String>,
    /// Nodes that wait for a person.
    pub waiting: Vec<Waiting>,
    /// Approvals of the repeated run that answered questions of this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<CarriedApprovalView>,
    /// Nodes that wait for an answer from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitView>,
    /// Counted children of each expanded node, by the node's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, ListView>,
    /// Outputs that guards ruled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Bytes that results leave out of what programs printed, by node; absent nodes have all of it. At most
    /// [`CUT_OUTPUTS_MAX`](crate::CUT_OUTPUTS_MAX).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Progress of undoing the run; absent before a request to undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoView>,
    /// Questions in runs below it, while nothing goes on without their answers; of at most 16 runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_below: Vec<WaitingBelow>,
    /// The earlier run of the same agent that waits for a person and holds this one.
    #[serde(rename = "behind", default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// By the records, the client lacks credits and nothing more starts; `GET /v1/clients/{client}` has the present
    /// state (`parked`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_credit: bool,
    /// Nodes whose next call waits for the rate of its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_waits: Vec<RateWaitView>,
    /// Budget in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// The attempt that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// The client that pays.
    pub client: String,
    /// The agent.
    pub agent: String,
    /// The folder that the tools may touch.
    pub workspace: String,
    /// Time of the opening in milliseconds since the Unix epoch.
    pub opened_ms: i64,
    /// The last record that the summary includes.
    pub seq: u64,
    /// Further records follow that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub past: bool,
}

impl Summary {
    /// Number of failed nodes.
    pub fn failed(&self) -> usize {
        self.nodes.values().filter(|state| *state == NodeState::Failed.as_str()).count()
    }

    /// True if the run continues only after `ostler resume`: it is queued, and no process executes it.
    pub fn is_idle(&self) -> bool {
        self.status == RunStatus::Queued && !self.active
    }

    /// True if nothing goes on until a person answers.
    pub fn waits_for_person(&self) -> bool {
        self.waits_for == Some(WaitReason::Person)
    }

    /// True if nothing goes on until a person answers, or a value comes from outside.
    pub fn needs_answer(&self) -> bool {
        needs_answer(self.waits_for)
    }
}
