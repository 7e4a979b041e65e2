//! A run as its records tell it.

use std::sync::Arc;

use super::{Run, RunOutcome};
use crate::event::{Event, RunOpened};
use crate::id::{RunId, Ticks};
use crate::json::Json;
use crate::plan::Plan;
use crate::port::{Position, Recorded, Seq};

/// A run, folded from its records up to some place.
#[derive(Debug, Clone)]
pub struct FoldedRun {
    /// How it was opened.
    pub opened: RunOpened,
    /// When.
    pub opened_at: Ticks,
    /// Where it stands.
    pub run: Run,
    /// How it ended, if it has.
    pub closed: Option<RunOutcome>,
    /// Why it was set aside, if it was and nobody took it up since.
    pub parked: Option<String>,
    /// Nothing more of it starts, because the credits of its client are used up.
    pub out_of_credit: bool,
    /// The last record it is folded from.
    pub last: Seq,
    /// Where that record stands in the journal.
    pub position: Position,
}

/// Why records are no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFoldError {
    /// They do not begin with its opening.
    #[error("run {0} has no first record")]
    Unopened(RunId),
    /// A record does not follow from those before it.
    #[error("run {run}, record {seq}: {what}")]
    Illegal {
        /// Which run.
        run: RunId,
        /// Which record.
        seq: u64,
        /// What is wrong.
        what: String,
    },
}

/// Gives the plan that a text spells.
pub type ReadPlan<'a> = dyn Fn(&Json) -> Result<Arc<Plan>, serde_json::Error> + 'a;

/// Takes in the records of a run, one after the other.
#[derive(Debug, Clone)]
pub struct RunFold {
    of: RunId,
    folded: Option<FoldedRun>,
}

impl RunFold {
    /// Nothing yet of this run.
    pub fn of(run: RunId) -> RunFold {
        RunFold { of: run, folded: None }
    }

    /// Takes in the next record; `read` gives the plan it holds, and may have read that before. After an error the fold is of
    /// no use any more.
    pub fn record(&mut self, record: &Recorded, read: &ReadPlan<'_>) -> Result<(), RunFoldError> {
        let (run, seq) = (self.of, record.seq.0);
        let illegal = |what: String| RunFoldError::Illegal { run, seq, what };
        let Some(folded) = &mut self.folded else {
            let Event::RunOpened(opened) = &record.event else { return Err(RunFoldError::Unopened(run)) };
            let plan =
                read(&opened.plan).map_err(|error| illegal(format!("the plan cannot be read: {error}")))?;
            self.folded = Some(FoldedRun {
                opened: RunOpened::clone(opened),
                opened_at: record.at_ms,
                run: Run::new(plan, opened.seed, record.at_ms),
                closed: None,
                parked: None,
                out_of_credit: false,
                last: record.seq,
                position: record.position,
            });
            return Ok(());
        };
        folded.run.apply(&record.event, record.at_ms).map_err(|step| illegal(step.to_string()))?;
        match &record.event {
            Event::RunClosed { outcome } => folded.closed = Some(*outcome),
            Event::Parked { reason } => folded.parked = Some(reason.clone()),
            Event::RunRecovered { .. } => folded.parked = None,
            Event::OutOfCredit { out } => folded.out_of_credit = *out,
            _ => {}
        }
        (folded.last, folded.position) = (record.seq, record.position);
        Ok(())
    }

    /// What the records so far tell; `None` before the first.
    pub fn so_far(&self) -> Option<&FoldedRun> {
        self.folded.as_ref()
    }

    /// What they tell in the end.
    pub fn end(self) -> Result<FoldedRun, RunFoldError> {
        self.folded.ok_or(RunFoldError::Unopened(self.of))
    }
}
