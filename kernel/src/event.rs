//! The records of the journal: what happened, in the order it happened. Recovery applies them again and calls
//! nothing.
//!
//! Records are flat and versioned by their kind; new kinds and variants are added at the end, never changed.
//! JSON inside a record is canonical text ([`Json`]), so the codec needs no knowledge of it.

use serde::{Deserialize, Serialize};

use crate::evaluation::{Appraised, Scores, Verdict};
use crate::id::{AgentId, ClientId, Digest, EventType, NodeId, RunId, StageId, Ticks};
use crate::json::Json;
use crate::market::{MarketStep, Offer};
use crate::plan::Idempotency;
use crate::run::{Category, NodeState, Reason, RunOutcome};

/// A journal record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The first record of a run's stream.
    RunOpened(Box<RunOpened>),
    /// A process took the run up again after the one before it died; counted before any work.
    RunRecovered {
        /// Recoveries in a row without an attempt that ended, or that noted that it got further; 0: somebody took a parked run up by name.
        count: u32,
    },
    /// A change of the plan was accepted.
    PlanVersion(PlanVersion),
    /// A change of the plan, a replan or the plan's contract was turned down; the version stands.
    PlanRefused {
        /// The version that stands.
        version: u32,
        /// What was turned down.
        step: PlanRefusal,
    },
    /// A node moved.
    NodeTransition(NodeTransition),
    /// An attempt is about to start. Durable before the effect, where there is one.
    AttemptIntent(Box<AttemptIntent>),
    /// An attempt ended while its node waited for it.
    AttemptResult(Box<AttemptResult>),
    /// An attempt ended after it was fenced or had timed out: charged and discarded.
    LateResult(Box<AttemptResult>),
    /// A person is asked.
    HumanRequest(HumanRequest),
    /// A person answered.
    HumanAnswer(HumanAnswer),
    /// A timer was set. Absolute, so it survives restarts.
    TimerSet(Timer),
    /// The timer of a node went off.
    TimerFired {
        /// Whose.
        node: NodeId,
        /// What it was for.
        kind: TimerKind,
    },
    /// A recovery level cannot help this node any more.
    RecoveryExhausted {
        /// Whose.
        node: NodeId,
        /// 1 retry, 2 patch, 3 replan.
        level: u8,
        /// Why.
        reason: String,
    },
    /// The gate denied an attempt. For operators only; what is allowed is told by its intent.
    GateDecision(GateDecision),
    /// An agent exists from here on.
    AgentRegistered {
        /// Its name.
        agent: AgentId,
        /// Who pays.
        client: ClientId,
        /// Its weight among the agents of its client.
        weight: u32,
    },
    /// An agent was taken out of service.
    AgentQuarantined {
        /// Its name.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// A run that keeps crashing the process was set aside.
    Parked {
        /// Why.
        reason: String,
    },
    /// The operator asked for something.
    Operator(OperatorAct),
    /// The plan's own contract was judged.
    ContractChecked {
        /// The version it was judged for.
        version: u32,
        /// Whether it holds.
        holds: bool,
    },
    /// A client was set up or changed: the last record counts.
    ClientSet {
        /// Its name.
        client: ClientId,
        /// Its weight; 0: what its credits are worth.
        weight: u32,
        /// Whether it belongs to the contracted tier.
        contracted: bool,
    },
    /// The last record of a run's stream.
    RunClosed {
        /// How it ended.
        outcome: RunOutcome,
    },
    /// A running node that acts on the world was stopped: it goes on to its true end and is then left alone.
    Draining {
        /// Which.
        node: NodeId,
    },
    /// The planner was asked for a new version.
    ReplanAsked {
        /// Whether for the plan's contract, and not for failed nodes.
        for_contract: bool,
    },
    /// What an attempt's failure was taken for, and the recovery level that suits it.
    Diagnosis {
        /// Whose.
        node: NodeId,
        /// What happened.
        category: Category,
        /// 1 retry, 2 patch.
        level: u8,
    },
    /// Credits were deposited for a client, which is metered from here on.
    CreditDeposited {
        /// For whom.
        client: ClientId,
        /// How many; below zero: taken back.
        credits: i64,
        /// What its attempts had cost by then: with the first deposit, what was free.
        spent: u64,
    },
    /// The credits of the run's client are used up: nothing more of the run starts until some are deposited. Or they were.
    OutOfCredit {
        /// Whether they are used up from here on.
        out: bool,
    },
    /// How well the run was done; just before it is closed.
    Evaluated(Evaluated),
    /// A person has put an agent that was quarantined back into service.
    AgentReleased {
        /// Its name.
        agent: AgentId,
    },
    /// What an agent is, once for all; with its registration.
    AgentProfiled {
        /// Its name.
        agent: AgentId,
        /// Who pays.
        client: ClientId,
        /// What it is, as JSON of `agent::Profile`.
        profile: Json,
    },
    /// An attempt told how far it has come. Here and below: in the stream of the run's attempts.
    AttemptProgress(Box<AttemptProgress>),
    /// A step of an attempt is about to act on the world. Durable before it does.
    StepIntent(Box<StepIntent>),
    /// A step of an attempt ended.
    StepResult(Box<StepResult>),
    /// An attempt met a step whose result is lost and that may not be called twice: a person is to be asked.
    StepInDoubt {
        /// Which attempt.
        of: AttemptOf,
        /// Id of the step.
        step: String,
    },
    /// A step of an attempt is about to open a run.
    ChildRun {
        /// Which attempt.
        of: AttemptOf,
        /// Id of the step.
        step: String,
        /// The run.
        run: RunId,
        /// Credits that it may cost; `None`: as many as its client has.
        budget: Option<u64>,
    },
    /// What holds for a run besides how it was opened: its second record, if there is anything.
    RunTerms(Box<RunTerms>),
    /// What became of a pipeline, its cursors above all: a record of its stream of kind `Pipeline`.
    Pipeline(Box<PipelineRecord>),
    /// An event of a pipeline: a record of its stream of kind `PipelineLog`, whose sequence number is that of the event.
    Published(Published),
    /// By what the run is judged, and what a judge said of it; just before `Evaluated`, and only where it is not the default.
    Appraised(Box<Appraised>),
    /// What a person says of a run that is over; in the stream of its client.
    Verdict(Box<Verdict>),
    /// What an agent can do, and for how much, from here on.
    AgentOffered {
        /// Its name.
        agent: AgentId,
        /// Whose it is.
        client: ClientId,
        /// What it offers.
        offer: Box<Offer>,
    },
    /// A job of the market got on by a stage.
    Market {
        /// The job, which has the id of the run that it becomes.
        job: RunId,
        /// The stage.
        step: Box<MarketStep>,
    },
    /// Why the plan's own contract does not hold; just before it is said that it does not.
    ContractBroken {
        /// The version it was judged for.
        version: u32,
        /// What broke it; of bounded length.
        why: String,
    },
}

/// An attempt at a piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOf {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, 1 at first.
    pub generation: u32,
    /// Patches applied so far: each makes it other work.
    pub phase: u32,
    /// 1 for the first attempt of the node.
    pub attempt: u32,
}

/// See [`Event::AttemptProgress`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// Which attempt.
    pub of: AttemptOf,
    /// What the next attempt is given.
    pub token: Json,
}

/// What a step is memoized by, besides its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepKey {
    /// Version of the program that it is a step of.
    pub version: String,
    /// Digest of the canonical JSON of its input.
    pub input: Digest,
}

/// See [`Event::StepIntent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepIntent {
    /// Which attempt.
    pub of: AttemptOf,
    /// Id of the step.
    pub step: String,
    /// What else it is memoized by.
    pub key: StepKey,
    /// What a lost result permits.
    pub idem: Idempotency,
    /// What a receiver can recognise a repetition by.
    pub idempotency_key: Digest,
}

/// See [`Event::StepResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Which attempt.
    pub of: AttemptOf,
    /// Id of the step.
    pub step: String,
    /// What else it is memoized by.
    pub key: StepKey,
    /// What came of it. Failures are recorded of steps that act, to tell them from those whose result was lost.
    pub outcome: Outcome,
}

/// See [`Event::RunTerms`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTerms {
    /// Credits that its attempts may cost, all together.
    pub budget: Option<u64>,
    /// The attempt that opened it.
    pub parent: Option<Parent>,
}

/// Who opened a run: a step of an attempt of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub of: AttemptOf,
    /// Id of the step.
    pub step: String,
}

/// See [`Event::RunOpened`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOpened {
    /// The run.
    pub run: RunId,
    /// Who pays.
    pub client: ClientId,
    /// Who runs it.
    pub agent: AgentId,
    /// Version 1 of the plan, normalised.
    pub plan: Json,
    /// The most impact the caller asked for, 0..=2.
    pub intent: u8,
    /// The scope the caller acts in.
    pub scope: String,
    /// Folder that the tools may touch.
    pub workspace: String,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// Seed of everything random in this run (back-off jitter).
    pub seed: u64,
}

/// See [`Event::Evaluated`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The dimensions.
    pub scores: Scores,
    /// One score for all of them, in thousandths.
    pub composite: u16,
}

/// See [`Event::PlanVersion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanVersion {
    /// The new version.
    pub version: u32,
    /// Why there is one.
    pub cause: ChangeCause,
    /// What is different, as JSON of `plan::Revision`.
    pub revision: Json,
}

/// Why a new version exists. `Display` gives the text of the conformance cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeCause {
    /// The micro-planner patched this node.
    Patch(NodeId),
    /// The outcome of this node carried a delta.
    Node(NodeId),
    /// The operator sent a delta.
    Operator,
    /// The operator interjected.
    Interject,
    /// The planner answered.
    Replan,
}

impl std::fmt::Display for ChangeCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeCause::Patch(node) => write!(f, "patch:{node}"),
            ChangeCause::Node(node) => write!(f, "delta:{node}"),
            ChangeCause::Operator => f.write_str("delta:operator"),
            ChangeCause::Interject => f.write_str("delta:interject"),
            ChangeCause::Replan => f.write_str("delta:replan"),
        }
    }
}

/// What was turned down. `Display` gives the text of the conformance cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanRefusal {
    /// A change was invalid.
    Delta {
        /// Who asked for it.
        cause: ChangeCause,
        /// Its fault codes, sorted, each once.
        codes: Vec<String>,
    },
    /// The planner had no answer.
    Replan,
    /// The plan's own contract does not hold.
    Contract,
}

impl std::fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanRefusal::Delta { codes, .. } => write!(f, "delta_rejected:{}", codes.join(",")),
            PlanRefusal::Replan => f.write_str("replan_refused"),
            PlanRefusal::Contract => f.write_str("contract_failed"),
        }
    }
}

/// See [`Event::NodeTransition`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTransition {
    /// Who moved.
    pub node: NodeId,
    /// In which version of the plan.
    pub version: u32,
    /// From where.
    pub from: NodeState,
    /// To where.
    pub to: NodeState,
    /// Why.
    pub reason: Reason,
    /// The attempt under way, 0 before the first.
    pub attempt: u32,
}

/// See [`Event::AttemptIntent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptIntent {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, 1 at first.
    pub generation: u32,
    /// Patches applied so far.
    pub phase: u32,
    /// 1 for the first attempt of the node.
    pub attempt: u32,
    /// Identity of the work (lineage `r`).
    pub reuse: Digest,
    /// What a receiver can recognise a repetition by.
    pub idempotency_key: Digest,
    /// The most impact allowed.
    pub intent: u8,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// Where the values came from: `user`, `plan`, `tool:<name>`; empty means untrusted.
    pub provenance: Vec<String>,
    /// Absolute values of the accounts after the charge; `None` if nothing was charged (a wait holds no slot).
    pub accounts: Option<Accounts>,
}

/// Absolute values of the scheduler's accounts after a charge: the last value per key is the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Accounts {
    /// Virtual time of the client.
    pub client_vruntime: i64,
    /// What its last division left over.
    pub client_remainder: u32,
    /// Its balance in credits, if it is metered.
    pub balance: Option<i64>,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Virtual time of the agent within its client.
    pub agent_vruntime: i64,
    /// What its last division left over.
    pub agent_remainder: u32,
    /// Virtual time of the tier.
    pub tier_vruntime: i64,
    /// What the marketplace is owed.
    pub owed: i128,
}

/// See [`Event::AttemptResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The node.
    pub node: NodeId,
    /// Which attempt.
    pub attempt: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub duration_ms: u64,
    /// What it cost, in credits.
    pub cost: u64,
    /// Absolute values of the accounts after settlement; `None` if nothing was settled.
    pub accounts: Option<Accounts>,
}

impl AttemptResult {
    /// The end of an attempt that took no time and cost nothing.
    pub fn unpaid(node: NodeId, attempt: u32, outcome: Outcome) -> AttemptResult {
        AttemptResult { node, attempt, outcome, duration_ms: 0, cost: 0, accounts: None }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// An output that passed the node's contract.
    Ok(Output),
    /// A failure.
    Failed(Failure),
}

/// The output of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// Bytes of its content.
    pub bytes: u64,
    /// The value itself, where it is small; else it is in the artifact store.
    pub inline: Option<Json>,
    /// What else the outcome asks for: a conclusion, or a change of the plan.
    pub directive: Option<Directive>,
}

/// What the outcome of a node may ask for besides giving a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// End the run early.
    pub conclude: bool,
    /// A change of the plan, as JSON of `plan::Delta`.
    pub delta: Option<Json>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Which kind.
    pub category: Category,
    /// What happened, for people.
    pub message: String,
}

impl Failure {
    /// A failure of this kind; what happened, for people.
    pub fn new(category: Category, message: impl Into<String>) -> Failure {
        Failure { category, message: message.into() }
    }
}

/// See [`Event::HumanRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanRequest {
    /// The node.
    pub node: NodeId,
    /// What is asked.
    pub kind: HumanRequestKind,
    /// When silence cancels; `None` waits for ever (in doubt only).
    pub deadline: Option<Ticks>,
    /// Digest of what is shown; an answer is bound to it.
    pub shown: Option<Digest>,
}

/// What a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanRequestKind {
    /// May this be done?
    Before,
    /// May this result be published?
    After,
    /// The node itself is a question.
    Node,
    /// Was this done? The result of an effect was lost.
    InDoubt,
}

/// See [`Event::HumanAnswer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanAnswer {
    /// The node.
    pub node: NodeId,
    /// Yes or no; for an attempt in doubt: done or failed, and `redo` beside it.
    pub approve: bool,
    /// In doubt only: do it again.
    pub redo: bool,
    /// Who answered.
    pub by: String,
    /// In their words.
    pub note: String,
}

/// See [`Event::TimerSet`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// Whose.
    pub node: NodeId,
    /// What for.
    pub kind: TimerKind,
    /// When, in absolute time.
    pub at: Ticks,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerKind {
    /// Wait before a retry.
    Backoff,
    /// Silence of a person.
    Human,
    /// A sleep that the plan asked for.
    Sleep,
}

/// See [`Event::GateDecision`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateDecision {
    /// The node.
    pub node: NodeId,
    /// Which attempt.
    pub attempt: u32,
    /// Code of the denial.
    pub code: String,
    /// What was wrong, for operators; of bounded length.
    pub detail: String,
}

/// What an operator did to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperatorAct {
    /// Cancel all of it.
    CancelPlan,
    /// Cancel a node.
    Cancel(NodeId),
    /// Skip a node.
    Skip(NodeId),
}

/// See [`Event::Pipeline`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PipelineRecord {
    /// The first record of the stream: the pipeline exists from here on.
    Created {
        /// As JSON of `pipeline::PipelineSpec`.
        spec: Json,
    },
    /// A stage has dealt with everything up to an event.
    Acked {
        /// Which.
        stage: StageId,
        /// The number of that event.
        upto: u64,
        /// What the stage is to be given when it starts again; `None`: what it was before.
        state: Option<Json>,
    },
    /// An event was too much for a stage, again and again.
    Parked {
        /// Which stage.
        stage: StageId,
        /// The number of the event; 0: the end of what the stage hears.
        seq: u64,
        /// What happened the last time.
        reason: String,
        /// Whether the stage stops there; else it goes on with the next event.
        stops: bool,
    },
    /// Somebody moved the cursor of a stage.
    Moved {
        /// Which.
        stage: StageId,
        /// The next event is the one after this number.
        after: u64,
        /// Whether it keeps the state of its last acknowledgement; else it begins without one.
        keeps_state: bool,
    },
    /// Events were gone before a stage had come to them.
    Lagged {
        /// Which stage.
        stage: StageId,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// A stretch of the log is complete, and the oldest ones may be over the quota.
    Stretch {
        /// Its last event.
        upto: u64,
        /// What its events count for.
        bytes: u64,
        /// The oldest event that is kept from here on.
        oldest: u64,
    },
    /// A stage publishes nothing more.
    Ended {
        /// Which.
        stage: StageId,
    },
    /// A person lets a stage go on that had stopped at an event, without that event.
    Released {
        /// Which.
        stage: StageId,
    },
    /// A stage failed at an event, and is to try again.
    Failed {
        /// Which.
        stage: StageId,
        /// The number of the event; 0: the end of what the stage hears.
        seq: u64,
        /// Times that it has failed at it by now.
        times: u32,
        /// What happened.
        reason: String,
    },
}

/// See [`Event::Published`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Who.
    pub stage: StageId,
    /// What kind of event.
    pub kind: EventType,
    /// What it says.
    pub data: Json,
}
