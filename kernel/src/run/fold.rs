//! Rebuilding a run from its records.

use std::sync::Arc;

use super::{Run, RunOutcome};
use crate::event::{ChangeCause, Event, RunOpened};
use crate::id::{RunId, Ticks};
use crate::json::Json;
use crate::plan::Plan;
use crate::port::{Position, Recorded, Seq};

/// A run as of one of its records.
#[derive(Debug, Clone)]
pub struct FoldedRun {
    /// The first record.
    pub opened: RunOpened,
    /// Time of the first record.
    pub opened_at: Ticks,
    /// State of the run.
    pub run: Run,
    /// Outcome of a closed run.
    pub closed: Option<RunOutcome>,
    /// Reason for parking the run; `None` if the run is not parked.
    pub parked: Option<String>,
    /// The client's credits are used up: nothing more of the run starts.
    pub out_of_credit: bool,
    /// The last record that is applied.
    pub last: Seq,
    /// Position of this record in the journal.
    pub position: Position,
}

/// Records that do not make a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFoldError {
    /// The first record is not the opening of the run.
    #[error("run {0} has no first record")]
    Unopened(RunId),
    /// A record does not fit the run by the earlier records.
    #[error("run {run}, record {seq}: {what}")]
    Illegal {
        /// The run.
        run: RunId,
        /// Sequence number of the record.
        seq: u64,
        /// Description of the problem.
        what: String,
    },
}

/// Reads a plan from its JSON. May answer from a cache: many runs share a plan.
pub type ReadPlan<'a> = dyn Fn(&Json) -> Result<Arc<Plan>, serde_json::Error> + 'a;

/// Rebuilds a run, one record after the other.
#[derive(Debug, Clone)]
pub struct RunFold {
    of: RunId,
    folded: Option<FoldedRun>,
}

impl RunFold {
    /// Starts with no record of the run.
    pub fn of(run: RunId) -> RunFold {
        RunFold { of: run, folded: None }
    }

    /// Applies the next record; `read` parses the plan of the first one. After an error the fold must be dropped.
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
            // An operator's undo reopens a closed run until the undo ends.
            Event::PlanVersion(version) if version.cause == ChangeCause::UndoOperator => folded.closed = None,
            Event::Parked { reason } => folded.parked = Some(reason.clone()),
            Event::RunRecovered { .. } => folded.parked = None,
            Event::OutOfCredit { out } => folded.out_of_credit = *out,
            _ => {}
        }
        (folded.last, folded.position) = (record.seq, record.position);
        Ok(())
    }

    /// The run as of the last record; `None` before the first.
    pub fn so_far(&self) -> Option<&FoldedRun> {
        self.folded.as_ref()
    }

    /// The run as of the last record. Fails if there was none.
    pub fn end(self) -> Result<FoldedRun, RunFoldError> {
        self.folded.ok_or(RunFoldError::Unopened(self.of))
    }
}
