//! The states of a node and the reasons for its transitions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;

/// State of a node instance. The last four are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The join does not hold yet.
    Pending,
    /// The node may be dispatched.
    Ready,
    /// An attempt runs.
    Running,
    /// A person has to answer.
    WaitingHuman,
    /// The last attempt failed; a retry or a patch follows.
    FailedRetryable,
    /// An operator holds the run, or a dependency is lost and a replan could still help.
    Blocked,
    /// The result passed the contract.
    Executed,
    /// The attempts, or the candidates of an any_of join, are exhausted.
    Failed,
    /// A person, the plan or a lost dependency stopped the node.
    Cancelled,
    /// The node is not needed.
    Skipped,
}

impl NodeState {
    /// True if the state is terminal: no transition leaves it.
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

    /// True if the node machine has a transition from this state to `to` for `reason`. Every live state can be skipped (the node
    /// is superseded) and cancelled (by a person or the plan); the match lists the other transitions.
    pub fn has_arrow(self, to: NodeState, reason: &TransitionReason) -> bool {
        use NodeState as S;
        use TransitionReason as R;
        let stopped = match to {
            S::Skipped => {
                let is_early = matches!(self, S::Pending | S::Blocked);
                matches!(reason, R::SiblingWon | R::Concluded | R::Operator | R::CollectorEnded)
                    || is_early && *reason == R::GuardFalse
            }
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
                S::Failed => *reason == R::JoinExhausted || reason.is_entry_failure(),
                S::FailedRetryable => reason.is_entry_failure(),
                _ => false,
            },
            S::Ready => match to {
                S::Running => matches!(reason, R::Attempt(_)),
                S::WaitingHuman => matches!(reason, R::ApproveBefore),
                S::Executed => matches!(reason, R::Reused | R::Edited),
                S::Blocked => matches!(reason, R::Hold),
                _ => false,
            },
            S::Running => match to {
                S::Executed => matches!(reason, R::Ok),
                S::WaitingHuman => {
                    matches!(reason, R::ApproveAfter | R::HumanNode | R::InDoubt | R::OverBudget | R::Wait)
                }
                S::FailedRetryable => matches!(reason, R::Category(_)),
                S::Failed => matches!(reason, R::Category(_) | R::InDoubt),
                S::Cancelled => matches!(reason, R::DrainedUnapproved),
                _ => false,
            },
            S::WaitingHuman => match to {
                S::Ready => matches!(reason, R::Approved | R::Retry),
                S::Executed => matches!(reason, R::Ok | R::Answered),
                S::FailedRetryable => matches!(reason, R::Category(_)),
                S::Failed => matches!(reason, R::Category(_) | R::InDoubt),
                S::Cancelled => matches!(reason, R::HumanRejected | R::HumanTimeout),
                _ => false,
            },
            S::FailedRetryable => match to {
                S::Pending => matches!(reason, R::Retry | R::Patched),
                S::Failed => matches!(reason, R::Category(_)),
                // The call of the micro-planner does not fit the budget.
                S::WaitingHuman => matches!(reason, R::OverBudget),
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

    /// The name in files, journals and conformance cases.
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

/// Kind of a failure. Decides which recovery level comes first; see [`RecoveryStrategy`](super::RecoveryStrategy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the names in journals and conformance cases
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
    GuardError,
    ExpandError,
    Deadline,
}

impl FailureCategory {
    /// Every category.
    pub const ALL: [FailureCategory; 14] = [
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
        FailureCategory::GuardError,
        FailureCategory::ExpandError,
        FailureCategory::Deadline,
    ];

    /// True if the failure leaves the effect unknown: the attempt may have acted on the world.
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
            | FailureCategory::GateDenied
            | FailureCategory::GuardError
            | FailureCategory::ExpandError
            | FailureCategory::Deadline => false,
        }
    }

    /// Name shown to models. A denial of the gate is shown and handled as a call that the tool refused, so a model cannot
    /// probe the policy.
    pub fn for_model(self) -> &'static str {
        match self {
            FailureCategory::GateDenied => FailureCategory::Structural.as_str(),
            category => category.as_str(),
        }
    }

    /// The name in files, journals and conformance cases.
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
            FailureCategory::GuardError => "guard_error",
            FailureCategory::ExpandError => "expand_error",
            FailureCategory::Deadline => "deadline",
        }
    }
}

impl fmt::Display for FailureCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason of a transition. `Display` gives the text of the conformance cases, such as `upstream:fetch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // `NodeState::has_arrow` lists the transitions of each reason
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
    OverBudget,
    Reused,
    Edited,
    GuardFalse,
    CollectorEnded,
    Wait,
    Answered,
}

impl TransitionReason {
    /// True for the failure of a node that was about to become ready.
    fn is_entry_failure(&self) -> bool {
        matches!(self, TransitionReason::Category(FailureCategory::GuardError | FailureCategory::ExpandError))
    }

    /// The name of the reason, without its node or number: one of a closed set.
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
            TransitionReason::OverBudget => "over_budget",
            TransitionReason::Reused => "reused",
            TransitionReason::Edited => "edited",
            TransitionReason::GuardFalse => "guard_false",
            TransitionReason::CollectorEnded => "collector_ended",
            TransitionReason::Wait => "wait",
            TransitionReason::Answered => "answered",
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

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every output is executed and the plan's contract holds.
    Succeeded,
    /// A node concluded the run early, and an output is missing.
    Concluded,
    /// An output is missing, or the plan's contract does not hold.
    Failed,
    /// The whole run was cancelled.
    Cancelled,
}

impl RunOutcome {
    /// The name in files, journals and conformance cases.
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
