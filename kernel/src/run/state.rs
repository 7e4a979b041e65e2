//! The states of a node and the reasons for its transitions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;

/// Where a node instance stands. The last four absorb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Its join does not hold yet.
    Pending,
    /// It may be dispatched.
    Ready,
    /// An attempt is under way.
    Running,
    /// A person is asked.
    WaitingHuman,
    /// Failed, and a retry or a patch is coming.
    FailedRetryable,
    /// Held by an operator, or a dependency is lost while a replan could help.
    Blocked,
    /// Its result passed the contract.
    Executed,
    /// Its own attempts (or an any_of's candidates) are exhausted.
    Failed,
    /// Stopped by authority or a lost cause.
    Cancelled,
    /// Not needed.
    Skipped,
}

impl NodeState {
    /// Whether nothing can follow.
    pub fn is_terminal(self) -> bool {
        match self {
            NodeState::Executed | NodeState::Failed | NodeState::Cancelled | NodeState::Skipped => true,
            NodeState::Pending
            | NodeState::Ready
            | NodeState::Running
            | NodeState::WaitingHuman
            | NodeState::FailedRetryable
            | NodeState::Blocked => false,
        }
    }

    /// Whether the node machine has an arrow from here to `to` for `reason`. Every live state can be skipped, if the node
    /// is not needed any more, and cancelled by authority; the other arrows are those that the match names.
    pub fn has_arrow(self, to: NodeState, reason: &TransitionReason) -> bool {
        use NodeState as S;
        use TransitionReason as R;
        let stopped = match to {
            S::Skipped => matches!(reason, R::SiblingWon | R::Concluded | R::Operator),
            S::Cancelled => {
                matches!(
                    reason,
                    R::Operator
                        | R::PlanCancelled
                        | R::InterjectionFailed
                        | R::Delta
                        | R::Denials
                        | R::Deadline
                        | R::Unwanted
                )
            }
            _ => false,
        };
        let arrow = match self {
            S::Pending => match to {
                S::Ready => matches!(reason, R::Entry | R::AllOf | R::AnyOf(_)),
                S::Blocked => matches!(reason, R::Upstream(_) | R::Hold),
                S::Failed => matches!(reason, R::JoinExhausted),
                _ => false,
            },
            S::Ready => match to {
                S::Running => matches!(reason, R::Attempt(_)),
                S::WaitingHuman => matches!(reason, R::ApproveBefore),
                S::Blocked => matches!(reason, R::Hold),
                _ => false,
            },
            S::Running => match to {
                S::Executed => matches!(reason, R::Ok),
                S::WaitingHuman => matches!(reason, R::ApproveAfter | R::HumanNode | R::InDoubt),
                S::FailedRetryable => matches!(reason, R::Category(_)),
                S::Failed => matches!(reason, R::Category(_) | R::InDoubt),
                S::Cancelled => matches!(reason, R::DrainedUnapproved),
                _ => false,
            },
            S::WaitingHuman => match to {
                S::Ready => matches!(reason, R::Approved | R::Retry),
                S::Executed => matches!(reason, R::Ok),
                S::FailedRetryable => matches!(reason, R::Category(_)),
                S::Failed => matches!(reason, R::Category(_) | R::InDoubt),
                S::Cancelled => matches!(reason, R::HumanRejected | R::HumanTimeout),
                _ => false,
            },
            S::FailedRetryable => match to {
                S::Pending => matches!(reason, R::Retry | R::Patched),
                S::Failed => matches!(reason, R::Category(_)),
                _ => false,
            },
            S::Blocked => match to {
                S::Pending => matches!(reason, R::HoldReleased | R::Unblocked),
                S::Cancelled => matches!(reason, R::Upstream(_)),
                _ => false,
            },
            S::Executed | S::Failed | S::Cancelled | S::Skipped => return false,
        };
        arrow || stopped
    }

    /// The word used in files, journals and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Pending => "pending",
            NodeState::Ready => "ready",
            NodeState::Running => "running",
            NodeState::WaitingHuman => "waiting_human",
            NodeState::FailedRetryable => "failed_retryable",
            NodeState::Blocked => "blocked",
            NodeState::Executed => "executed",
            NodeState::Failed => "failed",
            NodeState::Cancelled => "cancelled",
            NodeState::Skipped => "skipped",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of failure an attempt met; decides which recovery level comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of journals and conformance cases
pub enum FailureCategory {
    Crash,
    Timeout,
    Transient,
    RateLimit,
    ResourceExhaustion,
    InvalidOutput,
    HumanRejection,
    Structural,
    ParamMissing,
    GateDenied,
    InDoubt,
}

impl FailureCategory {
    /// Every one.
    pub const ALL: [FailureCategory; 11] = [
        FailureCategory::Crash,
        FailureCategory::Timeout,
        FailureCategory::Transient,
        FailureCategory::RateLimit,
        FailureCategory::ResourceExhaustion,
        FailureCategory::InvalidOutput,
        FailureCategory::HumanRejection,
        FailureCategory::Structural,
        FailureCategory::ParamMissing,
        FailureCategory::GateDenied,
        FailureCategory::InDoubt,
    ];

    /// Whether it leaves open what was done: there may have been an effect, and nobody knows its result.
    pub fn is_loss(self) -> bool {
        match self {
            FailureCategory::Crash | FailureCategory::Timeout | FailureCategory::InDoubt => true,
            FailureCategory::Transient
            | FailureCategory::RateLimit
            | FailureCategory::ResourceExhaustion
            | FailureCategory::InvalidOutput
            | FailureCategory::HumanRejection
            | FailureCategory::Structural
            | FailureCategory::ParamMissing
            | FailureCategory::GateDenied => false,
        }
    }

    /// The word used in files, journals and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureCategory::Crash => "crash",
            FailureCategory::Timeout => "timeout",
            FailureCategory::Transient => "transient",
            FailureCategory::RateLimit => "rate_limit",
            FailureCategory::ResourceExhaustion => "resource_exhaustion",
            FailureCategory::InvalidOutput => "invalid_output",
            FailureCategory::HumanRejection => "human_rejection",
            FailureCategory::Structural => "structural",
            FailureCategory::ParamMissing => "param_missing",
            FailureCategory::GateDenied => "gate_denied",
            FailureCategory::InDoubt => "in_doubt",
        }
    }
}

impl fmt::Display for FailureCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a node moved. `Display` gives the text of the conformance cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // `has_arrow` says which arrow each is the reason of
pub enum TransitionReason {
    Entry,
    AllOf,
    AnyOf(NodeId),
    Attempt(u32),
    ApproveBefore,
    ApproveAfter,
    HumanNode,
    Approved,
    Ok,
    Category(FailureCategory),
    InDoubt,
    Retry,
    Patched,
    Upstream(NodeId),
    Unblocked,
    Hold,
    HoldReleased,
    JoinExhausted,
    SiblingWon,
    Concluded,
    Operator,
    HumanRejected,
    HumanTimeout,
    PlanCancelled,
    InterjectionFailed,
    Delta,
    DrainedUnapproved,
    Denials,
    Deadline,
    Unwanted,
}

impl TransitionReason {
    /// Its word, without the node or the number that goes with it: one of a closed set.
    pub fn word(&self) -> &'static str {
        match self {
            TransitionReason::Entry => "entry",
            TransitionReason::AllOf => "all_of",
            TransitionReason::AnyOf(_) => "any_of",
            TransitionReason::Attempt(_) => "attempt",
            TransitionReason::ApproveBefore => "approve_before",
            TransitionReason::ApproveAfter => "approve_after",
            TransitionReason::HumanNode => "human_node",
            TransitionReason::Approved => "approved",
            TransitionReason::Ok => "ok",
            TransitionReason::Category(category) => category.as_str(),
            TransitionReason::InDoubt => "in_doubt",
            TransitionReason::Retry => "retry",
            TransitionReason::Patched => "patched",
            TransitionReason::Upstream(_) => "upstream",
            TransitionReason::Unblocked => "unblocked",
            TransitionReason::Hold => "hold",
            TransitionReason::HoldReleased => "hold_released",
            TransitionReason::JoinExhausted => "join_exhausted",
            TransitionReason::SiblingWon => "sibling_won",
            TransitionReason::Concluded => "concluded",
            TransitionReason::Operator => "operator",
            TransitionReason::HumanRejected => "human_rejected",
            TransitionReason::HumanTimeout => "human_timeout",
            TransitionReason::PlanCancelled => "plan_cancelled",
            TransitionReason::InterjectionFailed => "interjection_failed",
            TransitionReason::Delta => "delta",
            TransitionReason::DrainedUnapproved => "drained_unapproved",
            TransitionReason::Denials => "denials",
            TransitionReason::Deadline => "deadline",
            TransitionReason::Unwanted => "unwanted",
        }
    }
}

impl fmt::Display for TransitionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            TransitionReason::AnyOf(node) | TransitionReason::Upstream(node) => write!(f, ":{node}"),
            TransitionReason::Attempt(number) => write!(f, ":{number}"),
            _ => Ok(()),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every output executed and the plan's contract holds.
    Succeeded,
    /// A reflection concluded early and an output is missing.
    Concluded,
    /// An output is missing, or the plan's contract does not hold.
    Failed,
    /// The whole plan was cancelled.
    Cancelled,
}

impl RunOutcome {
    /// The word used in files, journals and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Concluded => "concluded",
            RunOutcome::Failed => "failed",
            RunOutcome::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
