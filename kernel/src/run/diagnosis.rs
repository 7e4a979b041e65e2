//! Diagnoses: the probable cause of a failure, the recovery level that would mend it, and what came of it.
//!
//! A diagnosis reads the diagnostic context alone (SGH §5: C_diag, apart from C_exec): failures of the run and earlier diagnoses,
//! which no prompt of work ever contains. It recommends; the strategy of the category and what the plan still allows decide.
//! Every diagnosis is a record, so recovery applies it and asks nobody again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Run;
use crate::event::Failure;
use crate::id::{NodeId, RunId};
use crate::policy::normalised;
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// Diagnoses of a run that the diagnostic context keeps, the newest. Scores count all of them.
pub const DIAGNOSES_KEPT_MAX: usize = 1_000;

/// Longest cause, in characters.
pub const CAUSE_CHARS_MAX: usize = 200;

/// A confidence of 1, in percent.
const CERTAIN: u8 = 100;

/// Diagnoses that the first guess about a category weighs as much as.
const PRIOR_WEIGHT: u64 = 2;

/// The probable cause of a failure, and the recovery level that would mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The cause, for operators. Recorded up to [`CAUSE_CHARS_MAX`].
    pub cause: String,
    /// 1 retry, 2 patch, 3 a new version of the plan, 4 a person.
    pub level: u8,
    /// Probability that the level mends the failure, in percent.
    pub confidence: u8,
}

/// A failure that asks for a diagnosis.
#[derive(Clone, Copy)]
pub struct DiagnosisRequest<'a> {
    /// Id of the run.
    pub run_id: RunId,
    /// State of the run, the failure included. [`Run::diagnoses`] is the history.
    pub run: &'a Run,
    /// The failed node.
    pub node: &'a NodeId,
    /// The failure.
    pub failure: &'a Failure,
    /// The level that the strategy of the category prescribes: a diagnosis raises it, and never lowers it.
    pub level: u8,
}

/// Finds the probable causes of failures.
///
/// Called in the middle of a decision, with the run borrowed: it must return at once. A level that the plan does not allow (no
/// patch left, no replan left) counts as the one below it.
///
/// # Examples
///
/// ```
/// use ostler_kernel::run::{Diagnoser, Diagnosis, DiagnosisRequest, RuleDiagnoser};
///
/// /// Knows that a full disk needs another node, and leaves the rest to the rules.
/// struct KnowsDisks;
///
/// impl Diagnoser for KnowsDisks {
///     fn diagnose(&self, request: &DiagnosisRequest<'_>) -> Diagnosis {
///         if request.failure.message.contains("No space left") {
///             return Diagnosis { cause: "the disk is full".to_owned(), level: 2, confidence: 90 };
///         }
///         RuleDiagnoser.diagnose(request)
///     }
/// }
/// # let _: Box<dyn Diagnoser> = Box::new(KnowsDisks);
/// ```
pub trait Diagnoser: Send + Sync {
    /// The diagnosis of a failure.
    fn diagnose(&self, request: &DiagnosisRequest<'_>) -> Diagnosis;
}

impl fmt::Debug for dyn Diagnoser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Diagnoser")
    }
}

/// The default diagnoser: rules by category, and the history of the run.
///
/// The level is that of the strategy. One rule raises it: an attempt that breaks its contract in the same way as the attempt
/// before it is not retried once more if the node may be patched. The confidence starts from a guess for the category and moves
/// with what came of earlier diagnoses of the category in the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleDiagnoser;

impl Diagnoser for RuleDiagnoser {
    fn diagnose(&self, request: &DiagnosisRequest<'_>) -> Diagnosis {
        let DiagnosisRequest { run, node, failure, level, .. } = *request;
        let (cause, prior) = guess(failure.category);
        let recurs = run.diagnoses.recurs(node, failure);
        let patches_left = run
            .node(node)
            .zip(run.instance(node))
            .is_some_and(|(known, instance)| i64::from(instance.patch_count) < known.patches);
        let raised = recurs && patches_left && failure.category == FailureCategory::InvalidOutput;
        let score = run.diagnoses.scores.get(&failure.category).copied().unwrap_or_default();
        let (mended, tried) = (u64::from(score.mended), u64::from(score.tried));
        let seen = (PRIOR_WEIGHT * u64::from(prior) + u64::from(CERTAIN) * mended) / (PRIOR_WEIGHT + tried);
        let confidence = match recurs {
            // What came of retries says nothing about a patch.
            _ if raised => u64::from(prior),
            true => seen / 2,
            false => seen,
        };
        Diagnosis {
            cause: format!("{cause}{}", if recurs { ", again in the same way" } else { "" }),
            level: if raised { level.max(2) } else { level },
            confidence: confidence.min(u64::from(CERTAIN)) as u8,
        }
    }
}

/// Cause of a category in words, and the first guess of how often its level mends it, in percent.
fn guess(category: FailureCategory) -> (&'static str, u8) {
    match category {
        FailureCategory::Crash => ("the work died", 50),
        FailureCategory::Timeout => ("the work is slow, or waits for something that does not come", 50),
        FailureCategory::Transient => ("a passing fault outside", 80),
        FailureCategory::RateLimit => ("called too often", 90),
        FailureCategory::ResourceExhaustion => ("a limit is used up", 50),
        FailureCategory::InvalidOutput => ("the result breaks its contract", 60),
        FailureCategory::HumanRejection => ("a person refused the result", 60),
        FailureCategory::Structural => ("the call itself is wrong", 50),
        FailureCategory::ParamMissing => ("an input is missing", 40),
        FailureCategory::GateDenied => ("the policy denies the call", 20),
        FailureCategory::InDoubt => ("the outcome is unknown", 50),
        FailureCategory::GuardError => ("a guard asks for something that the result does not have", 40),
        FailureCategory::ExpandError => ("the list cannot be expanded", 40),
        FailureCategory::Deadline => ("the event did not come", 40),
    }
}

/// A diagnosis in the history of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosed {
    /// The failed node.
    pub node: NodeId,
    /// Number of the failed attempt.
    pub attempt: u32,
    /// Category of the failure.
    pub category: FailureCategory,
    /// Message of the failure without what differs from failure to failure; see [`normalised`].
    pub message: String,
    /// The cause.
    pub cause: String,
    /// The proposed level.
    pub level: u8,
    /// The confidence, in percent.
    pub confidence: u8,
    /// `true` if the level was tried and mended the failure; `None` while that is open, and if the level was not tried.
    pub mended: Option<bool>,
}

/// What came of the diagnoses of a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiagnosisScore {
    /// Diagnoses.
    pub made: u32,
    /// Diagnoses with a level that was tried to its end.
    pub tried: u32,
    /// Tried levels that mended the failure: the node was executed next, or for level 3 all outputs were.
    pub mended: u32,
    /// Sum of the squared errors of the confidences of tried diagnoses, in ten-thousandths.
    pub squared_errors: u64,
}

impl DiagnosisScore {
    /// Mean squared error of the confidences: 0 for a diagnoser that knows, 0.25 for one that always says a half (Brier 1950).
    /// `None` if no level was tried.
    pub fn brier(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.squared_errors as f64 / (f64::from(self.tried) * 10_000.0))
    }

    fn settle(&mut self, confidence: u8, mended: bool) {
        let expected = if mended { i64::from(CERTAIN) } else { 0 };
        self.tried += 1;
        self.mended += u32::from(mended);
        self.squared_errors += (i64::from(confidence) - expected).unsigned_abs().pow(2);
    }
}

/// The diagnostic context of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Diagnoses {
    history: VecDeque<Diagnosed>,
    scores: BTreeMap<FailureCategory, DiagnosisScore>,
    open: BTreeMap<NodeId, Open>,
}

/// A diagnosis whose outcome is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    category: FailureCategory,
    level: u8,
    confidence: u8,
    is_tried: bool,
}

impl Diagnoses {
    /// True if the last failure of the node was the same. Failures without words are never the same.
    fn recurs(&self, node: &NodeId, failure: &Failure) -> bool {
        let last = self.history.iter().rev().find(|made| made.node == *node);
        let message = normalised(&failure.message);
        last.is_some_and(|last| {
            !message.is_empty() && last.category == failure.category && last.message == message
        })
    }

    pub(super) fn add(&mut self, made: Diagnosed) {
        self.settle(&made.node, false);
        let Diagnosed { category, level, confidence, .. } = made;
        self.scores.entry(category).or_default().made += 1;
        self.open.insert(made.node.clone(), Open { category, level, confidence, is_tried: false });
        if self.history.len() == DIAGNOSES_KEPT_MAX {
            self.history.pop_front();
        }
        self.history.push_back(made);
    }

    /// Notes a transition of a node: the level that is tried, or the outcome.
    pub(super) fn moved(&mut self, node: &NodeId, to: NodeState, reason: &TransitionReason) {
        let Some(open) = self.open.get_mut(node) else { return };
        match (to, reason) {
            (NodeState::Pending, TransitionReason::Retry) => open.is_tried |= open.level == 1,
            (NodeState::Pending, TransitionReason::Patched) => open.is_tried |= open.level == 2,
            (NodeState::Executed, _) => self.settle(node, true),
            // A failed node waits for a new version of the plan if the diagnosis asked for one.
            (NodeState::Failed, _) if open.level == 3 => {}
            (NodeState::Failed | NodeState::Cancelled | NodeState::Skipped, _) => {
                self.open.remove(node);
            }
            _ => {}
        }
    }

    /// Notes a new version of the plan by the planner.
    pub(super) fn replanned(&mut self) {
        self.open.values_mut().filter(|open| open.level == 3).for_each(|open| open.is_tried = true);
    }

    /// Ends the open diagnosis of a node, whose level mended the failure or did not.
    pub(super) fn settle(&mut self, node: &NodeId, mended: bool) {
        let Some(open) = self.open.remove(node).filter(|open| open.is_tried) else { return };
        self.scores.entry(open.category).or_default().settle(open.confidence, mended);
        if let Some(made) = self.history.iter_mut().rev().find(|made| made.node == *node) {
            made.mended = Some(mended);
        }
    }
}

impl Run {
    /// The diagnoses of the run, the oldest first, at most [`DIAGNOSES_KEPT_MAX`].
    pub fn diagnoses(&self) -> impl DoubleEndedIterator<Item = &Diagnosed> {
        self.diagnoses.history.iter()
    }

    /// What came of the diagnoses so far, by category. New versions of the plan are judged once the run has ended.
    pub fn diagnosis_scores(&self) -> BTreeMap<FailureCategory, DiagnosisScore> {
        let mut scores = self.diagnoses.scores.clone();
        let is_over = self.counts.live == 0 && !self.replan.is_pending;
        let replans = self.diagnoses.open.values().filter(|open| is_over && open.is_tried && open.level == 3);
        let mended = self.outputs_settled();
        replans.for_each(|open| scores.entry(open.category).or_default().settle(open.confidence, mended));
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(node: &str, level: u8, confidence: u8) -> Diagnosed {
        let (category, attempt) = (FailureCategory::Timeout, 1);
        let (message, cause) = ("slow".to_owned(), String::new());
        Diagnosed { node: node.into(), attempt, category, message, cause, level, confidence, mended: None }
    }

    #[test]
    fn a_diagnosis_is_scored_by_what_came_of_its_own_level() {
        let retried = (NodeState::Pending, TransitionReason::Retry);
        let patched = (NodeState::Pending, TransitionReason::Patched);
        let done = (NodeState::Executed, TransitionReason::Ok);
        let failed = (NodeState::Failed, TransitionReason::Category(FailureCategory::Timeout));
        for (level, moves, again, expected) in [
            (1, vec![retried.clone(), done.clone()], false, (1, 1, 400)),
            (1, vec![retried.clone()], true, (1, 0, 6_400)),
            (1, vec![patched.clone(), done.clone()], false, (0, 0, 0)),
            (2, vec![patched, done.clone()], false, (1, 1, 400)),
            (2, vec![failed.clone()], false, (0, 0, 0)),
            (1, vec![done], false, (0, 0, 0)),
        ] {
            let mut diagnoses = Diagnoses::default();
            diagnoses.add(made("a", level, 80));
            for (to, reason) in &moves {
                diagnoses.moved(&"a".into(), *to, reason);
            }
            if again {
                diagnoses.add(made("a", level, 80));
            }
            let score = diagnoses.scores[&FailureCategory::Timeout];
            assert_eq!((score.tried, score.mended, score.squared_errors), expected, "{level} {moves:?}");
        }
    }

    #[test]
    fn the_history_is_bounded_and_the_scores_count_all() {
        let mut diagnoses = Diagnoses::default();
        (0..DIAGNOSES_KEPT_MAX + 5).for_each(|_| diagnoses.add(made("a", 1, 50)));
        assert_eq!(diagnoses.history.len(), DIAGNOSES_KEPT_MAX);
        assert_eq!(diagnoses.scores[&FailureCategory::Timeout].made as usize, DIAGNOSES_KEPT_MAX + 5);
    }

    #[test]
    fn a_brier_score_is_the_mean_of_the_squared_errors() {
        let mut score = DiagnosisScore::default();
        assert_eq!(score.brier(), None);
        score.settle(80, true);
        score.settle(60, false);
        assert_eq!(score.brier(), Some(0.2));
    }
}
