//! One execution of a plan: what happens next, as pure decisions.
//!
//! [`Run`] is the state. [`Run::decide`] takes what came in and gives the records that follow; each takes effect
//! in memory as it is decided, because the next one depends on it, and nothing may leave the process before the
//! caller has appended them. Recovery gives the same records to [`Run::apply`], the only thing that changes a run.
//!
//! | file | idea |
//! |---|---|
//! | `state`, `status` | the node machine: states, reasons, what is known in each state |
//! | `joins`, `ordered_joins`, `dirty` | which joins hold, whose turn it is in ordered ones, and which nodes need a look |
//! | `apply` | the effect of each record |
//! | `decision` | one decision: records in the order they take effect |
//! | `propagate` | what follows without anybody's doing |
//! | `dispatch`, `attempt`, `human`, `change`, `operator`, `check_completion` | what follows from a start, a result, an answer, a new version, an operator, and from nothing being left to do |
//! | `strategy`, `recovery`, `prepared` | what a failure asks for; retry, patch, replan: which level, when; patches that nobody has to write |
//! | `oversight` | which steps a person is asked about |
//! | `take_up` | what follows when the process that drove it has died |
//! | `given_up`, `held_up` | which work is not wanted any more, and what waits for a node |
//! | `purse` | what attempts that run at once have of its budget |
//! | `inputs`, `intent` | what an attempt is given, and what is written down before it starts |
//! | `shown` | what a person is shown before they answer |
//! | `fold`, `report` | a run as its records tell it; what it amounts to |

mod abandoned_work;
mod apply;
mod approval_request;
mod attempt;
mod change;
mod completion;
mod crash_recovery;
mod decision;
mod dirty;
mod dispatch;
mod downstream;
mod fold;
mod human;
mod input;
mod inputs;
mod intent;
mod joins;
mod node_status;
mod operator;
mod ordered_joins;
mod oversight;
mod planner;
mod propagate;
mod recovery;
mod report;
mod run_budget;
mod state;
mod static_planner;
mod strategy;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use abandoned_work::AbandonedWork;
pub use apply::IllegalStep;
pub use approval_request::{ApprovalRequest, ApprovalTest};
pub use completion::Completion;
pub use crash_recovery::{CrashRecovery, RECOVERIES_MAX, RecoveryContext};
pub use decision::DecisionContext;
pub use downstream::DOWNSTREAM_MAX;
pub use fold::{FoldedRun, ReadPlan, RunFold, RunFoldError};
pub use human::{AnswerError, ResolutionError};
pub use input::{Canceller, Operation, Resolution, RunInput};
pub use inputs::{AttemptInput, InputError, RefDigests, resolve};
pub use intent::{GENERATION, IntentContext, executable_digest};
pub use node_status::{NodeInstance, NodeStatus, RecordedAnswer, ResolutionKind, WorkIdentity};
pub use operator::OperationError;
pub use planner::{Patch, Planner, PlannerAnswer, PlannerRequest};
pub use recovery::backoff;
pub use report::{RootCause, RunReport, RunTimeline, attempt_started_at};
pub use run_budget::{NodeAttempt, RunBudget};
pub use state::{FailureCategory, NodeState, RunOutcome, TransitionReason};
pub use static_planner::{FEEDBACK, StaticPlanner};
pub use strategy::RecoveryStrategy;

use crate::evaluation::{Scores, Tally, Target};
use crate::event::{Output, RunTerms};
use crate::id::{NodeId, Ticks};
use crate::plan::{Graph, Node, Plan};
use dirty::DirtySet;
use joins::JoinCount;
use ordered_joins::OrderedJoins;

/// The state of one run. Holds no clock and no handle: whatever it needs arrives with each input.
#[derive(Debug, Clone)]
pub struct Run {
    plan: Arc<Plan>,
    graph: Arc<Graph>,
    /// By the index of the node in the plan, which is the order of ids.
    instances: Vec<NodeInstance>,
    joins: Vec<JoinCount>,
    ordered_joins: OrderedJoins,
    is_output: Vec<bool>,
    /// Ready nodes in the order of dispatch: (level, index).
    ready: BTreeSet<(u32, usize)>,
    dirty: DirtySet,
    counts: Counts,
    /// Interjections whose hold is on.
    holds: Vec<NodeId>,
    commits: u64,
    seed: u64,
    cancelled: bool,
    concluded: bool,
    /// The planner was not asked, or refused, when only it could have helped.
    recovery_closed: bool,
    replans: u32,
    /// New versions that the planner wrote.
    replanned: u32,
    replan_pending: bool,
    /// The version the plan's contract was last judged for, and whether it held.
    contract: Option<(u32, bool)>,
    /// Recoveries since the last attempt that ended.
    recoveries: u32,
    /// Attempts that the gate refused.
    denials: u32,
    tally: Tally,
    terms: RunTerms,
    /// Finds it again without a look at the names.
    last: Last,
}

/// The node that was asked for last: what is asked of a run is mostly about one node many times over.
#[derive(Debug, Default)]
struct Last(AtomicUsize);

impl Clone for Last {
    fn clone(&self) -> Last {
        Last::default()
    }
}

/// How many nodes are in the states that keep a run going.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    live: usize,
    running: usize,
    sleeping: usize,
    waiting: usize,
    retryable: usize,
}

impl Run {
    /// A run of version 1 of a plan, with every node pending. `seed` feeds whatever is random in it.
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
            counts: Counts { live: nodes, ..Counts::default() },
            holds: Vec::new(),
            commits: 0,
            seed,
            cancelled: false,
            concluded: false,
            recovery_closed: false,
            replans: 0,
            replanned: 0,
            replan_pending: false,
            contract: None,
            recoveries: 0,
            denials: 0,
            tally: Tally::default(),
            terms: RunTerms::default(),
            last: Last::default(),
            plan,
            graph,
        };
        run.derive();
        run
    }

    /// The current version of the plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The adjacency of the current version.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Where each node stands, in ascending order of ids.
    pub fn instances(&self) -> impl Iterator<Item = (&Node, &NodeInstance)> {
        self.plan.nodes.iter().zip(&self.instances)
    }

    /// Where one node stands.
    pub fn instance(&self, node: &NodeId) -> Option<&NodeInstance> {
        self.position(node).map(|at| &self.instances[at])
    }

    /// One node of the current version.
    pub fn node(&self, node: &NodeId) -> Option<&Node> {
        self.position(node).map(|at| &self.plan.nodes[at])
    }

    /// Whether the whole plan was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Whether the planner is writing a new version.
    pub fn is_replanning(&self) -> bool {
        self.replan_pending
    }

    /// Whether `attempt` of `node` is the one that its node waits for.
    pub fn is_current(&self, node: &NodeId, attempt: u32) -> bool {
        self.instance(node).is_some_and(|instance| {
            instance.attempts == attempt && matches!(instance.status, NodeStatus::Running { .. })
        })
    }

    /// Whether nothing goes on until a person answers.
    pub fn waits_for_person(&self) -> bool {
        let Counts { running, sleeping, waiting, retryable, .. } = self.counts;
        waiting > 0 && running + sleeping + retryable == 0 && self.ready.is_empty() && !self.replan_pending
    }

    /// Whether any attempt of it was ever started, or any question asked.
    pub fn has_started(&self) -> bool {
        self.instances.iter().any(|instance| instance.attempts + instance.requests > 0)
    }

    /// Whether nothing of it is under way, and what is ready was sent back by a person.
    pub fn is_sent_back(&self) -> bool {
        let Counts { running, sleeping, waiting, retryable, .. } = self.counts;
        let sent_back = |&(_, at): &(u32, usize)| {
            let instance = &self.instances[at];
            let last = instance.answered.as_ref().filter(|answered| answered.request == instance.requests);
            last.is_some_and(|answered| !answered.approve)
        };
        running + sleeping + waiting + retryable == 0 && self.ready.iter().any(sent_back)
    }

    /// Whether any node waits for a person, to approve or to settle what is in doubt.
    pub fn has_open_question(&self) -> bool {
        self.counts.waiting > 0
    }

    /// Whether any node wants a slot.
    pub fn has_ready_nodes(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether an attempt is under way, as far as its records know, or the plan is about to change.
    pub fn has_work_in_flight(&self) -> bool {
        self.counts.running > 0 || self.replan_pending
    }

    /// Whether nothing is under way or about to be: the run waits for times that are set, or for people.
    pub fn is_only_waiting(&self) -> bool {
        let Counts { running, sleeping, waiting, retryable, .. } = self.counts;
        sleeping + waiting > 0 && running + retryable == 0 && self.ready.is_empty() && !self.replan_pending
    }

    /// The candidate that an any_of node reads as `$winner`.
    pub fn winner(&self, node: &NodeId) -> Option<&NodeId> {
        let winner = self.joins[self.position(node)?].winner()?;
        Some(&self.plan.nodes[winner].id)
    }

    /// Whether the plan's own contract was judged for this version and does not hold.
    pub fn violates_contract(&self) -> bool {
        self.contract == Some((self.plan.version, false))
    }

    /// What the run gives to whoever had it done: the results of its outputs, in their order, as far as they are executed.
    pub fn outputs(&self) -> impl Iterator<Item = (&NodeId, &Output)> {
        self.plan.outputs.iter().filter_map(|id| Some((id, self.instance(id)?.result()?)))
    }

    /// Whether every output is executed (an empty list of outputs is).
    pub fn outputs_executed(&self) -> bool {
        self.plan
            .outputs
            .iter()
            .all(|id| self.instance(id).is_some_and(|instance| instance.status == NodeStatus::Executed))
    }

    /// How the run ends, as far as is known: first that applies of cancelled, succeeded (failed, if the plan's
    /// contract does not hold), concluded, failed.
    pub fn outcome(&self) -> RunOutcome {
        if self.cancelled {
            RunOutcome::Cancelled
        } else if self.outputs_executed() {
            match self.contract {
                Some((_, false)) => RunOutcome::Failed,
                Some((_, true)) | None => RunOutcome::Succeeded,
            }
        } else if self.concluded {
            RunOutcome::Concluded
        } else {
            RunOutcome::Failed
        }
    }

    /// Credits that its attempts cost so far, those that came too late too.
    pub fn cost(&self) -> u64 {
        self.tally.cost()
    }

    /// How well the run was done, as far as its own records tell; `None`: it did nothing, or an operator ended it.
    pub fn scores(&self, target: &Target) -> Option<Scores> {
        if self.cancelled {
            return None;
        }
        let patched: u64 = self.instances.iter().map(|instance| u64::from(instance.patch_count)).sum();
        let patches: u64 = self.plan.nodes.iter().map(|node| u64::try_from(node.patches).unwrap_or(0)).sum();
        let revisions_max = patches + u64::from(self.plan.policy.max_replans);
        self.tally.scores(patched + u64::from(self.replanned), revisions_max, target)
    }

    /// What holds for it besides how it was opened.
    pub fn terms(&self) -> &RunTerms {
        &self.terms
    }

    /// Whether recovery could still bring what is missing: the run is neither cancelled nor concluded, the planner did not
    /// refuse, and is writing or may be asked once more within the limits on replans and versions.
    fn recovery_open(&self) -> bool {
        !self.cancelled
            && !self.concluded
            && !self.recovery_closed
            && (self.replan_pending
                || (self.replans < self.plan.policy.max_replans
                    && self.plan.version < self.plan.policy.max_versions))
    }

    fn position(&self, node: &NodeId) -> Option<usize> {
        let last = self.last.0.load(Ordering::Relaxed);
        if self.plan.nodes.get(last).is_some_and(|known| known.id == *node) {
            return Some(last);
        }
        let at = self.graph.position(node)?;
        self.last.0.store(at, Ordering::Relaxed);
        Some(at)
    }

    /// Computes what follows from the plan and the instances: join counts, outputs, the ready set, and a look at
    /// every node.
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
        self.dirty.clear();
        self.dirty.mark_all(self.instances.len());
    }
}
