//! The records of the journal: what happened, in the order it happened. Recovery applies them again and calls
//! nothing.
//!
//! Records are flat and versioned by their kind; new kinds and variants are added at the end, never changed.
//! JSON inside a record is canonical text ([`Json`]), so the codec needs no knowledge of it.

mod attempt;
mod person;
mod pipeline;
mod run;

use serde::{Deserialize, Serialize};

use crate::evaluation::{Appraised, Verdict};
use crate::id::{AgentId, ClientId, NodeId, RunId};
use crate::json::Json;
use crate::market::{MarketStep, Offer};
use crate::run::{FailureCategory, RunOutcome};

pub use attempt::{
    Accounts, AttemptIntent, AttemptProgress, AttemptRef, AttemptResult, Directive, Failure, GateDecision,
    Outcome, Output, StepIntent, StepKey, StepResult,
};
pub use person::{HumanAnswer, HumanRequest, HumanRequestKind, OperatorAct};
pub use pipeline::{PipelineRecord, Published};
pub use run::{
    ChangeCause, Evaluated, NodeTransition, Parent, PlanRefusal, PlanVersion, RunOpened, RunTerms, Timer,
    TimerKind,
};

/// A journal record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The first record of a run's stream.
    RunOpened(Box<RunOpened>),
    /// A process took the run up again after the one before it died; counted before any work. Or one that took it up has taken leave of it.
    RunRecovered {
        /// Recoveries in a row without an attempt that ended, or that noted that it got further; 0: somebody took a parked run up by name,
        /// or the process ended in good order.
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
        category: FailureCategory,
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
        of: AttemptRef,
        /// Id of the step.
        step: String,
    },
    /// A step of an attempt is about to open a run.
    ChildRun {
        /// Which attempt.
        of: AttemptRef,
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
