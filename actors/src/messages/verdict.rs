use ostler_kernel::evaluation::{ScoreError, Verdict, Weights, evaluate};
use ostler_kernel::event::Evaluated;
use ostler_kernel::id::{RunId, Ticks};
use ostler_kernel::port::{JournalError, RunRow};

use crate::base::error::RunError;

/// A person's verdict on a closed run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictRequest {
    /// Quality in thousandths; `None` leaves it as it is.
    pub quality_pm: Option<u16>,
    /// Adherence in thousandths; `None` leaves it as it is.
    pub adherence_pm: Option<u16>,
    /// The person's name, up to [`BY_BYTES_MAX`](crate::BY_BYTES_MAX) bytes.
    pub by: String,
    /// A note, up to [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX) bytes.
    pub note: String,
}

/// The reason why a verdict was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EvaluationError {
    /// The verdict has no score.
    #[error("a verdict says something of quality or of adherence: give one of them, 0 to 1")]
    Nothing,
    /// A score is out of range.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// The run is still open.
    #[error("run {0} is not over: it can be judged when it is")]
    NotOver(RunId),
    /// The run has no evaluation: it did nothing, or was cancelled.
    #[error("run {0} was not evaluated: it did nothing, or was cancelled")]
    NotEvaluated(RunId),
    /// The run cannot be read, or the verdict cannot be recorded.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The journal refused the verdict.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

pub(crate) struct Said {
    pub(crate) request: VerdictRequest,
    pub(crate) weights: Weights,
}

impl Said {
    /// True if the verdict equals the last one.
    pub(crate) fn repeats(&self, verdicts: &[(Ticks, Verdict)]) -> bool {
        let VerdictRequest { quality_pm, adherence_pm, by, note } = &self.request;
        verdicts.last().is_some_and(|(_, last)| {
            (last.quality, last.adherence, &last.by, &last.note) == (*quality_pm, *adherence_pm, by, note)
        })
    }

    /// The record of the verdict, for a run with the row.
    pub(crate) fn verdict(self, row: &RunRow) -> Result<Verdict, EvaluationError> {
        let VerdictRequest { quality_pm, adherence_pm, by, note } = self.request;
        let known = row.evaluated.ok_or(EvaluationError::NotEvaluated(row.run))?;
        let scores = known.scores.with_judgement(quality_pm, adherence_pm);
        let evaluated = evaluate(scores, &self.weights).unwrap_or(Evaluated { scores, ..known });
        let (run, agent) = (row.run, row.named_agent().cloned());
        Ok(Verdict { run, agent, quality: quality_pm, adherence: adherence_pm, evaluated, by, note })
    }
}
