//! What is said over the API, as both sides read and write it.

mod pipelines;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ostler_actors::AGENT_WEIGHT;
use ostler_kernel::agent::{AgentState, Profile};
use ostler_kernel::gate::SCOPE_DEFAULT;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::plan::PlanDraft;

mod evaluation;
mod market;

pub use evaluation::{
    AgentEvaluationLine, DegradationView, EvaluationList, EvaluationView, JudgementView, ScoresView,
    VerdictRequest, VerdictView,
};
pub use market::{AuditLine, AuditView, JobLine, JobList, JobRequest, OfferRequest, OfferView, ProposalLine};
pub use pipelines::*;

/// The body of `POST /v1/runs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The plan as written.
    pub plan: PlanDraft,
    /// Who pays; the client of the agent, where one is named.
    #[serde(default = "local")]
    pub client: String,
    /// The agent that is to run it; absent: one that is there for this run alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The most impact it may have, 0..=2.
    #[serde(default = "operate")]
    pub intent: u8,
    /// The scope it acts in.
    #[serde(default = "default_scope")]
    pub scope: String,
    /// The folder its tools may touch, as an absolute path.
    pub workspace: String,
    /// Credits that it may cost at most, all together; absent: as many as its client has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// The id it is to have, a UUID of version 7: who asks once more because no answer came gets the run that was
    /// opened then, if all else is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

fn local() -> String {
    CLIENT_DEFAULT.to_owned()
}

fn is_none(credits: &u64) -> bool {
    *credits == 0
}

fn operate() -> u8 {
    1
}

fn default_scope() -> String {
    SCOPE_DEFAULT.to_owned()
}

/// The answer to everything that starts or changes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNamed {
    /// The run, as a UUID.
    pub run: String,
}

/// The body of `POST /v1/runs/{id}/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The node whose attempt is in doubt.
    pub node: String,
    /// What became of it.
    pub how: How,
    /// Its result, with [`How::Done`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What became of an attempt in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It was done; the request has its result.
    Done,
    /// It is to be done again.
    Redo,
    /// It counts as failed.
    Fail,
}

/// In which tier a client is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Before the marketplace, which keeps a guaranteed share.
    Contracted,
    /// Like any other.
    Marketplace,
}

/// The body of `POST /v1/clients/{client}`. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientRequest {
    /// Its entitlement among the clients of its tier: 1 to 1,000,000, or `"credits"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<WeightRequest>,
    /// Where it is served from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Credits to deposit, or to take back if below zero; never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<i64>,
}

/// An entitlement, as a request gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a weight is a whole number from 1 to 1000000, or \"credits\"")]
pub enum WeightRequest {
    /// 1 to 1,000,000.
    Chosen(u32),
    /// By its name.
    Named(WeightName),
}

/// A weight that nobody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightName {
    /// What the credits of the last thirty days are worth.
    Credits,
}

/// The answer to `GET /v1/clients`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientList {
    /// All clients that anything is known of, by name.
    pub clients: Vec<ClientLine>,
}

/// A client, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLine {
    /// Its name.
    pub client: String,
    /// Where it is served.
    pub tier: Tier,
    /// Its entitlement.
    pub weight: u32,
    /// The one that counts: bent by reputation, once it has had work in this process.
    pub weight_served: u32,
    /// Where the weight comes from: `configured`, `chosen`, `credits` or `default`.
    pub weight_from: String,
    /// All credits that were ever deposited for it; absent: it is not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposited: Option<i64>,
    /// Credits that its attempts cost so far: milliseconds of a slot.
    pub spent: u64,
    /// Credits that its attempts under way hold.
    pub reserved: u64,
    /// Credits that jobs of the market have reserved and not spent: they are among those that are left.
    #[serde(default, skip_serializing_if = "is_none")]
    pub for_jobs: u64,
    /// Credits that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<i64>,
    /// What the scores of its runs add up to, in thousandths; absent: none was evaluated yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Nothing of it is dispatched, because its credits are used up.
    pub parked: bool,
    /// Its attempts that run.
    pub running: u32,
    /// Its attempts that wait for a slot.
    pub queued: u64,
    /// Credits that it was charged since the scheduler started.
    pub charged: u64,
    /// Credits by which it is behind what its weight entitles it to; below zero: ahead.
    pub lag: i64,
}

/// The answer to `GET /v1/queue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Attempts that may run at once.
    pub slots: u32,
    /// Attempts that run.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Credits that the marketplace is owed by the contracted tier; below zero: it is ahead.
    pub marketplace_owed: i64,
    /// All clients that anything is known of, by name.
    pub clients: Vec<ClientLine>,
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
    /// How it stands.
    pub standing: Standing,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
    /// Nothing more of it starts, by its records, because the credits of its client are used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_credit: bool,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is being driven.
    Running,
    /// Nothing goes on until a person answers.
    Waiting,
    /// It has work left, and nobody drives it.
    Open,
    /// It was set aside: because somebody wanted that, or because it did not get on. All there is to it is in the journal.
    Checkpointed,
    /// It is over.
    Closed,
    /// Something of it is damaged: it is kept as far as it can be, and never goes on.
    Quarantined,
}

impl Standing {
    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Waiting => "waiting",
            Standing::Open => "open",
            Standing::Checkpointed => "checkpointed",
            Standing::Closed => "closed",
            Standing::Quarantined => "quarantined",
        }
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
    /// How it stands.
    pub standing: Standing,
    /// Where its agent stands with it.
    pub state: AgentState,
    /// How it ended: `succeeded`, `concluded`, `failed`, `cancelled`; `null` while it is open.
    pub outcome: Option<String>,
    /// Why it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where each node stands.
    pub nodes: BTreeMap<String, String>,
    /// Attempts started.
    pub dispatches: u32,
    /// Attempts started between one end of an attempt and the next.
    pub rounds: Vec<u32>,
    /// Most nodes ready or running at once.
    pub peak_ready: u32,
    /// Nodes ready or running, averaged over time.
    pub mean_ready: f64,
    /// From the first record to the last.
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
    pub culprits: Vec<Culprit>,
    /// How likely all that was accepted is correct; `null` where a contract says nothing of its precision.
    #[serde(default)]
    pub reliability: Option<ReliabilityBounds>,
    /// Digest of the artifact of each output that is executed.
    pub outputs: BTreeMap<String, String>,
    /// Nodes that wait for a person.
    pub waiting: Vec<Waiting>,
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
pub struct Culprit {
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
    /// Nodes that cannot start before; the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds_up: Vec<String>,
}

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
    pub holds_up: Vec<String>,
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

/// The answer to `GET /v1/runs/{id}/graph`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphView {
    /// The run, as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// Version of the plan.
    pub version: u32,
    /// The nodes, in the order of their levels, then of their ids.
    pub nodes: Vec<GraphNode>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
    /// What the run is for.
    pub outputs: Vec<String>,
}

/// A node of a graph, with where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// What executes it.
    pub kind: String,
    /// Its tool or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Longest path to it.
    pub level: u32,
    /// Where it stands.
    pub state: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it came there, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
    /// Time spent in the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<i64>,
    /// What its last failed attempt met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Digest of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Bytes of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// An edge of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// The source.
    pub from: String,
    /// The consumer.
    pub to: String,
    /// `success` or `terminal`.
    pub on: String,
}

/// A record as it is told: a line of `events --json` and of `run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// `event`.
    #[serde(rename = "type")]
    pub kind_of_line: String,
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

/// The answer to `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<AgentLine>,
}

/// One line of the table of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentLine {
    /// Its name.
    pub agent: String,
    /// Who pays.
    pub client: String,
    /// Its weight among the agents of its client.
    pub weight: u32,
    /// `idle` (it has no actor, as nothing of it goes on), `starting`, `live`, `stopping` or `quarantined`.
    pub state: String,
    /// Why it is quarantined, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Runs it has to drive.
    pub runs_open: usize,
    /// What it says of itself, with what it can do, its domain and its price as it offers them now.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

/// The body of `POST /v1/agents`: an agent to be made, or found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// Its name.
    pub agent: String,
    /// Who pays; absent: who pays for the agent of this name, else the default client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Its weight among the agents of its client, 1 to 1,000,000.
    #[serde(default = "agent_weight")]
    pub weight: u32,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

fn agent_weight() -> u32 {
    AGENT_WEIGHT
}

/// The answer to `POST /v1/agents` and to `POST /v1/agents/{agent}/release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentNamed {
    /// The agent, which is there; or in service again.
    pub agent: String,
}

/// The answer to `GET /v1/tree`: what supervises what in the process that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeView {
    /// The children of the root, in start order: a crash restarts a child and all after it.
    pub children: Vec<TreeLine>,
}

/// A supervised child, and what is below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeLine {
    /// Its name among its siblings.
    pub name: String,
    /// `worker`, `supervisor` or `pool`.
    pub kind: String,
    /// `down`, `starting`, `restarting`, `running` or `stopping`.
    pub state: String,
    /// How many times it was started, failed attempts included.
    pub generation: u64,
    /// How many times it was brought up again.
    pub restarts: u64,
    /// How it ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// How many children it has; `children` lists the first thousand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: usize,
    /// Its children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeLine>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The answer to `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The process that answers.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Runs it drives.
    pub active: usize,
}

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
    pub current: Option<AgentState>,
    /// Of `invalid_state`: where it would have to stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<AgentState>,
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

/// The word of plan files and journals for a variant.
pub(crate) fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).ok();
    value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}
