//! Waits: nodes whose result is an external answer.
//!
//! A bad answer is refused without effect on the run: the sender receives the verdict, and only an accepted answer moves
//! the node. Answers that arrive before the node waits are kept, up to a limit, because events arrive at any time.

use super::Run;
use super::decision::Decision;
use super::node_status::{KeptAnswer, NodeStatus};
use crate::event::{AnswerVerdict, Event, HumanRequestKind, Output, WaitAnswer};
use crate::id::{NodeId, Ticks};
use crate::plan::Kind;
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// Maximum number of recorded refusals per node. Later refusals return the same verdict, unrecorded.
pub const REFUSED_ANSWERS_RECORDED_MAX: u32 = 100;

/// Longest id of an answer, in bytes.
pub const ANSWER_ID_BYTES_MAX: usize = 128;

/// An external answer to a node that waits, or will wait.
#[derive(Debug, Clone, PartialEq)]
pub struct OutsideAnswer {
    /// The node.
    pub node: NodeId,
    /// Sender's id of the answer; identifies a repeated delivery.
    pub id: Option<String>,
    /// The value; `None` for a value that was not stored because the answer could have no effect.
    pub output: Option<Output>,
    /// The value satisfies the contract of the node. Judged only while the node waits.
    pub holds: bool,
    /// Name of the operator; empty for an anonymous sender.
    pub by: String,
    /// The time at which the sender is told the verdict. What is recorded must not differ, so that a contract that takes long to judge
    /// makes no accepted answer late.
    pub at: Ticks,
}

impl Run {
    /// Verdict on an answer that arrives at `now`. `holds`: the answer satisfies the contract.
    pub fn answer_verdict(&self, node: &NodeId, id: Option<&str>, holds: bool, now: Ticks) -> AnswerVerdict {
        match self.passed_deadline(node, now) {
            Some(_) => AnswerVerdict::Late,
            None => self.kept_verdict(node, id, holds),
        }
    }

    /// The deadline of a wait that no process has ended, although the deadline has passed at `now`. An answer at the very
    /// deadline is in time.
    pub fn passed_deadline(&self, node: &NodeId, now: Ticks) -> Option<Ticks> {
        match self.instance(node)?.status {
            NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, deadline } => {
                deadline.filter(|&deadline| deadline < now)
            }
            _ => None,
        }
    }

    /// Verdict on an answer that came before any deadline.
    pub fn kept_verdict(&self, node: &NodeId, id: Option<&str>, holds: bool) -> AnswerVerdict {
        let Some(at) = self.position(node).filter(|&at| self.plan.nodes[at].kind == Kind::Wait) else {
            return AnswerVerdict::Unknown;
        };
        let instance = &self.instances[at];
        let wait = instance.wait.as_deref();
        match instance.status {
            NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, .. } if holds => AnswerVerdict::Accepted,
            NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, .. } => AnswerVerdict::Invalid,
            _ if instance.is_live() => {
                let kept = wait.map_or(0, |wait| wait.kept.len());
                if kept < self.plan.policy.max_kept as usize {
                    AnswerVerdict::Kept
                } else {
                    AnswerVerdict::Full
                }
            }
            _ => {
                let accepted = wait.and_then(|wait| wait.accepted.as_deref());
                if id.is_some() && id == accepted { AnswerVerdict::Duplicate } else { AnswerVerdict::Late }
            }
        }
    }

    /// Answers kept for the begin of a node's wait, in order of arrival.
    pub fn kept_answers(&self, node: &NodeId) -> &[KeptAnswer] {
        self.instance(node).and_then(|instance| instance.wait.as_deref()).map_or(&[], |wait| &wait.kept)
    }

    /// True if the node waits for an external answer.
    pub fn waits_for_answer(&self, node: &NodeId) -> bool {
        let status = self.instance(node).map(|instance| &instance.status);
        matches!(status, Some(NodeStatus::WaitingHuman { ask: HumanRequestKind::Wait, .. }))
    }

    /// True if the node's refused answers are still recorded.
    fn records_refusals(&self, node: &NodeId) -> bool {
        let wait = self.instance(node).and_then(|instance| instance.wait.as_deref());
        wait.is_none_or(|wait| wait.refused < REFUSED_ANSWERS_RECORDED_MAX)
    }

    pub(super) fn apply_wait_answer(&mut self, at: usize, answer: &WaitAnswer) {
        let instance = &mut self.instances[at];
        let wait = instance.wait.get_or_insert_default();
        if answer.was_kept && !wait.kept.is_empty() {
            wait.kept.remove(0);
        }
        match (answer.verdict, &answer.output) {
            (AnswerVerdict::Accepted, output) => {
                wait.accepted.clone_from(&answer.id);
                wait.accepted_by.clone_from(&answer.by);
                instance.output.clone_from(output);
            }
            (AnswerVerdict::Kept, Some(output)) => {
                let (id, by) = (answer.id.clone(), answer.by.clone());
                wait.kept.push(KeptAnswer { id, output: output.clone(), by });
            }
            _ => wait.refused += 1,
        }
    }
}

impl Decision<'_, '_, '_> {
    pub(super) fn wait_answer(&mut self, answer: OutsideAnswer) {
        let verdict = self.run.answer_verdict(&answer.node, answer.id.as_deref(), answer.holds, answer.at);
        self.settle_answer(answer, verdict, false);
    }

    /// Judges the oldest kept answer of a node.
    pub(super) fn kept_answer(&mut self, node: &NodeId, holds: bool) {
        let Some(KeptAnswer { id, output, by }) = self.run.kept_answers(node).first().cloned() else {
            return;
        };
        let verdict = self.run.kept_verdict(node, id.as_deref(), holds);
        let answer =
            OutsideAnswer { node: node.clone(), id, output: Some(output), holds, by, at: self.cx.now };
        self.settle_answer(answer, verdict, true);
    }

    fn settle_answer(&mut self, answer: OutsideAnswer, verdict: AnswerVerdict, was_kept: bool) {
        let OutsideAnswer { node, id, output, by, .. } = answer;
        let Some(at) = self.run.position(&node) else { return };
        let counts = matches!(verdict, AnswerVerdict::Accepted | AnswerVerdict::Kept);
        if verdict == AnswerVerdict::Unknown || !counts && !was_kept && !self.run.records_refusals(&node) {
            return;
        }
        let output = output.filter(|_| counts);
        self.emit(Event::WaitAnswered(Box::new(WaitAnswer { node, id, verdict, output, by, was_kept })));
        if verdict == AnswerVerdict::Accepted {
            self.transit(at, NodeState::Executed, TransitionReason::Answered);
        }
    }

    /// Fails a wait after its deadline: the missing event says something about the world, not about the plan.
    pub(super) fn deadline_passed(&mut self, at: usize) {
        let message = "no answer came before the deadline".to_owned();
        self.fail_unstarted(at, FailureCategory::Deadline, message);
    }
}
