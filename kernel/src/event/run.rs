//! What is written down of a run, its plan and its nodes.

use serde::{Deserialize, Serialize};

use super::AttemptRef;
use crate::evaluation::Scores;
use crate::id::{AgentId, ClientId, NodeId, RunId, Ticks};
use crate::json::Json;
use crate::run::{NodeState, TransitionReason};

/// See [`Event::RunOpened`](super::Event::RunOpened).
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

/// See [`Event::RunTerms`](super::Event::RunTerms).
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
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
}

/// See [`Event::PlanVersion`](super::Event::PlanVersion).
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

/// See [`Event::NodeTransition`](super::Event::NodeTransition).
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
    pub reason: TransitionReason,
    /// The attempt under way, 0 before the first.
    pub attempt: u32,
}

/// See [`Event::TimerSet`](super::Event::TimerSet).
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

/// See [`Event::Evaluated`](super::Event::Evaluated).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The dimensions.
    pub scores: Scores,
    /// One score for all of them, in thousandths.
    pub composite: u16,
}
