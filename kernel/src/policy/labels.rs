//! Labels: how far the answer of a goal run carries.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::goal::Conclusion;
use super::role::ANSWER;
use super::undone::{has_conclusion, is_undone};
use super::{Role, View};
use crate::id::NodeId;
use crate::run::{NodeInstance, NodeState, TransitionReason};

/// A label of an answer, in the order of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// A planner said that no tool can do what is missing.
    CapabilityGap,
    /// The answer cites executed work.
    Grounded,
    /// Something is undone, a planner or turn failed, the time was up, or the template stands in for a model.
    Incomplete,
    /// Work failed, or a person refused, skipped or cancelled it, or did not answer.
    Partial,
    /// The answer cites nothing.
    Ungrounded,
    /// No reflection has read all the results.
    Unreviewed,
}

impl Label {
    /// The name in files and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            Label::CapabilityGap => "capability_gap",
            Label::Grounded => "grounded",
            Label::Incomplete => "incomplete",
            Label::Partial => "partial",
            Label::Ungrounded => "ungrounded",
            Label::Unreviewed => "unreviewed",
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl View<'_> {
    /// Labels of the executed answer, in the order of names; empty without one.
    pub fn labels(&self) -> Vec<Label> {
        let Some(answer) = self.final_answer() else { return Vec::new() };
        let is_grounded = !answer.citations.is_empty();
        let held = [
            (Label::CapabilityGap, self.has_gap()),
            (Label::Grounded, is_grounded),
            (Label::Incomplete, answer.stands_in || self.is_incomplete()),
            (Label::Partial, self.work().any(|(_, instance)| is_lost(instance))),
            (Label::Ungrounded, !is_grounded),
            (Label::Unreviewed, self.is_unreviewed()),
        ];
        held.into_iter().filter(|(_, holds)| *holds).map(|(label, _)| label).collect()
    }

    /// Reasons why the answer is incomplete although no node reports a problem, each as a sentence for people; empty
    /// without an answer.
    pub fn reasons(&self) -> Vec<String> {
        let Some(answer) = self.final_answer() else { return Vec::new() };
        let mut reasons = Vec::new();
        if self.goal.is_out_of_budget() {
            reasons.push("the budget was not raised".to_owned());
        } else if let Some(wall) = self.goal.terms.budgets.wall
            && (self.goal.conclusion == Some(Conclusion::Wall) || self.goal.answer_is_late)
        {
            let wall = if wall % 1_000 == 0 { format!("{}s", wall / 1_000) } else { format!("{wall}ms") };
            reasons.push(format!("the time is up (--wall {wall})"));
        }
        let is_incomplete = answer.stands_in || self.is_incomplete();
        if is_incomplete && !self.has_calls() {
            reasons.push(self.calls_used_up());
        }
        if answer.stands_in {
            reasons.push(self.why_no_model_answered());
        }
        reasons.extend(self.goal.refused_repairs().map(|(node, faults)| {
            format!("the model was asked to repair {node}, and its answer was not usable: {faults}")
        }));
        reasons
    }

    fn why_no_model_answered(&self) -> String {
        let id = NodeId::from(ANSWER);
        let instance = self.run.instance(&id);
        let attempts = instance.map_or(0, |instance| instance.attempts);
        let faulty = (0..=attempts).rev().find_map(|attempt| self.goal.faulty_answer(&id, attempt));
        let cause =
            instance.and_then(NodeInstance::failure_message).or(faulty.map(|faulty| faulty.faults.as_str()));
        match cause {
            Some(cause) => format!("no model wrote the answer: {cause}"),
            None => "no model wrote the answer: its call failed or did not fit the budget".to_owned(),
        }
    }

    fn has_gap(&self) -> bool {
        let is_missing = |answer: &Answer| matches!(answer, Answer::Planned(plan) if plan.missing.is_some());
        self.answers().iter().any(|answered| is_missing(&answered.answer))
    }

    fn is_incomplete(&self) -> bool {
        let has_failed =
            |role: Role| self.of_role(role).any(|(_, instance)| instance.state() == NodeState::Failed);
        is_undone(*self)
            || has_failed(Role::Planner)
            || has_failed(Role::Think)
            || self.goal.conclusion == Some(Conclusion::Wall)
            || self.goal.answer_is_late
    }

    fn is_unreviewed(&self) -> bool {
        let ended = self.of_role(Role::Reflect).filter(|(_, instance)| !instance.is_live());
        let last = ended.max_by_key(|(_, instance)| instance.commit_number);
        let is_unread = last.is_some_and(|(_, instance)| instance.state() != NodeState::Executed);
        self.goal.terms.mode.reviews()
            && !has_conclusion(*self)
            && (is_unread || !self.uncovered().is_empty())
    }
}

fn is_lost(instance: &NodeInstance) -> bool {
    match instance.state() {
        NodeState::Failed => true,
        NodeState::Cancelled | NodeState::Skipped => matches!(
            instance.reason,
            Some(
                TransitionReason::Operator | TransitionReason::HumanRejected | TransitionReason::HumanTimeout
            )
        ),
        NodeState::Pending
        | NodeState::Ready
        | NodeState::Running
        | NodeState::WaitingHuman
        | NodeState::FailedRetryable
        | NodeState::Blocked
        | NodeState::Executed => false,
    }
}
