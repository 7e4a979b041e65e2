//! The status of one node: its state, with the data of the state.

use crate::event::{Failure, HumanRequestKind, Output};
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::ledger::Shortfall;
use crate::run::{FailureCategory, HeldFor, NodeState, TransitionReason};

/// State of a node with the data of the state.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeStatus {
    /// The join does not hold yet.
    Pending,
    /// The node may be dispatched.
    Ready,
    /// An attempt runs.
    Running {
        /// The node was stopped, but acts on the world: the attempt goes on to its true end.
        draining: bool,
        /// End of an attempt that only waits and holds no slot; `None` for any other attempt.
        sleep_until: Option<Ticks>,
    },
    /// A person has to answer.
    WaitingHuman {
        /// The question.
        ask: HumanRequestKind,
        /// Time at which the node is cancelled without an answer; `None` waits for ever.
        deadline: Option<Ticks>,
    },
    /// The last attempt failed; a retry or a patch follows.
    FailedRetryable {
        /// Kind of the failure.
        category: FailureCategory,
        /// Time of the retry; `None` while the planner writes a patch.
        retry_at: Option<Ticks>,
    },
    /// An operator's interjection holds the node.
    Held,
    /// A dependency is lost: an all_of join can no longer hold.
    Upstream {
        /// The dependency that was lost first.
        broken_dep: NodeId,
    },
    /// The result passed the contract.
    Executed,
    /// Attempts or candidates are exhausted.
    Failed,
    /// A person, the plan or a lost dependency stopped the node.
    Cancelled,
    /// The node is not needed.
    Skipped,
}

impl NodeStatus {
    /// Status after a transition to `to` for `reason`. Deadlines are set by the records that follow.
    pub(super) fn after(to: NodeState, reason: &TransitionReason) -> NodeStatus {
        match to {
            NodeState::Pending => NodeStatus::Pending,
            NodeState::Ready => NodeStatus::Ready,
            NodeState::Running => NodeStatus::Running { draining: false, sleep_until: None },
            NodeState::WaitingHuman => {
                let ask = match reason {
                    TransitionReason::ApproveBefore => HumanRequestKind::Before,
                    TransitionReason::ApproveAfter => HumanRequestKind::After,
                    TransitionReason::InDoubt => HumanRequestKind::InDoubt,
                    TransitionReason::OverBudget => HumanRequestKind::Budget,
                    TransitionReason::Wait => HumanRequestKind::Wait,
                    _ => HumanRequestKind::Node,
                };
                NodeStatus::WaitingHuman { ask, deadline: None }
            }
            NodeState::FailedRetryable => {
                let category = match reason {
                    TransitionReason::Category(category) => *category,
                    _ => FailureCategory::Structural,
                };
                NodeStatus::FailedRetryable { category, retry_at: None }
            }
            NodeState::Blocked => match reason {
                TransitionReason::Upstream(broken_dep) => {
                    NodeStatus::Upstream { broken_dep: broken_dep.clone() }
                }
                _ => NodeStatus::Held,
            },
            NodeState::Executed => NodeStatus::Executed,
            NodeState::Failed => NodeStatus::Failed,
            NodeState::Cancelled => NodeStatus::Cancelled,
            NodeState::Skipped => NodeStatus::Skipped,
        }
    }

    /// The state without its data.
    pub fn state(&self) -> NodeState {
        match self {
            NodeStatus::Pending => NodeState::Pending,
            NodeStatus::Ready => NodeState::Ready,
            NodeStatus::Running { .. } => NodeState::Running,
            NodeStatus::WaitingHuman { .. } => NodeState::WaitingHuman,
            NodeStatus::FailedRetryable { .. } => NodeState::FailedRetryable,
            NodeStatus::Held | NodeStatus::Upstream { .. } => NodeState::Blocked,
            NodeStatus::Executed => NodeState::Executed,
            NodeStatus::Failed => NodeState::Failed,
            NodeStatus::Cancelled => NodeState::Cancelled,
            NodeStatus::Skipped => NodeState::Skipped,
        }
    }
}

/// A person's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// Number of the question, counted per node from 1.
    pub request: u32,
    /// Yes or no.
    pub approve: bool,
    /// Name of the person.
    pub by: String,
    /// Time of the answer.
    pub at: Ticks,
}

/// An approval, and what it covers.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedApproval {
    /// Kind of the question.
    pub kind: HumanRequestKind,
    /// Digest of everything that was approved.
    pub material: Digest,
    /// Digest of the shown document or result.
    pub shown: Digest,
    /// Name of the person.
    pub by: String,
    /// Time of the answer.
    pub at: Ticks,
    /// The earlier run in which the person answered; `None`: this run.
    pub from: Option<RunId>,
}

/// A person's decision about an attempt in doubt, without the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolutionKind {
    /// The attempt took effect.
    Done,
    /// The attempt runs again.
    Redo,
    /// The attempt counts as failed.
    Fail,
}

/// Identity of an attempt's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkIdentity {
    /// Digest of the executable and its inputs (`r` of the Execution Lineage paper).
    pub reuse: Digest,
    /// Key by which a receiver recognises a repetition.
    pub idempotency_key: Digest,
}

/// The state of one node in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeInstance {
    /// The current status.
    pub status: NodeStatus,
    /// Reason of the last transition; `None` before the first.
    pub reason: Option<TransitionReason>,
    /// Time of the last transition.
    pub since: Ticks,
    /// Attempts so far, across retries and patches.
    pub attempts: u32,
    /// Retries since the last patch.
    pub retries: u32,
    /// Patches so far.
    pub patch_count: u32,
    /// Questions to people so far; an answer names the number of its question.
    pub requests: u32,
    /// A person approved the next attempt.
    pub approved: bool,
    /// Reasons of the gate to hold the call for a person, at most one for each code; none if the gate did not.
    pub holds: Vec<HeldFor>,
    /// A person approved an attempt of the run that this one forks; that yes allows nothing here.
    pub(super) asks_again: bool,
    /// Digest of the document in the last question. A question about an attempt in doubt has no document and keeps the
    /// digest.
    pub shown: Option<Box<Digest>>,
    /// Digest of the document before that one, if it was another.
    pub shown_before: Option<Box<Digest>>,
    /// The last answer to a question.
    pub answered: Option<Box<RecordedAnswer>>,
    /// Digest of what an approval of the open question covers; `None` in a simulation.
    pub(super) material: Option<Box<Digest>>,
    /// The last approval of each kind. A person's no takes them away.
    pub approvals: Vec<RecordedApproval>,
    /// The last attempt that a person settled, and the decision.
    pub resolved: Option<(u32, ResolutionKind)>,
    /// Number of the last attempt with an intent: a later one has done nothing yet.
    pub begun: u32,
    /// Identity of the last attempt's work, from its intent.
    pub identity: Option<WorkIdentity>,
    /// Output of the last attempt; see [`NodeInstance::result`].
    pub output: Option<Output>,
    /// The earlier run that made the output; `None`: this run, or a person.
    pub made_in: Option<RunId>,
    /// Failure of the last attempt.
    pub failure: Option<Box<Failure>>,
    /// Failure of the attempt before the last, if its result did not count.
    pub(super) refused: Option<Box<Failure>>,
    /// The call that did not fit the budget, of the last question about it.
    pub shortfall: Option<Box<Shortfall>>,
    /// Number among the terminal transitions of the run, from 1; 0 while live.
    pub commit_number: u64,
    /// A replan was requested after this node failed.
    pub(super) replan_requested: bool,
    /// An attempt may have reached a tool: the attempt ended neither with a missing parameter nor with a denial.
    pub was_sent: bool,
    /// The attempt whose own call the gate has allowed; 0: none, or the attempt may have been lost and is judged again.
    pub(super) judged: u32,
    /// A person has settled its effect, which was unknown when the run ended.
    pub is_settled: bool,
    /// Answers from outside, of a wait.
    pub wait: Option<Box<WaitState>>,
}

/// Answers from outside to a wait.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitState {
    /// Early answers, in the order of their arrival.
    pub kept: Vec<KeptAnswer>,
    /// Id of the accepted answer.
    pub accepted: Option<String>,
    /// Name of the operator who gave the accepted answer; empty for a sender that only knew the address.
    pub accepted_by: String,
    /// Number of recorded refusals.
    pub refused: u32,
}

/// An answer received before its node waited.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptAnswer {
    /// The sender's id of the answer.
    pub id: Option<String>,
    /// The value.
    pub output: Output,
    /// Name of the sender; empty for an anonymous sender.
    pub by: String,
}

impl NodeInstance {
    /// True if the gate held the call for a person's approval.
    pub fn is_held_by_gate(&self) -> bool {
        !self.holds.is_empty()
    }

    pub(super) fn new(now: Ticks) -> NodeInstance {
        NodeInstance {
            status: NodeStatus::Pending,
            reason: None,
            since: now,
            attempts: 0,
            retries: 0,
            patch_count: 0,
            requests: 0,
            approved: false,
            holds: Vec::new(),
            asks_again: false,
            shown: None,
            shown_before: None,
            answered: None,
            material: None,
            approvals: Vec::new(),
            resolved: None,
            begun: 0,
            identity: None,
            output: None,
            made_in: None,
            failure: None,
            refused: None,
            shortfall: None,
            commit_number: 0,
            replan_requested: false,
            was_sent: false,
            judged: 0,
            is_settled: false,
            wait: None,
        }
    }

    /// Description of the failure; `None` if the reason of the transition says everything.
    pub fn failure_message(&self) -> Option<&str> {
        let failure = self.failure.as_ref()?;
        if (&self.reason, failure.category)
            == (&Some(TransitionReason::InDoubt), FailureCategory::HumanRejection)
        {
            return Some("a person settled it as failed");
        }
        Some(failure.message.as_str()).filter(|message| !message.is_empty())
    }

    /// The published output; `None` unless the node is executed. A result that waits for an approval is not published.
    pub fn result(&self) -> Option<&Output> {
        self.output.as_ref().filter(|_| self.status == NodeStatus::Executed)
    }

    /// The state without its data.
    pub fn state(&self) -> NodeState {
        self.status.state()
    }

    /// True if a guard ruled the node out: the output is absent, not missing.
    pub fn is_guarded_out(&self) -> bool {
        self.status == NodeStatus::Skipped && self.reason == Some(TransitionReason::GuardFalse)
    }

    /// True if the state is not terminal.
    pub fn is_live(&self) -> bool {
        !self.state().is_terminal()
    }

    /// True if the node was stopped and its attempt goes on to the true end.
    pub fn is_draining(&self) -> bool {
        matches!(self.status, NodeStatus::Running { draining: true, .. })
    }
}
