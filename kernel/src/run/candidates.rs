//! Candidates: outputs of attempts that did not become results. For people only: nothing reads or reuses them.

use super::{FailureCategory, NodeState};
use crate::event::{Event, Outcome, Output, RefusedOutput};
use crate::id::NodeId;

/// Attempts of a node, from the first, with an output that is kept although the contract refused it.
pub const CANDIDATES_MAX: u32 = 16;

/// An output of an attempt that did not become the result of its node.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Number of the attempt.
    pub attempt: u32,
    /// The reason.
    pub reason: CandidateReason,
    /// The output.
    pub output: Output,
}

/// Why an output did not become the result of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateReason {
    /// The contract refused it; with the broken rules.
    Refused(String),
    /// This person rejected it.
    Rejected(String),
    /// The node ended before a person had approved it.
    Unapproved,
    /// The node had moved on before the attempt ended.
    Late,
}

/// The record of an output that the contract refused; `None`: the attempt did not fail by its output, or has a number above
/// [`CANDIDATES_MAX`].
pub fn refused_candidate(node: &NodeId, attempt: u32, outcome: &Outcome, output: Output) -> Option<Event> {
    match outcome {
        Outcome::Failed(failure)
            if failure.category == FailureCategory::InvalidOutput && attempt <= CANDIDATES_MAX =>
        {
            let (node, why) = (node.clone(), failure.message.clone());
            Some(Event::CandidateKept(Box::new(RefusedOutput { node, attempt, why, output })))
        }
        _ => None,
    }
}

/// Collects the candidates of a node from the records of its run.
#[derive(Debug)]
pub struct Candidates {
    node: NodeId,
    found: Vec<Candidate>,
    /// The output that waits for its approval.
    pending: Option<(u32, Output)>,
}

impl Candidates {
    /// Starts with no record of the run.
    pub fn of(node: NodeId) -> Candidates {
        Candidates { node, found: Vec::new(), pending: None }
    }

    /// Reads the next record of the run.
    pub fn see(&mut self, event: &Event) {
        match event {
            Event::CandidateKept(refused) if refused.node == self.node => {
                let RefusedOutput { attempt, why, output, .. } = &**refused;
                self.add(*attempt, CandidateReason::Refused(why.clone()), output.clone());
            }
            Event::LateResult(late) if late.node == self.node => {
                if let Outcome::Ok(output) = &late.outcome {
                    self.add(late.attempt, CandidateReason::Late, output.clone());
                }
            }
            Event::AttemptResult(result) if result.node == self.node => {
                self.pending = match &result.outcome {
                    Outcome::Ok(output) => Some((result.attempt, output.clone())),
                    Outcome::Failed(_) => None,
                };
            }
            Event::HumanAnswer(answer) if answer.node == self.node && !answer.approve => {
                if let Some((attempt, output)) = self.pending.take() {
                    self.add(attempt, CandidateReason::Rejected(answer.by.clone()), output);
                }
            }
            Event::NodeTransition(moved) if moved.node == self.node => match moved.to {
                NodeState::Executed => self.pending = None,
                NodeState::Failed | NodeState::Cancelled | NodeState::Skipped => {
                    if let Some((attempt, output)) = self.pending.take() {
                        self.add(attempt, CandidateReason::Unapproved, output);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// The candidates, in the order of the records.
    pub fn end(self) -> Vec<Candidate> {
        self.found
    }

    fn add(&mut self, attempt: u32, reason: CandidateReason, output: Output) {
        self.found.push(Candidate { attempt, reason, output });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptResult, Failure, HumanAnswer, NodeTransition};
    use crate::id::Digest;
    use crate::run::TransitionReason;

    fn output(number: u8) -> Output {
        Output { artifact: Digest([number; 32]), bytes: 1, inline: None, directive: None }
    }

    fn failed(category: FailureCategory) -> Outcome {
        Outcome::Failed(Failure { category, message: "contract[0]: no".into() })
    }

    fn result(attempt: u32) -> Box<AttemptResult> {
        Box::new(AttemptResult::without_cost("n".into(), attempt, Outcome::Ok(output(attempt as u8))))
    }

    fn moved(to: NodeState) -> Event {
        let (node, from, reason) = ("n".into(), NodeState::Running, TransitionReason::Ok);
        Event::NodeTransition(NodeTransition { node, version: 1, from, to, reason, attempt: 1 })
    }

    #[test]
    fn outputs_of_the_first_attempts_are_kept_if_the_contract_refused_them() {
        let kept = |attempt, category| {
            refused_candidate(&"n".into(), attempt, &failed(category), output(1)).is_some()
        };
        assert!(
            kept(1, FailureCategory::InvalidOutput) && kept(CANDIDATES_MAX, FailureCategory::InvalidOutput)
        );
        assert!(!kept(CANDIDATES_MAX + 1, FailureCategory::InvalidOutput), "at the limit");
        assert!(!kept(1, FailureCategory::Timeout));
        assert_eq!(refused_candidate(&"n".into(), 1, &Outcome::Ok(output(2)), output(1)), None);
    }

    #[test]
    fn every_output_but_the_result_is_a_candidate() {
        let no = |node: &str| {
            let (redo, by, note) = (false, "ann".to_owned(), String::new());
            Event::HumanAnswer(HumanAnswer { node: node.into(), approve: false, redo, by, note })
        };
        let refused = refused_candidate(&"n".into(), 1, &failed(FailureCategory::InvalidOutput), output(1));
        let mut candidates = Candidates::of("n".into());
        for event in [
            refused.unwrap(),
            Event::AttemptResult(result(2)),
            no("other"),
            no("n"),
            Event::AttemptResult(result(3)),
            moved(NodeState::Executed),
            Event::LateResult(result(4)),
            Event::AttemptResult(result(5)),
            moved(NodeState::Cancelled),
        ] {
            candidates.see(&event);
        }
        let found: Vec<(u32, CandidateReason)> =
            candidates.end().into_iter().map(|found| (found.attempt, found.reason)).collect();
        let refused = CandidateReason::Refused("contract[0]: no".into());
        let rejected = CandidateReason::Rejected("ann".into());
        assert_eq!(
            found,
            [(1, refused), (2, rejected), (4, CandidateReason::Late), (5, CandidateReason::Unapproved)]
        );
    }
}
