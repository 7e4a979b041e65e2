//! The state machine of one run: pure decisions about the next steps of a plan's execution.
//!
//! [`Run`] is the state. [`Run::decide`] takes one input and returns the records that follow. Every record takes effect in
//! memory as soon as it is decided, because the next decision depends on it; the caller appends the records before anything
//! leaves the process. Recovery passes the same records to [`Run::apply`], the only function that changes a run, so a recovered
//! run equals the run that wrote them.
//!
//! | file | content |
//! |---|---|
//! | `state`, `node_status` | node states, reasons for transitions, the data of each state |
//! | `apply`, `transition` | effect of each record |
//! | `input`, `decision` | inputs, and one decision: records in the order they take effect |
//! | `propagate`, `dirty` | steps that nodes make by themselves, and the nodes to look at |
//! | `entering`, `waiting`, `compensation` | guards and expansion; answers from outside; undo |
//! | `joins`, `ordered_joins` | state of each join; the next candidate of ordered joins |
//! | `dispatch`, `attempt`, `human`, `change`, `operator` | consequences of a start, a result, a person's answer, a new plan version, an operator's request |
//! | `strategy`, `recovery` | recovery strategy of a failure; retry and patch |
//! | `planner`, `static_planner` | patches and replans that a program writes; the default planner |
//! | `goal` | wishes of a goal run's mode, calls of its models |
//! | `completion` | the end of a run: replan, contract check, close |
//! | `crash_recovery` | continuing a run after its process died |
//! | `oversight` | approvals that the oversight mode adds |
//! | `abandoned_work`, `downstream` | work that a record makes useless; nodes that wait for a node |
//! | `run_budget`, `model_usage` | credits of concurrent attempts; tokens and price of model calls |
//! | `inputs`, `intent` | input of an attempt, and the record before its start |
//! | `approval_request`, `carried` | the document that a person approves; approvals of an earlier run |
//! | `fork` | the records that a fork takes over |
//! | `fold`, `report` | a run from its records; its figures |
//! | `candidates` | outputs that did not become results |
//! | `opening_terms` | terms behind the opening record |
//! | `doubt` | effects that may have been made |
//! | `repeat`, `spending` | what a repetition keeps, reuses and executes, and what that cost before |
//! | `reuse`, `recall` | recorded results in the place of executions; the nodes that rest on withdrawn results |
//! | `status` | the status that people and programs see |

mod abandoned_work;
mod apply;
mod approval_request;
mod attempt;
mod call_budget;
mod candidates;
mod carried;
mod change;
mod compensation;
mod completion;
mod crash_recovery;
mod decision;
mod diagnosis;
mod dirty;
mod dispatch;
mod doubt;
mod downstream;
mod entering;
mod fold;
mod fork;
mod goal;
mod guards;
mod human;
mod input;
mod inputs;
mod intent;
mod joins;
mod judged_results;
mod lost_attempts;
mod model_usage;
mod node_status;
mod opening_terms;
mod operator;
mod ordered_joins;
mod oversight;
mod planner;
mod propagate;
mod queries;
mod rate_waits;
mod recall;
mod recovery;
mod repeat;
mod report;
mod reuse;
mod run_budget;
mod spending;
mod state;
mod static_planner;
mod status;
mod strategy;
mod transition;
mod verdicts;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use abandoned_work::AbandonedWork;
pub use apply::IllegalStep;
pub use approval_request::{ApprovalRequest, ApprovalTest, HeldFor, ShownChange, WRITTEN, shown_changes};
pub use candidates::{CANDIDATES_MAX, Candidate, CandidateReason, Candidates, refused_candidate};
pub use compensation::{UndoError, UndoReport, Undone};
pub use completion::Completion;
pub use crash_recovery::{CrashRecovery, RECOVERIES_MAX, RecoveryContext};
pub use decision::DecisionContext;
pub use diagnosis::{
    CAUSE_CHARS_MAX, DIAGNOSES_KEPT_MAX, Diagnosed, Diagnoser, Diagnosis, DiagnosisRequest, DiagnosisScore,
    RuleDiagnoser,
};
pub use doubt::Doubt;
pub use downstream::DOWNSTREAM_MAX;
pub use entering::ReadResult;
pub use fold::{FoldedRun, ReadPlan, RunFold, RunFoldError};
pub use fork::{FORK_RECORDS_MAX, ForkPrefix};
pub use human::{AnswerError, ResolutionError};
pub use input::{Canceller, Operation, Resolution, RunInput};
pub use inputs::{AttemptInput, InputError, RefDigests, resolve};
pub use intent::{GENERATION, IntentContext, executable_digest};
pub use judged_results::JudgedResult;
pub use lost_attempts::LostAttempts;
pub use model_usage::{ModelUsage, ReportedCalls};
pub use node_status::{
    KeptAnswer, NodeInstance, NodeStatus, RecordedAnswer, RecordedApproval, ResolutionKind, WaitState,
    WorkIdentity,
};
pub use opening_terms::OpeningTerms;
pub use operator::OperationError;
pub use planner::{Patch, Planner, PlannerAnswer, PlannerRequest};
pub use rate_waits::{RATE_WAIT_MS_MAX, RATE_WAITS_MAX, RateWaits};
pub use recall::{Origins, Recall};
pub use recovery::backoff;
pub use repeat::{Change, EarlierApproval, Fate, Recomputation, RecomputationCause, RepeatDecision};
pub use report::{NodeFigures, RootCause, RunReport, RunTimeline, attempt_started_at};
pub use reuse::{contract_text, repetition};
pub use run_budget::{NodeAttempt, RunBudget};
pub use spending::{Spending, Spent};
pub use state::{FailureCategory, NodeState, RunOutcome, TransitionReason};
pub use static_planner::{FEEDBACK, StaticPlanner};
pub use status::{RunStatus, StatusFacts, UnknownStatus, WaitReason};
pub use strategy::RecoveryStrategy;
pub use waiting::{ANSWER_ID_BYTES_MAX, OutsideAnswer, REFUSED_ANSWERS_RECORDED_MAX};

use crate::evaluation::Tally;
use crate::event::{ApprovalKept, ArtifactEdited, Exposure, ResultKept, ReuseTerms, RunTerms};
use crate::id::{NodeId, Ticks};
use crate::plan::{Graph, Node, Plan};
use crate::policy::Goal;
use call_budget::CallBudget;
use compensation::UndoState;
use diagnosis::Diagnoses;
use dirty::DirtySet;
use entering::Reading;
use joins::JoinCount;
use ordered_joins::OrderedJoins;
use verdicts::Verdicts;

/// The state of one run. Holds no clock and no handle: time, ids and the planner arrive with each input.
///
/// Nodes are addressed by their index in the current plan, in the order of ids. A new plan version changes the indices;
/// `Run::derive` then computes every dependent field.
#[derive(Debug, Clone)]
pub struct Run {
    plan: Arc<Plan>,
    graph: Arc<Graph>,
    instances: Vec<NodeInstance>,
    joins: Vec<JoinCount>,
    ordered_joins: OrderedJoins,
    is_output: Vec<bool>,
    /// Ready nodes in the order of dispatch: (level, index).
    ready: BTreeSet<(u32, usize)>,
    dirty: DirtySet,
    counts: StateCounts,
    /// Live interjections, each of which holds every other node.
    holds: Vec<NodeId>,
    seed: u64,
    cancelled: bool,
    concluded: bool,
    replan: ReplanState,
    /// Plan version of the last check of the plan's contract, and its result.
    contract: Option<(u32, bool)>,
    counters: Counters,
    tally: Tally,
    model_usage: ModelUsage,
    diagnoses: Diagnoses,
    terms: RunTerms,
    /// What the caller of the run had read.
    exposure: Exposure,
    call_budget: CallBudget,
    verdicts: Verdicts,
    /// Terms of reuse; `None` if the run takes no part in reuse.
    reuse: Option<ReuseTerms>,
    /// Artifacts of people in place of results.
    edits: BTreeMap<NodeId, ArtifactEdited>,
    /// Results of earlier runs that stand as they are.
    kept: BTreeMap<NodeId, ResultKept>,
    /// Identities of the works behind them.
    kept_works: BTreeMap<NodeId, WorkIdentity>,
    /// Approvals of the repeated run.
    kept_approvals: BTreeMap<NodeId, Vec<ApprovalKept>>,
    /// Nodes of a fork that the other run had answered.
    taken_over: BTreeSet<NodeId>,
    /// Nodes as they were written, before a list was expanded or a patch mended the node.
    written: BTreeMap<NodeId, Box<Node>>,
    /// Descriptions under which attempts began, before a change of the plan replaced them.
    replaced: Vec<Node>,
    /// Nodes that a change of the plan has replaced or cancelled.
    superseded: BTreeSet<NodeId>,
    /// Mode and memory of a goal run; `None` for a run of a plan file.
    goal: Option<Box<Goal>>,
    last_lookup: LastLookup,
    reading: Reading,
    undo: UndoState,
    /// Children of each collector, by the collector's index.
    children: BTreeMap<usize, Vec<usize>>,
    /// Nodes that the last version of the plan added, by index.
    added: Vec<usize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ReplanState {
    asked: u32,
    accepted: u32,
    is_pending: bool,
    /// No replan can help any more: the planner refused, or was not asked while nodes are blocked.
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    commits: u64,
    recoveries: u32,
    denials: u32,
}

/// Index of the node that was looked up last: consecutive lookups mostly name the same node.
#[derive(Debug, Default)]
struct LastLookup(AtomicUsize);

impl Clone for LastLookup {
    fn clone(&self) -> LastLookup {
        LastLookup::default()
    }
}

/// Number of nodes in each state that keeps a run going.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StateCounts {
    live: usize,
    running: usize,
    sleeping: usize,
    waiting: usize,
    /// Nodes of kind `wait` that wait for their answer.
    awaiting: usize,
    retryable: usize,
}

impl Run {
    /// A run of version 1 of a plan, with every node pending. `seed` feeds the jitter of backoffs.
    pub fn new(plan: Arc<Plan>, seed: u64, now: Ticks) -> Run {
        let graph = Arc::clone(plan.graph());
        let nodes = plan.nodes.len();
        let mut run = Run {
            instances: vec![NodeInstance::new(now); nodes],
            joins: Vec::new(),
            ordered_joins: OrderedJoins::default(),
            is_output: Vec::new(),
            ready: BTreeSet::new(),
            dirty: DirtySet::default(),
            counts: StateCounts { live: nodes, ..StateCounts::default() },
            holds: Vec::new(),
            seed,
            cancelled: false,
            concluded: false,
            replan: ReplanState::default(),
            contract: None,
            counters: Counters::default(),
            tally: Tally::default(),
            model_usage: ModelUsage::default(),
            diagnoses: Diagnoses::default(),
            terms: RunTerms::default(),
            exposure: Exposure::default(),
            call_budget: CallBudget::default(),
            verdicts: Verdicts::default(),
            reuse: None,
            edits: BTreeMap::new(),
            kept: BTreeMap::new(),
            kept_works: BTreeMap::new(),
            kept_approvals: BTreeMap::new(),
            taken_over: BTreeSet::new(),
            written: BTreeMap::new(),
            replaced: Vec::new(),
            superseded: BTreeSet::new(),
            goal: None,
            last_lookup: LastLookup::default(),
            reading: Reading::default(),
            undo: UndoState::default(),
            children: BTreeMap::new(),
            added: Vec::new(),
            plan,
            graph,
        };
        run.derive();
        run
    }

    /// A goal run. `plan` is version 1, made of [`opening_plan`](crate::policy::opening_plan).
    pub fn with_goal(plan: Arc<Plan>, seed: u64, now: Ticks, goal: Goal) -> Run {
        Run { goal: Some(Box::new(goal)), ..Run::new(plan, seed, now) }
    }

    /// True if a replan could still bring the missing outputs: the run is neither cancelled nor concluded, the planner has not
    /// refused, and an answer is pending or both budgets (replans, versions) allow one more request. In a goal run the mode
    /// decides.
    fn recovery_open(&self, now: Ticks) -> bool {
        if self.goal.is_some() {
            return self.goal_recovery_open(now);
        }
        !self.cancelled
            && !self.concluded
            && self.undo.rounds == 0
            && !self.replan.is_closed
            && (self.replan.is_pending
                || (self.replan.asked < self.plan.policy.max_replans
                    && self.plan.version < self.plan.policy.max_versions))
    }

    fn position(&self, node: &NodeId) -> Option<usize> {
        let last = self.last_lookup.0.load(Ordering::Relaxed);
        if self.plan.nodes.get(last).is_some_and(|known| known.id == *node) {
            return Some(last);
        }
        let at = self.graph.position(node)?;
        self.last_lookup.0.store(at, Ordering::Relaxed);
        Some(at)
    }

    /// Computes every field that follows from the plan and the instances, and marks every node dirty.
    fn derive(&mut self) {
        let (nodes, graph) = (&self.plan.nodes, &self.graph);
        self.joins = (0..nodes.len()).map(|at| JoinCount::count(at, nodes, graph, &self.instances)).collect();
        self.ordered_joins = OrderedJoins::count(nodes, graph, &self.instances);
        self.is_output = vec![false; nodes.len()];
        let outputs: Vec<usize> = self.plan.outputs.iter().filter_map(|id| self.position(id)).collect();
        outputs.into_iter().for_each(|at| self.is_output[at] = true);
        self.ready = (0..self.instances.len())
            .filter(|&at| self.instances[at].status == NodeStatus::Ready)
            .map(|at| (self.graph.level[at], at))
            .collect();
        self.derive_undo_turns();
        self.reading.forget_unread();
        self.children.clear();
        for (at, node) in self.plan.nodes.iter().enumerate() {
            if let Some(collector) = node.parent().and_then(|collector| self.graph.position(collector)) {
                self.children.entry(collector).or_default().push(at);
            }
        }
        self.dirty.clear();
        self.dirty.mark_all(self.instances.len());
    }
}
