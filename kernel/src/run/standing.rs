//! Where one node of a run stands, with what is known only there.

use crate::event::{Failure, HumanRequestKind, Output};
use crate::id::{Digest, NodeId, Ticks};
use crate::run::{Category, NodeState, Reason};

/// A node's state and the data that exists only in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
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
        category: Category,
        /// When it is tried again; `None` while a patch is being written.
        retry_at: Option<Ticks>,
    },
    /// Held by an operator.
    Held,
    /// A dependency is lost.
    Upstream {
        /// The one that was lost first.
        culprit: NodeId,
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

impl Standing {
    /// What a transition to `to` for `reason` leads to, before the records that follow it add their part.
    pub(super) fn after(to: NodeState, reason: &Reason) -> Standing {
        match to {
            NodeState::Pending => Standing::Pending,
            NodeState::Ready => Standing::Ready,
            NodeState::Running => Standing::Running { draining: false, sleep_until: None },
            NodeState::WaitingHuman => {
                let ask = match reason {
                    Reason::ApproveBefore => HumanRequestKind::Before,
                    Reason::ApproveAfter => HumanRequestKind::After,
                    Reason::InDoubt => HumanRequestKind::InDoubt,
                    _ => HumanRequestKind::Node,
                };
                Standing::WaitingHuman { ask, deadline: None }
            }
            NodeState::FailedRetryable => {
                let category = match reason {
                    Reason::Category(category) => *category,
                    _ => Category::Structural,
                };
                Standing::FailedRetryable { category, retry_at: None }
            }
            NodeState::Blocked => match reason {
                Reason::Upstream(culprit) => Standing::Upstream { culprit: culprit.clone() },
                _ => Standing::Held,
            },
            NodeState::Executed => Standing::Executed,
            NodeState::Failed => Standing::Failed,
            NodeState::Cancelled => Standing::Cancelled,
            NodeState::Skipped => Standing::Skipped,
        }
    }

    /// The state alone.
    pub fn state(&self) -> NodeState {
        match self {
            Standing::Pending => NodeState::Pending,
            Standing::Ready => NodeState::Ready,
            Standing::Running { .. } => NodeState::Running,
            Standing::WaitingHuman { .. } => NodeState::WaitingHuman,
            Standing::FailedRetryable { .. } => NodeState::FailedRetryable,
            Standing::Held | Standing::Upstream { .. } => NodeState::Blocked,
            Standing::Executed => NodeState::Executed,
            Standing::Failed => NodeState::Failed,
            Standing::Cancelled => NodeState::Cancelled,
            Standing::Skipped => NodeState::Skipped,
        }
    }
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
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
pub enum Settlement {
    /// It was done.
    Done,
    /// It is to be done again.
    Redo,
    /// It counts as failed.
    Fail,
}

/// What the work of an attempt is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Identity of the work (lineage `r`).
    pub reuse: Digest,
    /// What a receiver can recognise its repetition by.
    pub idempotency_key: Digest,
}

/// One node of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Where it stands.
    pub standing: Standing,
    /// Why it stands there.
    pub reason: Option<Reason>,
    /// When it came there.
    pub since: Ticks,
    /// Attempts so far.
    pub attempts: u32,
    /// Retries since the last patch.
    pub retries: u32,
    /// Patches so far.
    pub phase: u32,
    /// Requests to people so far; an answer names the one it is for.
    pub requests: u32,
    /// Whether a person said yes beforehand.
    pub approved: bool,
    /// What the last question showed; an attempt in doubt shows nothing, and leaves it as it is.
    pub shown: Option<Box<Digest>>,
    /// What was last said to a question.
    pub answered: Option<Box<Answered>>,
    /// The last attempt that was in doubt and that a person settled, and how.
    pub resolved: Option<(u32, Settlement)>,
    /// What the last attempt did, as it was written down before it started.
    pub identity: Option<Identity>,
    /// What the last attempt gave; published only if the node is executed.
    pub output: Option<Output>,
    /// What the last failed attempt met.
    pub failure: Option<Box<Failure>>,
    /// Place among the terminal transitions of the run, from 1; 0 while live.
    pub commit: u64,
    /// Whether a replan was asked for on account of its failure.
    pub(super) asked: bool,
}

impl Instance {
    pub(super) fn new(now: Ticks) -> Instance {
        Instance {
            standing: Standing::Pending,
            reason: None,
            since: now,
            attempts: 0,
            retries: 0,
            phase: 0,
            requests: 0,
            approved: false,
            shown: None,
            answered: None,
            resolved: None,
            identity: None,
            output: None,
            failure: None,
            commit: 0,
            asked: false,
        }
    }

    /// What its failure comes down to, in words; `None` where the reason says all there is.
    pub fn met(&self) -> Option<&str> {
        let failure = self.failure.as_ref()?;
        if (&self.reason, failure.category) == (&Some(Reason::InDoubt), Category::HumanRejection) {
            return Some("a person settled it as failed");
        }
        Some(failure.message.as_str()).filter(|message| !message.is_empty())
    }

    /// What it came to, once that counts: a result that waits for a person, or that one refused, is nobody's to use.
    pub fn result(&self) -> Option<&Output> {
        self.output.as_ref().filter(|_| self.standing == Standing::Executed)
    }

    /// The state alone.
    pub fn state(&self) -> NodeState {
        self.standing.state()
    }

    /// Whether something can still happen to it.
    pub fn is_live(&self) -> bool {
        !self.state().is_terminal()
    }

    /// Whether it was stopped but goes on to its true end.
    pub fn is_draining(&self) -> bool {
        matches!(self.standing, Standing::Running { draining: true, .. })
    }
}
