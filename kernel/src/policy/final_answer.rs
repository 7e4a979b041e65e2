//! The answer of a goal run: by a model over the results, or by template from texts that exist.

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::role::ANSWER;
use super::{Aggregator, Role, View, undone};
use crate::id::NodeId;
use crate::json::{self, Json};
use crate::run::{NodeState, RunOutcome};

/// Origin of the text of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A model wrote it over the results.
    Model,
    /// A planner answered instead of planning.
    Plan,
    /// A turn without calls.
    Think,
    /// The verdict of a reflection or an interjection.
    Verdict,
    /// The tools or facts that a planner misses.
    Missing,
    /// The results, a line each.
    Results,
    /// The run has no text to show.
    None,
}

impl Source {
    /// True for a text that a model wrote as the answer: no other model rewrites it.
    fn is_direct(self) -> bool {
        matches!(self, Source::Plan | Source::Think)
    }
}

/// The answer of a goal run: the result of the node [`ANSWER`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalAnswer {
    /// Origin of the text.
    pub source: Source,
    /// The text.
    pub answer: String,
    /// Executed work that the text rests on.
    pub citations: Vec<NodeId>,
    /// The template answers in place of a model, whose call failed or did not fit the budgets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stands_in: bool,
}

impl FinalAnswer {
    /// The result of the node.
    pub fn to_json(&self) -> Json {
        json::to_canonical(self).expect("an answer has only texts in it")
    }
}

/// Value of a result in the lines of an answer; reads from the artifact store what is not inline.
pub type ReadResult<'a> = dyn Fn(&NodeId) -> Json + 'a;

impl View<'_> {
    /// The answer of the run; `None` before the answer is executed.
    pub fn final_answer(&self) -> Option<FinalAnswer> {
        let output = self.run.instance(&NodeId::from(ANSWER))?.result()?;
        serde_json::from_str(output.inline.as_ref()?.as_str()).ok()
    }

    /// Outcome of the run if it ended now. The labels say how far the answer carries.
    pub fn outcome(&self) -> RunOutcome {
        if self.run.is_cancelled() {
            return RunOutcome::Cancelled;
        }
        match self.final_answer().map(|answer| answer.source) {
            None | Some(Source::None) => RunOutcome::Failed,
            Some(_) => RunOutcome::Succeeded,
        }
    }

    /// The answer by template: the latest direct text or verdict, else what is missing, else the results.
    pub fn template(&self, read: &ReadResult<'_>) -> FinalAnswer {
        let (source, answer) = self.latest_text().unwrap_or_else(|| {
            let lines: Vec<String> =
                self.executed().map(|node| format!("{node}: {}", read(node).as_str())).collect();
            if lines.is_empty() { (Source::None, String::new()) } else { (Source::Results, lines.join("\n")) }
        });
        // A direct text rests on what its author was shown.
        let earlier = self.earlier().filter(|node| self.state(node) == Some(NodeState::Executed));
        let citations = self.executed().chain(earlier).cloned().collect();
        FinalAnswer { source, answer, citations, stands_in: false }
    }

    fn latest_text(&self) -> Option<(Source, String)> {
        let (mut text, mut missing) = (None, None);
        for answered in self.answers() {
            match answered.answer {
                Answer::Planned(plan) => {
                    text = plan.answer.map(|answer| (Source::Plan, answer)).or(text);
                    missing = plan.missing.map(|what| (Source::Missing, what)).or(missing);
                }
                Answer::Thought(turn) => {
                    let direct = turn.direct_text().map(|answer| (Source::Think, answer.to_owned()));
                    text = direct.or(text);
                }
                Answer::Reflected(answer) => {
                    text = answer.verdict.map(|verdict| (Source::Verdict, verdict)).or(text);
                }
                Answer::Observed(_) => {}
            }
        }
        text.or(missing)
    }

    /// True if a model is to write the answer: one is configured, there is executed work, no direct text, time, and nothing is
    /// undone.
    pub(super) fn model_answers(&self) -> bool {
        self.goal.terms.aggregator != Aggregator::Off
            && self.executed().next().is_some()
            && !self.latest_text().is_some_and(|(source, _)| source.is_direct())
            && !self.is_late()
            && !undone::is_undone(*self)
    }

    /// True if a model was asked for the answer before.
    pub(super) fn asked_for_answer(&self) -> bool {
        self.goal.calls.iter().any(|call| call.intent.role == Role::Answer)
    }

    /// The result of the answer whose attempt fails for good; `None` for any other node. An answer never fails: the template
    /// stands in for the model.
    pub fn stands_in(&self, node: &NodeId, read: &ReadResult<'_>) -> Option<FinalAnswer> {
        let is_running = self.state(node) == Some(NodeState::Running);
        let is_answer = self.role(node) == Some(Role::Answer) && is_running;
        is_answer.then(|| FinalAnswer { stands_in: true, ..self.template(read) })
    }
}
