//! Runs.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use ostler_kernel::id::NodeId;
use ostler_kernel::plan::PlanDraft;
use ostler_kernel::policy::OperatorAnswer;
use ostler_kernel::run::{FailureCategory, ModelUsage, NodeState, RunOutcome, RunStatus, Undone, WaitReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AnswerView, CallBudgetView, CarriedApprovalView, JudgedResultView, LostCallView, OverBudget,
    ShortfallView, Usd,
};

/// The body of `POST /v1/runs`.
///
/// A caller in the same process may hand over a plan that it has validated already: the request then has an empty body and
/// carries a `SubmitRequest<Arc<Plan>>` as an HTTP extension, which no request over a socket can.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest<P = PlanDraft> {
    /// The plan.
    pub plan: P,
    /// The client that pays; ignored if an agent is named: then the agent's client pays.
    #[serde(default = "super::default_client")]
    pub client: String,
    /// The agent; absent: one of the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Highest allowed impact, 0 to 2; absent: the default of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u8>,
    /// Name of the scope.
    #[serde(default = "super::default_scope")]
    pub scope: String,
    /// The folder that the tools may touch, as an absolute path.
    pub workspace: String,
    /// Budget in credits, at least 1; absent: limited only by the client's credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<NonZeroU64>,
    /// Most that the calls of models may cost, child runs included; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Most tokens of all calls of models, child runs included; absent: no limit but the client's balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// What happens before a call that `usd` or `tokens` do not allow; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_budget: Option<OverBudget>,
    /// Id of the run, a UUID of version 7, which makes the request idempotent: a repetition with the same terms returns
    /// the run that was opened before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Recorded results of equal work of the client stand in for executions, and results are recorded for later runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse: bool,
    /// With `reuse`: nodes to execute also if a result is recorded; `*` for all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fresh: Vec<String>,
}

impl<P> SubmitRequest<P> {
    /// The same request with another plan, and the plan it had.
    pub fn swap_plan<Q>(self, plan: Q) -> (P, SubmitRequest<Q>) {
        let SubmitRequest {
            plan: before,
            client,
            agent,
            intent,
            scope,
            workspace,
            budget,
            usd,
            tokens,
            over_budget,
            run,
            reuse,
            fresh,
        } = self;
        let request = SubmitRequest {
            plan,
            client,
            agent,
            intent,
            scope,
            workspace,
            budget,
            usd,
            tokens,
            over_budget,
            run,
            reuse,
            fresh,
        };
        (before, request)
    }
}

/// The answer to requests that open or change a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    /// The run as a UUID.
    pub run: String,
}

/// The body of `POST /v1/runs/{id}/undo`; `null` leaves the intent to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Most impact that the calls of the undo may have, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u8>,
}

/// The body of `POST /v1/runs/{id}/interject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterjectRequest {
    /// The question, or the message to a model.
    pub text: String,
    /// Milliseconds after which silence cancels the run.
    pub wait_ms: NonZeroU64,
    /// The operator's answer in place of a model, in a goal run: with `conclude` the text is the verdict, with `replan` what is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<OperatorAnswer>,
    /// A person is asked for yes or no, also in a goal run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// The answer to an interjection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interjected {
    /// The run.
    pub run: String,
    /// The node that asks; its question is among the approvals.
    pub node: String,
}

/// The body of `POST /v1/runs/{id}/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// Node with the attempt in doubt.
    pub node: String,
    /// The attempt to settle, as in `waiting`: no other is settled, and a repetition changes nothing. Absent: the one
    /// in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The settlement.
    pub how: Resolution,
    /// The result, for [`Resolution::Done`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Settlement of an attempt in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The attempt took effect; the request has its result.
    Done,
    /// Run the node again.
    Redo,
    /// The attempt failed.
    Fail,
    /// The run has ended, and nothing is left of the node's effect.
    Gone,
}

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

fn needs_answer(waits_for: Option<WaitReason>) -> bool {
    matches!(waits_for, Some(WaitReason::Person | WaitReason::Answer))
}

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
