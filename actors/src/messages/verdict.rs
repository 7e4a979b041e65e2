//! Verdicts of people on runs.

use ostler_kernel::evaluation::{ScoreError, Verdict, Weights, evaluate};
use ostler_kernel::event::Evaluated;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::{JournalError, RunRow};

use crate::base::error::RunError;

/// What a person says of a run that is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictRequest {
    /// How good what came of it is, in thousandths; `None`: as it was.
    pub quality_pm: Option<u16>,
    /// Whether it is what was asked for, in thousandths; `None`: as it was.
    pub adherence_pm: Option<u16>,
    /// Who says so: up to [`BY_BYTES_MAX`](crate::BY_BYTES_MAX) bytes.
    pub by: String,
    /// In their words: up to [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX) bytes.
    pub note: String,
}

/// Why a run was not judged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EvaluationError {
    /// Nothing is said of it.
    #[error("a verdict says something of quality or of adherence: give one of them, 0 to 1")]
    Nothing,
    /// A score is none.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// It goes on.
    #[error("run {0} is not over: it can be judged when it is")]
    NotOver(RunId),
    /// It did nothing that could be judged, or was cancelled.
    #[error("run {0} was not evaluated: it did nothing, or was cancelled")]
    NotEvaluated(RunId),
    /// It is not to be had, or what is said cannot be written down.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A person's word, on its way to the journal.
pub(crate) struct Said {
    pub(crate) request: VerdictRequest,
    pub(crate) weights: Weights,
}

impl Said {
    /// Whether it is what was said last.
    pub(crate) fn repeats(&self, verdicts: &[(Ticks, Verdict)]) -> bool {
        let VerdictRequest { quality_pm, adherence_pm, by, note } = &self.request;
        verdicts.last().is_some_and(|(_, last)| {
            (last.quality, last.adherence, &last.by, &last.note) == (*quality_pm, *adherence_pm, by, note)
        })
    }

    /// What is written down of it, for a run that stands like this.
    pub(crate) fn verdict(self, row: &RunRow) -> Result<Verdict, EvaluationError> {
        let VerdictRequest { quality_pm, adherence_pm, by, note } = self.request;
        let known = row.evaluated.ok_or(EvaluationError::NotEvaluated(row.run))?;
        let scores = known.scores.with_judgement(quality_pm, adherence_pm);
        let evaluated = evaluate(scores, &self.weights).unwrap_or(Evaluated { scores, ..known });
        let (run, agent) = (row.run, row.named_agent().cloned());
        Ok(Verdict { run, agent, quality: quality_pm, adherence: adherence_pm, evaluated, by, note })
    }
}
