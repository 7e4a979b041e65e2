//! Records of runs, plan versions and nodes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::AttemptRef;
use crate::evaluation::Scores;
use crate::id::{AgentId, ClientId, NodeId, RunId, Ticks};
use crate::json::Json;
use crate::ledger::CallLimits;
use crate::policy::Role;
use crate::run::{NodeState, TransitionReason};

/// Record of [`Event::RunOpened`](super::Event::RunOpened).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOpened {
    /// Id of the run.
    pub run: RunId,
    /// The client that pays.
    pub client: ClientId,
    /// The agent that executes the run.
    pub agent: AgentId,
    /// Version 1 of the plan, normalised.
    pub plan: Json,
    /// The highest impact that the caller allows, 0..=2.
    pub intent: u8,
    /// Scope of the caller.
    pub scope: String,
    /// The folder that tools may touch.
    pub workspace: String,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// Seed for the jitter of backoffs.
    pub seed: u64,
}

/// Record of [`Event::RunTerms`](super::Event::RunTerms).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTerms {
    /// Budget for all attempts together, in credits; `None`: no budget.
    pub budget: Option<u64>,
    /// The attempt that opened the run; `None`: a client did.
    pub parent: Option<Parent>,
}

/// Record of [`Event::Exposed`](super::Event::Exposed): what the caller of a run had read, which the plan or the goal may repeat. The
/// default is nothing.
///
/// ```
/// use ostler_kernel::event::Exposure;
///
/// let exposure = Exposure { labels: ["secret".to_owned()].into(), ..Exposure::default() };
/// assert_ne!(exposure, Exposure::default());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposure {
    /// Labels of the data behind what the caller gave.
    pub labels: BTreeSet<String>,
    /// The caller had read texts of strangers.
    pub strangers: bool,
    /// The caller had read private data.
    pub private: bool,
}

impl Exposure {
    /// Adds another exposure to this one.
    pub fn extend(&mut self, other: &Exposure) {
        self.strangers |= other.strangers;
        self.private |= other.private;
        self.labels.extend(other.labels.iter().cloned());
    }
}

/// Record of [`Event::CallTerms`](super::Event::CallTerms): what the calls of models of a run may use. A child run shares the account of the run at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTerms {
    /// The run whose account pays; `None`: this run.
    pub account: Option<RunId>,
    /// Budget of the run's own account; none in a child run.
    pub limits: CallLimits,
    /// A person is asked before a call is refused for lack of budget.
    pub asks: bool,
}

/// The step of another run's attempt that opened a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Id of the parent run.
    pub run: RunId,
    /// The attempt.
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
}

/// Record of [`Event::PlanVersion`](super::Event::PlanVersion).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanVersion {
    /// The new version.
    pub version: u32,
    /// Cause of the new version.
    pub cause: ChangeCause,
    /// Difference to the version before, as JSON of `plan::Revision`.
    pub revision: Json,
}

/// Cause of a plan version. `Display` gives the text of the conformance cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeCause {
    /// A patch of this node.
    Patch(NodeId),
    /// A delta in the outcome of this node.
    Node(NodeId),
    /// A delta of the operator.
    Operator,
    /// An interjection of the operator.
    Interject,
    /// An answer of the planner.
    Replan,
    /// The mode of a goal run, which wants a node of this role.
    Mode(Role),
    /// The list of this node was expanded: one child per element.
    Expand(NodeId),
    /// The run failed, and its policy asks for an undo.
    UndoPolicy,
    /// An operator asked to undo the run.
    UndoOperator,
}

impl std::fmt::Display for ChangeCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeCause::Patch(node) => write!(f, "patch:{node}"),
            ChangeCause::Node(node) => write!(f, "delta:{node}"),
            ChangeCause::Operator => f.write_str("delta:operator"),
            ChangeCause::Interject => f.write_str("delta:interject"),
            ChangeCause::Replan => f.write_str("delta:replan"),
            ChangeCause::Mode(_) => f.write_str("delta:mode"),
            ChangeCause::Expand(node) => write!(f, "expand:{node}"),
            ChangeCause::UndoPolicy => f.write_str("undo:policy"),
            ChangeCause::UndoOperator => f.write_str("undo:operator"),
        }
    }
}

/// A refused step. `Display` gives the text of the conformance cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanRefusal {
    /// An invalid change.
    Delta {
        /// Author of the change.
        cause: ChangeCause,
        /// Codes of the diagnostics, sorted, without duplicates.
        codes: Vec<String>,
    },
    /// The planner had no answer.
    Replan,
    /// The plan's contract does not hold.
    Contract,
    /// Undo of a run that is still active.
    UndoLive,
    /// Undo of a run without any effect left to undo.
    UndoNothing,
}

impl std::fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanRefusal::Delta { codes, .. } => write!(f, "delta_rejected:{}", codes.join(",")),
            PlanRefusal::Replan => f.write_str("replan_refused"),
            PlanRefusal::Contract => f.write_str("contract_failed"),
            PlanRefusal::UndoLive => f.write_str("undo_refused:live"),
            PlanRefusal::UndoNothing => f.write_str("undo_refused:nothing"),
        }
    }
}

/// Record of [`Event::NodeTransition`](super::Event::NodeTransition).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTransition {
    /// The node.
    pub node: NodeId,
    /// Version of the plan.
    pub version: u32,
    /// Former state.
    pub from: NodeState,
    /// Next state.
    pub to: NodeState,
    /// Reason of the transition.
    pub reason: TransitionReason,
    /// Number of the current attempt; 0 before the first.
    pub attempt: u32,
}

/// Record of [`Event::TimerSet`](super::Event::TimerSet).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// The node.
    pub node: NodeId,
    /// Purpose of the timer.
    pub kind: TimerKind,
    /// Absolute due time.
    pub at: Ticks,
}

/// Purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerKind {
    /// Backoff before a retry.
    Backoff,
    /// Deadline for a person's answer.
    Human,
    /// A wait of the plan.
    Sleep,
}

/// Record of [`Event::Evaluated`](super::Event::Evaluated).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Score of each dimension.
    pub scores: Scores,
    /// Weighted score of all dimensions, in thousandths.
    pub composite: u16,
}
