//! The records of the journal, in the order in which they happened. Recovery applies the records and calls nothing.
//!
//! New kinds of records and new variants are added at the end; existing ones never change. JSON inside a record is canonical
//! text ([`Json`]), which the codec copies as it is.

mod attempt;
mod audit;
mod call;
mod fork;
mod person;
mod pipeline;
mod recall;
mod reuse;
mod run;

use serde::{Deserialize, Serialize};

use crate::evaluation::{Appraised, Verdict};
use crate::grant::{Grant, GrantTerms};
use crate::id::{AgentId, ClientId, Digest, NodeId, RunId};
use crate::json::Json;
use crate::ledger::{Amounts, Shortfall};
use crate::market::{MarketStep, Offer};
use crate::policy::{CallEnd, FaultyAnswer};
use crate::port::{CageRung, ModelCall};
use crate::run::{Diagnosis, FailureCategory, RunOutcome};

pub use attempt::{
    Accounts, AttemptIntent, AttemptProgress, AttemptRef, AttemptResult, Directive, Failure, GateDecision,
    Outcome, Output, RefusedOutput, StepIntent, StepKey, StepResult,
};
pub use audit::{GateAnswer, GateVerdict, verify_verdicts};
pub use call::{CallReserved, CallSettled, EXCHANGE_BYTES_MAX, ModelExchanged, ResultJudged};
pub use fork::Forked;
pub use person::{
    AnswerVerdict, ApprovalCarried, ApprovalKept, ApprovalVoid, HumanAnswer, HumanRequest, HumanRequestKind,
    OperatorAct, WaitAnswer,
};
pub use pipeline::{PipelineRecord, Published};
pub use recall::{RETRACTIONS_MAX, Retraction, Withdrawn};
pub use reuse::{
    ArtifactEdited, Fresh, KeptIdentity, RecordPlace, ResultKept, ResultRecorded, ReuseBasis, ReuseDecided,
    ReuseDecision, ReuseTerms, ReusedResult,
};
pub use run::{
    CallTerms, ChangeCause, Evaluated, Exposure, NodeTransition, Parent, PlanRefusal, PlanVersion, RunOpened,
    RunTerms, Timer, TimerKind,
};

/// A journal record. Records of runs belong to the run's stream unless the variant names another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A run was opened: the first record of its stream.
    RunOpened(Box<RunOpened>),
    /// A process recovered the run, or released a recovered run in good order. Written before any work of this process.
    RunRecovered {
        /// Recoveries in a row without progress; 0 after a person resumed a parked run by name, and after a clean shutdown.
        count: u32,
    },
    /// A change of the plan made the next version.
    PlanVersion(PlanVersion),
    /// A change of the plan or a replan was refused, or the plan's contract does not hold; the version stays.
    PlanRefused {
        /// The current version.
        version: u32,
        /// The refused step.
        step: PlanRefusal,
    },
    /// A node moved to another state.
    NodeTransition(NodeTransition),
    /// An attempt is about to start. Durable before the attempt acts on the world.
    AttemptIntent(Box<AttemptIntent>),
    /// An attempt ended while its node waited for the result.
    AttemptResult(Box<AttemptResult>),
    /// An attempt ended after its node had moved on, or was stopped with its process and runs again: charged and discarded.
    LateResult(Box<AttemptResult>),
    /// A person has to answer.
    HumanRequest(HumanRequest),
    /// A person answered.
    HumanAnswer(HumanAnswer),
    /// A timer was set, in absolute time: restarts keep the deadline.
    TimerSet(Timer),
    /// A timer of a node fired.
    TimerFired {
        /// The node.
        node: NodeId,
        /// Purpose of the timer.
        kind: TimerKind,
    },
    /// A recovery level cannot help a node any more.
    RecoveryExhausted {
        /// The node; `*` for the whole plan.
        node: NodeId,
        /// 1 retry, 2 patch, 3 replan.
        level: u8,
        /// The reason.
        reason: String,
    },
    /// The gate denied an attempt. Operators see the reason; the model sees a generic failure. Allowed attempts have an
    /// intent instead.
    GateDecision(GateDecision),
    /// An agent was registered. In the stream of its client.
    AgentRegistered {
        /// Name of the agent.
        agent: AgentId,
        /// The client that pays for the agent.
        client: ClientId,
        /// Weight among the agents of the client.
        weight: u32,
    },
    /// An agent was taken out of service. In the stream of its client.
    AgentQuarantined {
        /// Name of the agent.
        agent: AgentId,
        /// The reason.
        reason: String,
    },
    /// The run was parked: on request, or because it killed its process again and again.
    Parked {
        /// The reason.
        reason: String,
    },
    /// An operator stopped the run or a node, or the system did in an operator's place.
    Operator(OperatorAct),
    /// The plan's contract was checked.
    ContractChecked {
        /// The checked version.
        version: u32,
        /// `true` if the contract holds.
        holds: bool,
    },
    /// Weight and tier of a client; the last record counts. In the stream of the client.
    ClientSet {
        /// Name of the client.
        client: ClientId,
        /// Weight of the client; 0: the weight follows from its deposits.
        weight: u32,
        /// The client belongs to the contracted tier.
        contracted: bool,
    },
    /// The run was closed: the last record of its stream.
    RunClosed {
        /// Outcome of the run.
        outcome: RunOutcome,
    },
    /// A running node that acts on the world was stopped: the attempt goes on to its true end, without recovery.
    Draining {
        /// The node.
        node: NodeId,
    },
    /// The planner was asked for a new version.
    ReplanAsked {
        /// The plan's contract does not hold; `false`: nodes failed.
        for_contract: bool,
    },
    /// Category of a failure, its diagnosis, and the recovery level that follows from both.
    Diagnosis {
        /// The node.
        node: NodeId,
        /// The category.
        category: FailureCategory,
        /// 1 retry, 2 patch, 3 a new version of the plan, 4 a person: the higher of what the category and the diagnosis ask for.
        level: u8,
        /// The diagnosis.
        diagnosis: Box<Diagnosis>,
    },
    /// Credits were deposited; from the first deposit on the client is metered. In the stream of the client.
    CreditDeposited {
        /// The client.
        client: ClientId,
        /// Number of credits; negative for a withdrawal.
        credits: i64,
        /// Cost of the client's attempts so far. The first deposit makes this part free of charge.
        spent: u64,
    },
    /// The credits of the run's client are used up, so nothing more of the run starts; or credits are available again.
    OutOfCredit {
        /// `true` if the credits are used up.
        out: bool,
    },
    /// Scores of the run. Just before `RunClosed`.
    Evaluated(Evaluated),
    /// A person released an agent from quarantine. In the stream of its client.
    AgentReleased {
        /// Name of the agent.
        agent: AgentId,
    },
    /// Profile of an agent; beside its registration, and final.
    AgentProfiled {
        /// Name of the agent.
        agent: AgentId,
        /// The client that pays for the agent.
        client: ClientId,
        /// JSON of `agent::Profile`.
        profile: Json,
    },
    /// An attempt reported progress. This record and the next four belong to the stream of the run's attempts.
    AttemptProgress(Box<AttemptProgress>),
    /// A step of an attempt is about to act on the world. Durable before the step acts.
    StepIntent(Box<StepIntent>),
    /// A step of an attempt ended.
    StepResult(Box<StepResult>),
    /// An attempt met a step with a lost result that must not run twice: a person has to decide.
    StepInDoubt {
        /// The attempt.
        of: AttemptRef,
        /// Id of the step.
        step: String,
    },
    /// A step of an attempt is about to open a child run.
    ChildRun {
        /// The attempt.
        of: AttemptRef,
        /// Id of the step.
        step: String,
        /// Id of the child run.
        run: RunId,
        /// Budget of the child run in credits; `None`: all credits of its client.
        budget: Option<u64>,
    },
    /// Budget and parent of a run: the second record of its stream, if the run has any.
    RunTerms(Box<RunTerms>),
    /// A change of a pipeline's cursors or stages. In the pipeline's stream of kind `Pipeline`.
    Pipeline(Box<PipelineRecord>),
    /// An event of a pipeline. In the pipeline's stream of kind `PipelineLog`; the sequence number is the number of the
    /// event.
    Published(Published),
    /// Weights and a judge's opinion behind the scores of a run. Just before `Evaluated`, if not the default.
    Appraised(Box<Appraised>),
    /// A person's verdict on a closed run. In the stream of the run's client.
    Verdict(Box<Verdict>),
    /// Capabilities and price of an agent. In the stream of its client.
    AgentOffered {
        /// Name of the agent.
        agent: AgentId,
        /// The client that owns the agent.
        client: ClientId,
        /// The offer.
        offer: Box<Offer>,
    },
    /// A market job reached the next stage. In the stream of its client.
    Market {
        /// Id of the job, and of the run that executes the job.
        job: RunId,
        /// The stage.
        step: Box<MarketStep>,
    },
    /// Violation of the plan's contract. Just before `ContractChecked`.
    ContractBroken {
        /// The checked version.
        version: u32,
        /// Description of the violation; of bounded length.
        why: String,
    },
    /// A call of a model that an attempt made, before the result of the attempt; or the judge of the run, before the end of the run. The
    /// log of the attempts has it as soon as the call ends.
    ModelCalled {
        /// The node.
        node: NodeId,
        /// Number of the attempt.
        attempt: u32,
        /// The call.
        call: Box<ModelCall>,
    },
    /// Terms of a goal run: the second record of its stream, or the third behind `RunTerms`.
    GoalOpened {
        /// JSON of `policy::GoalTerms`.
        terms: Json,
    },
    /// A goal run is about to call a model.
    CallBegun {
        /// JSON of `policy::CallIntent`.
        intent: Json,
        /// Tokens reserved for the answer.
        reserved: u64,
    },
    /// A call of a model in a goal run ended.
    CallEnded {
        /// Place of the call among the calls of the run, from 0.
        call: u32,
        /// Usage, and what became of the answer.
        end: CallEnd,
        /// The answer, if it was faulty: the next try is shown it. Of the micro-planner any answer, because it is the result of
        /// no node. Of bounded length.
        faulty: Option<FaultyAnswer>,
    },
    /// The terms and credits of a client were removed: from here on it is like a client without records. In the stream of the
    /// client.
    ClientRemoved {
        /// The client.
        client: ClientId,
    },
    /// Limits of the run's calls of models: behind `RunOpened` and `RunTerms`, if the run has any.
    CallTerms(CallTerms),
    /// An attempt, or the micro-planner, is about to call a model under a limit of tokens or money. Durable before the call.
    /// This record and the next belong to the stream of the run's attempts.
    CallReserved(Box<CallReserved>),
    /// A call with a reservation ended.
    CallSettled(Box<CallSettled>),
    /// A call was not made, because the budget of its run or the balance of its client does not allow it. Before the question
    /// to a person.
    BudgetShort {
        /// The node.
        node: NodeId,
        /// What the call needs, and what is left.
        shortfall: Box<Shortfall>,
    },
    /// A person raised the budget of the run's account.
    BudgetRaised {
        /// The node that asked.
        node: NodeId,
        /// Tokens and money that the budget grows by.
        by: Amounts,
    },
    /// Tokens and money were deposited for a client's calls of models; from the first deposit of each on the client is metered in
    /// it. In the stream of the client.
    BalanceDeposited {
        /// The client.
        client: ClientId,
        /// Number of tokens; negative for a withdrawal.
        tokens: i64,
        /// Billionths of a US dollar; negative for a withdrawal.
        nano_usd: i64,
        /// What the client's calls used so far. The first deposit makes this part free of charge.
        used: Amounts,
    },
    /// A model answered a program: the question too, because no other record holds it. In the stream of the run's attempts; for
    /// exports only.
    ModelExchanged(Box<ModelExchanged>),
    /// The cage in which the programs of an attempt ran. Before the result of the attempt.
    Caged {
        /// The node.
        node: NodeId,
        /// Number of the attempt.
        attempt: u32,
        /// The rung; of several programs the lowest.
        rung: CageRung,
    },
    /// The run takes part in reuse. Follows the opening record and the other terms. Without this record the run neither
    /// reuses results nor offers its own.
    ReuseTerms(ReuseTerms),
    /// A decision about reuse: a recorded result stands in for a node, or the node is executed. Precedes the end of a
    /// reused node, or the first attempt.
    ReuseDecided(Box<ReuseDecided>),
    /// The result of a node may stand in for equal work from now on. Appended with the records that end the node.
    ResultRecorded(Box<ResultRecorded>),
    /// An operator granted calls without individual approval, in whatever workspace. Written up to format 16, and of no effect since:
    /// a [`Event::GrantedIn`] names the workspace. In the stream of the client.
    Granted(Box<GrantTerms>),
    /// An operator revoked a grant before its expiry. In the stream of the client.
    GrantRevoked {
        /// Client whose runs the grant covered.
        client: ClientId,
        /// Id of the grant.
        grant: String,
        /// Operator who revoked the grant.
        by: String,
    },
    /// The gate's verdict on the call of a node. The verdict on an allowed call is appended with the intent, so the verdict
    /// is durable before the attempt acts on the world.
    GateVerdict(Box<GateVerdict>),
    /// A person's artifact replaces a node's result. Follows the terms of reuse.
    ArtifactEdited(Box<ArtifactEdited>),
    /// A node failed outside of any attempt: a guard could not be judged, a list could not be expanded, or a deadline
    /// passed.
    NodeFault {
        /// The node.
        node: NodeId,
        /// The failure.
        failure: Failure,
    },
    /// An external answer to a wait, with its verdict.
    WaitAnswered(Box<WaitAnswer>),
    /// A node of a repeated run keeps its result: the change that the run is repeated for does not reach the node. Follows the
    /// terms of reuse.
    ResultKept(Box<ResultKept>),
    /// An operator withdrew recorded results. In the stream of a client; durable before any consequence.
    Retracted(Box<Retraction>),
    /// Every consequence of a retraction has taken effect: approvals and grants that rest on its results are void. In the
    /// stream of the client.
    RetractionCarriedOut {
        /// Client with the retraction in its stream.
        client: ClientId,
        /// Id of the retraction.
        retraction: String,
    },
    /// An operator lifted a retraction: its results may stand in again. In the stream of the client.
    RetractionLifted {
        /// Client with the retraction in its stream.
        client: ClientId,
        /// Id of the retraction.
        retraction: String,
        /// The operator.
        by: String,
    },
    /// What the attempt that opened the run had read. Follows the other terms, if there is anything.
    Exposed(Box<Exposure>),
    /// The run continues another one: behind the opening and the terms, before the records taken over.
    Forked(Box<Forked>),
    /// An output that the node's contract refused, kept for people: nothing reads or reuses it. Just before the result of the
    /// attempt.
    CandidateKept(Box<RefusedOutput>),
    /// Identity of the work behind a kept result: the works of its consumers have its receipt. Follows the kept results.
    KeptIdentity(Box<KeptIdentity>),
    /// A person approved the node in the repeated run. Follows the kept results.
    ApprovalKept(Box<ApprovalKept>),
    /// The material that an approval of an open question covers. Follows the question.
    ApprovalMaterial {
        /// The node.
        node: NodeId,
        /// Digest of what is shown and of the policy of the gate; of a result, also of the work behind it and of the contract.
        material: Digest,
    },
    /// An approval of the repeated run answers a question about the same material: no person is asked again. Follows the question.
    ApprovalCarried(Box<ApprovalCarried>),
    /// A model judged the result of an attempt by a rule of the node's contract. Just behind the record of the judging call, before
    /// the result of the attempt.
    ResultJudged(Box<ResultJudged>),
    /// An operator granted calls in a workspace without individual approval. In the stream of the client.
    GrantedIn(Box<Grant>),
}
