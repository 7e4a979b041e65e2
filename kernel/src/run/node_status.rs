//! Where one node of a run stands, with what is known only there.

use crate::event::{Failure, HumanRequestKind, Output};
use crate::id::{Digest, NodeId, Ticks};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// A node's state and the data that exists only in it.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeStatus {
    /// Its join does not hold yet.
    Pending,
    /// It may be dispatched.
    Ready,
    /// An attempt is under way.
    Running {
        /// It was stopped, but acts on the world: it goes on to its true end.
        draining: bool,
        /// It is nothing but a wait, until then, and holds no slot.
        sleep_until: Option<Ticks>,
    },
    /// A person is asked.
    WaitingHuman {
        /// What.
        ask: HumanRequestKind,
        /// When silence cancels.
        deadline: Option<Ticks>,
    },
    /// Failed, and something is done about it.
    FailedRetryable {
        /// What happened.
        category: FailureCategory,
        /// When it is tried again; `None` while a patch is being written.
        retry_at: Option<Ticks>,
    },
    /// Held by an operator.
    Held,
    /// A dependency is lost.
    Upstream {
        /// The one that was lost first.
        broken_dep: NodeId,
    },
    /// Its result passed the contract.
    Executed,
    /// Attempts or candidates are exhausted.
    Failed,
    /// Stopped by authority or a lost cause.
    Cancelled,
    /// Not needed.
    Skipped,
}

impl NodeStatus {
    /// What a transition to `to` for `reason` leads to, before the records that follow it add their part.
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

    /// The state alone.
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

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// To which of the node's questions.
    pub request: u32,
    /// Yes or no.
    pub approve: bool,
    /// Who.
    pub by: String,
    /// When.
    pub at: Ticks,
}

/// How a person settled an attempt that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolutionKind {
    /// It was done.
    Done,
    /// It is to be done again.
    Redo,
    /// It counts as failed.
    Fail,
}

/// What the work of an attempt is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkIdentity {
    /// Identity of the work (lineage `r`).
    pub reuse: Digest,
    /// What a receiver can recognise its repetition by.
    pub idempotency_key: Digest,
}

/// One node of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeInstance {
    /// Where it stands.
    pub status: NodeStatus,
    /// Why it stands there.
    pub reason: Option<TransitionReason>,
    /// When it came there.
    pub since: Ticks,
    /// Attempts so far.
    pub attempts: u32,
    /// Retries since the last patch.
    pub retries: u32,
    /// Patches so far.
    pub patch_count: u32,
    /// Requests to people so far; an answer names the one it is for.
    pub requests: u32,
    /// Whether a person said yes beforehand.
    pub approved: bool,
    /// What the last question showed; an attempt in doubt shows nothing, and leaves it as it is.
    pub shown: Option<Box<Digest>>,
    /// What was last said to a question.
    pub answered: Option<Box<RecordedAnswer>>,
    /// The last attempt that was in doubt and that a person settled, and how.
    pub resolved: Option<(u32, ResolutionKind)>,
    /// What the last attempt did, as it was written down before it started.
    pub identity: Option<WorkIdentity>,
    /// What the last attempt gave; published only if the node is executed.
    pub output: Option<Output>,
    /// What the last failed attempt met.
    pub failure: Option<Box<Failure>>,
    /// Place among the terminal transitions of the run, from 1; 0 while live.
    pub commit_number: u64,
    /// Whether a replan was asked for on account of its failure.
    pub(super) replan_requested: bool,
}

impl NodeInstance {
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
            shown: None,
            answered: None,
            resolved: None,
            identity: None,
            output: None,
            failure: None,
            commit_number: 0,
            replan_requested: false,
        }
    }

    /// What its failure comes down to, in words; `None` where the reason says all there is.
    pub fn failure_message(&self) -> Option<&str> {
        let failure = self.failure.as_ref()?;
        if (&self.reason, failure.category)
            == (&Some(TransitionReason::InDoubt), FailureCategory::HumanRejection)
        {
            return Some("a person settled it as failed");
        }
        Some(failure.message.as_str()).filter(|message| !message.is_empty())
    }

    /// What it came to, once that counts: a result that waits for a person, or that one refused, is nobody's to use.
    pub fn result(&self) -> Option<&Output> {
        self.output.as_ref().filter(|_| self.status == NodeStatus::Executed)
    }

    /// The state alone.
    pub fn state(&self) -> NodeState {
        self.status.state()
    }

    /// Whether something can still happen to it.
    pub fn is_live(&self) -> bool {
        !self.state().is_terminal()
    }

    /// Whether it was stopped but goes on to its true end.
    pub fn is_draining(&self) -> bool {
        matches!(self.status, NodeStatus::Running { draining: true, .. })
    }
}
