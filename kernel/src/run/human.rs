//! Answers of people, and their timeouts.

use super::Run;
use super::decision::Decision;
use super::node_status::{NodeStatus, ResolutionKind};
use crate::event::{Event, HumanAnswer, HumanRequestKind};
use crate::id::{Digest, NodeId, Ticks};
use crate::ledger::{Amounts, CallLimits};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// An answer that the run refuses. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The run has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// The node has no such question open: not yet, or not any more.
    #[error("node {node} is {state}{}: no such question is open", because(.reason))]
    NotAsked {
        /// The node.
        node: NodeId,
        /// State of the node.
        state: NodeState,
        /// Reason of the last transition.
        reason: Option<TransitionReason>,
    },
    /// A person has answered this question already.
    #[error("node {node} was {} by {by} already", if *.approve { "approved" } else { "rejected" })]
    Answered {
        /// The node.
        node: NodeId,
        /// The answer.
        approve: bool,
        /// Name of the person.
        by: String,
    },
    /// The document has changed, so the question was asked again.
    #[error(
        "question {request} of node {node} is closed: the work has changed; `ostler approvals` shows question {latest}, what differs and \
         what to type"
    )]
    AskedAnew {
        /// The node.
        node: NodeId,
        /// Number of the answered question.
        request: u32,
        /// Number of the open question.
        latest: u32,
    },
    /// The answer names another document than the question shows.
    #[error(
        "node {node}: the question shows {}, the answer names {named}; look again before you answer",
        .shown.map_or_else(|| "nothing".to_owned(), |shown| shown.to_string())
    )]
    OtherDigest {
        /// The node.
        node: NodeId,
        /// Digest of the document that the question shows.
        shown: Option<Digest>,
        /// Digest that the answer names.
        named: Digest,
    },
    /// The budget is too small, and the answer does not say by how much it grows.
    #[error("node {0}: say by how much the budget grows, such as --budget +1usd or --budget +100000tokens")]
    NoRaise(NodeId),
    /// A budget grows only in what it bounds, and by a question about it.
    #[error("node {node}: {why}")]
    CannotRaise {
        /// The node.
        node: NodeId,
        /// The reason.
        why: &'static str,
    },
    /// The attempt is in doubt: a resolution settles it, not an approval.
    #[error("node {0} is in doubt: resolve the attempt instead")]
    InDoubt(NodeId),
    /// The node waits for an event from outside, not for a yes or no.
    #[error("node {0} waits for an answer with a value: use `ostler answer`")]
    Wait(NodeId),
    /// The deadline of the question has passed.
    #[error("node {node}: the time to answer is over; the node is cancelled")]
    TooLate {
        /// The node.
        node: NodeId,
        /// The deadline, in milliseconds since the Unix epoch.
        deadline: Ticks,
    },
}

impl Run {
    /// Checks the raise of an approving answer to a question that [`Run::check_answer`] accepts. `left`: what the run's account
    /// has left by now; without a raise it must be enough, because a person raised it in another run.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NoRaise`], [`AnswerError::CannotRaise`].
    pub fn check_raise(
        &self,
        node: &NodeId,
        approve: bool,
        raise: Amounts,
        left: CallLimits,
    ) -> Result<(), AnswerError> {
        let instance = self.instance(node).ok_or_else(|| AnswerError::UnknownNode(node.clone()))?;
        let is_budget =
            matches!(instance.status, NodeStatus::WaitingHuman { ask: HumanRequestKind::Budget, .. });
        let short = instance.shortfall.as_deref().filter(|_| is_budget && approve);
        let cannot = |why| Err(AnswerError::CannotRaise { node: node.clone(), why });
        match short {
            None if raise.is_zero() => Ok(()),
            None => cannot("only the approval of a call over the budget raises a budget"),
            Some(short) if short.of_client && raise.is_zero() => Ok(()),
            Some(short) if short.of_client => cannot(
                "the balance of its client is too small; add to it with `ostler credit`, then approve without --budget",
            ),
            Some(short) if raise.is_zero() && left.hold(short.least) => Ok(()),
            Some(_) if raise.is_zero() => Err(AnswerError::NoRaise(node.clone())),
            Some(short)
                if raise.tokens > 0 && short.limits.tokens.is_none()
                    || raise.nano_usd > 0 && short.limits.nano_usd.is_none() =>
            {
                cannot("the budget has no such limit; raise what it bounds")
            }
            Some(_) => Ok(()),
        }
    }
}

/// A resolution that the run refuses. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolutionError {
    /// The run has no such node.
    #[error("no node {0} in this run")]
    UnknownNode(NodeId),
    /// The last attempt of the node is not in doubt.
    #[error("node {node} is {state}, not in doubt: nothing to resolve")]
    NotInDoubt {
        /// The node.
        node: NodeId,
        /// State of the node.
        state: NodeState,
    },
    /// Another attempt is in doubt than the person has seen.
    #[error(
        "node {node}: attempt {latest} is in doubt, not attempt {attempt}; look again before you resolve"
    )]
    OtherAttempt {
        /// The node.
        node: NodeId,
        /// The named attempt.
        attempt: u32,
        /// The attempt in doubt.
        latest: u32,
    },
    /// The run has ended, and the effect of the node is unknown.
    #[error(
        "node {node}: the run has ended, so its work is neither repeated nor recorded; once nothing is left of its effect, \
         `ostler resolve RUN NODE --gone` settles it"
    )]
    Ended {
        /// The node.
        node: NodeId,
    },
    /// The run goes on, so the node is not settled by hand.
    #[error("node {node}: the run has not ended; --done, --redo or --fail settle what is in doubt")]
    GoesOn {
        /// The node.
        node: NodeId,
    },
}

fn because(reason: &Option<TransitionReason>) -> String {
    reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
}

impl Run {
    /// True if the deadline of any open question has passed at `now`.
    pub fn human_timeout_due(&self, now: Ticks) -> bool {
        self.instances.iter().any(|instance| {
            matches!(instance.status, NodeStatus::WaitingHuman { deadline: Some(deadline), .. } if deadline <= now)
        })
    }

    /// Checks an answer before it is decided: question number `request` of `node` must be open at `now` and show the document
    /// with the digest `named`.
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
        if ask == HumanRequestKind::Wait {
            Err(AnswerError::Wait(node))
        } else if ask == HumanRequestKind::InDoubt {
            Err(AnswerError::InDoubt(node))
        } else if instance.requests != request {
            Err(AnswerError::AskedAnew { node, request, latest: instance.requests })
        } else if instance.asked_digest() != Some(named) {
            Err(AnswerError::OtherDigest { node, shown: instance.asked_digest(), named })
        } else if let Some(deadline) = deadline.filter(|&deadline| deadline < now) {
            Err(AnswerError::TooLate { node, deadline })
        } else {
            Ok(())
        }
    }
}

impl Run {
    /// Checks a resolution before it is decided, and returns the number of the attempt in doubt. `looked_at` is the attempt
    /// seen by the person; `None` accepts any.
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

    /// True if the last resolution of the node was the same, so repeating it changes nothing. `result` is the artifact of a
    /// done attempt.
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
    /// Index of the node and kind of the question, if question `request` is open.
    fn open_request(&self, node: &NodeId, request: u32) -> Option<(usize, HumanRequestKind)> {
        let at = self.run.position(node)?;
        let instance = &self.run.instances[at];
        match instance.status {
            NodeStatus::WaitingHuman { ask, .. } if instance.requests == request => Some((at, ask)),
            _ => None,
        }
    }

    pub(super) fn answer(
        &mut self,
        node: &NodeId,
        request: u32,
        approve: bool,
        (by, note): (String, String),
        raise: Amounts,
    ) {
        let Some((at, ask)) = self.open_request(node, request) else { return };
        if matches!(ask, HumanRequestKind::InDoubt | HumanRequestKind::Wait) {
            return; // only a resolution, or a value, settles it
        }
        self.human_answer(at, approve, false, by, note);
        match (ask, approve) {
            (HumanRequestKind::Budget, approve) => self.budget_answered(at, approve, raise),
            (HumanRequestKind::Before, true) => {
                self.transit(at, NodeState::Ready, TransitionReason::Approved)
            }
            (HumanRequestKind::Before, false) => {
                self.transit(at, NodeState::Cancelled, TransitionReason::HumanRejected);
            }
            (_, true) => self.executed(at),
            (HumanRequestKind::After, false) if self.plans_again(at) => {
                let why = TransitionReason::Category(FailureCategory::HumanRejection);
                self.transit(at, NodeState::FailedRetryable, why);
                self.transit(at, NodeState::Pending, TransitionReason::Retry);
            }
            (_, false) => self.failed(at, FailureCategory::HumanRejection),
        }
    }

    /// True if a refused node planned a goal run, the person said why, and a try is left: the model plans again with the note.
    fn plans_again(&self, at: usize) -> bool {
        let (node, instance) = (&self.run.plan.nodes[at], &self.run.instances[at]);
        let plans = self.run.goal.as_ref().is_some_and(|goal| goal.role(&node.id).is_some());
        let has_note = instance.failure_message().is_some_and(|note| !note.is_empty());
        plans && has_note && i64::from(instance.retries) < node.retries
    }

    pub(super) fn human_timeout(&mut self, node: &NodeId, request: u32) {
        match self.open_request(node, request) {
            None | Some((_, HumanRequestKind::InDoubt)) => {}
            Some((_, HumanRequestKind::Budget)) => self.budget_silence(node),
            Some((at, HumanRequestKind::Wait)) => self.deadline_passed(at),
            Some((at, HumanRequestKind::Before | HumanRequestKind::After | HumanRequestKind::Node)) => {
                self.transit(at, NodeState::Cancelled, TransitionReason::HumanTimeout);
            }
        }
    }

    pub(super) fn human_answer(&mut self, at: usize, approve: bool, redo: bool, by: String, note: String) {
        self.emit(Event::HumanAnswer(HumanAnswer { node: self.id(at), approve, redo, by, note }));
    }
}
