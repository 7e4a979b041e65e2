//! What people answer, and their silence.

use super::Run;
use super::decision::Decision;
use super::node_status::{NodeStatus, ResolutionKind};
use crate::event::{Event, HumanAnswer, HumanRequestKind};
use crate::id::{Digest, NodeId, Ticks};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// Why an answer is not taken. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The run has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// The node asks nobody: not yet, or not any more.
    #[error("node {node} is {state}{}: it does not ask that", because(.reason))]
    NotAsked {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        state: NodeState,
        /// Why it stands there.
        reason: Option<TransitionReason>,
    },
    /// Somebody has answered this question.
    #[error("node {node} was {} by {by} already", if *.approve { "approved" } else { "rejected" })]
    Answered {
        /// Which node.
        node: NodeId,
        /// What they said.
        approve: bool,
        /// Who.
        by: String,
    },
    /// It was asked anew, because what was shown has changed.
    #[error("question {request} of node {node} is closed: it was asked anew, as question {latest}")]
    AskedAnew {
        /// Which node.
        node: NodeId,
        /// The question that the answer is for.
        request: u32,
        /// The one that is open.
        latest: u32,
    },
    /// The answer is for something that is not what the question shows.
    #[error(
        "node {node} shows {}, and the answer is for {named}: look at it again",
        .shown.map_or_else(|| "nothing".to_owned(), |shown| shown.to_string())
    )]
    OtherDigest {
        /// Which node.
        node: NodeId,
        /// What is shown.
        shown: Option<Digest>,
        /// What the answer is for.
        named: Digest,
    },
    /// The result of an attempt was lost: yes or no does not settle that.
    #[error("node {0} is in doubt: it is resolved, not approved")]
    InDoubt(NodeId),
    /// Silence has ended the question.
    #[error("the time to answer node {node} is over: silence has cancelled it")]
    TooLate {
        /// Which node.
        node: NodeId,
        /// When it was over, in milliseconds since the Unix epoch.
        deadline: Ticks,
    },
}

/// Why an attempt is not settled by a person. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolutionError {
    /// The run has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// What became of its last attempt is not asked.
    #[error("node {node} is {state}, not in doubt: there is nothing to resolve")]
    NotInDoubt {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        state: NodeState,
    },
    /// Another attempt than the one that was looked at is in doubt by now.
    #[error("attempt {attempt} of node {node} is not in doubt, attempt {latest} is: look at it again")]
    OtherAttempt {
        /// Which node.
        node: NodeId,
        /// The attempt that was named.
        attempt: u32,
        /// The one that is in doubt.
        latest: u32,
    },
}

fn because(reason: &Option<TransitionReason>) -> String {
    reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
}

impl Run {
    /// Whether silence ends a question now, or has ended one that is still to be closed.
    pub fn human_timeout_due(&self, now: Ticks) -> bool {
        self.instances.iter().any(|instance| {
            matches!(instance.status, NodeStatus::WaitingHuman { deadline: Some(deadline), .. } if deadline <= now)
        })
    }

    /// Whether an answer to question number `request` of a node, given for what has the digest `named`, can be
    /// taken at `now`.
    ///
    /// # Errors
    ///
    /// See [`AnswerError`].
    pub fn check_answer(
        &self,
        node: &NodeId,
        request: u32,
        named: Digest,
        now: Ticks,
    ) -> Result<(), AnswerError> {
        let instance = self.instance(node).ok_or_else(|| AnswerError::UnknownNode(node.clone()))?;
        let node = node.clone();
        if let Some(answered) = instance.answered.as_ref().filter(|answered| answered.request == request) {
            let (approve, by) = (answered.approve, answered.by.clone());
            return Err(AnswerError::Answered { node, approve, by });
        }
        let (ask, deadline) = match instance.status {
            NodeStatus::WaitingHuman { ask, deadline } if request <= instance.requests => (ask, deadline),
            _ => {
                let (state, reason) = (instance.state(), instance.reason.clone());
                return Err(AnswerError::NotAsked { node, state, reason });
            }
        };
        if ask == HumanRequestKind::InDoubt {
            Err(AnswerError::InDoubt(node))
        } else if instance.requests != request {
            Err(AnswerError::AskedAnew { node, request, latest: instance.requests })
        } else if instance.shown.as_deref() != Some(&named) {
            Err(AnswerError::OtherDigest { node, shown: instance.shown.as_deref().copied(), named })
        } else if let Some(deadline) = deadline.filter(|&deadline| deadline < now) {
            Err(AnswerError::TooLate { node, deadline })
        } else {
            Ok(())
        }
    }
}

impl Run {
    /// Whether a person is asked what became of an attempt of this node: the number of that attempt. `looked_at`: the
    /// one that the person knows of; `None` takes whichever is in doubt.
    ///
    /// # Errors
    ///
    /// See [`ResolutionError`].
    pub fn check_resolution(&self, node: &NodeId, looked_at: Option<u32>) -> Result<u32, ResolutionError> {
        let instance = self.instance(node).ok_or_else(|| ResolutionError::UnknownNode(node.clone()))?;
        let latest = instance.attempts;
        let NodeStatus::WaitingHuman { ask: HumanRequestKind::InDoubt, .. } = instance.status else {
            return Err(ResolutionError::NotInDoubt { node: node.clone(), state: instance.state() });
        };
        match looked_at.filter(|&attempt| attempt != latest) {
            Some(attempt) => Err(ResolutionError::OtherAttempt { node: node.clone(), attempt, latest }),
            None => Ok(latest),
        }
    }

    /// Whether a person settled this attempt like this, and settled none of the node since: saying so once more changes
    /// nothing. `result`: what it gave, if it was done.
    pub fn is_resolved(
        &self,
        node: &NodeId,
        attempt: u32,
        how: ResolutionKind,
        result: Option<Digest>,
    ) -> bool {
        self.instance(node).is_some_and(|instance| {
            instance.resolved == Some((attempt, how))
                && (how != ResolutionKind::Done
                    || instance.output.as_ref().map(|output| output.artifact) == result)
        })
    }
}

impl Decision<'_, '_, '_> {
    /// The request a node waits for, if it is this one.
    fn open_request(&self, node: &NodeId, request: u32) -> Option<(usize, HumanRequestKind)> {
        let at = self.run.position(node)?;
        let instance = &self.run.instances[at];
        match instance.status {
            NodeStatus::WaitingHuman { ask, .. } if instance.requests == request => Some((at, ask)),
            _ => None,
        }
    }

    pub(super) fn answer(&mut self, node: &NodeId, request: u32, approve: bool, by: String, note: String) {
        let Some((at, ask)) = self.open_request(node, request) else { return };
        if ask == HumanRequestKind::InDoubt {
            return; // settled by `resolve`, which says what became of it
        }
        self.human_answer(at, approve, false, by, note);
        match (ask, approve) {
            (HumanRequestKind::Before, true) => {
                self.transit(at, NodeState::Ready, TransitionReason::Approved)
            }
            (HumanRequestKind::Before, false) => {
                self.transit(at, NodeState::Cancelled, TransitionReason::HumanRejected);
            }
            (_, true) => self.executed(at),
            (_, false) => self.failed(at, FailureCategory::HumanRejection),
        }
    }

    pub(super) fn human_timeout(&mut self, node: &NodeId, request: u32) {
        if let Some((at, ask)) = self.open_request(node, request)
            && ask != HumanRequestKind::InDoubt
        {
            self.transit(at, NodeState::Cancelled, TransitionReason::HumanTimeout);
        }
    }

    pub(super) fn human_answer(&mut self, at: usize, approve: bool, redo: bool, by: String, note: String) {
        self.emit(Event::HumanAnswer(HumanAnswer { node: self.id(at), approve, redo, by, note }));
    }
}
