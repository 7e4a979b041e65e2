//! A run as its records tell it, at any point: read only.

use ostler_kernel::event::{Event, RunOpened};
use ostler_kernel::id::Ticks;
use ostler_kernel::port::{Journal, Position, RunRow, Seq, StreamId};
use ostler_kernel::run::{Report, Run, RunOutcome, Timeline};

use crate::agent::{FoldError, open};
use crate::registry::READ_AT_ONCE;

/// A run, folded from its records.
#[derive(Debug, Clone)]
pub struct RunView {
    /// How it was opened.
    pub opened: RunOpened,
    /// When, in milliseconds since the Unix epoch.
    pub opened_ms: Ticks,
    /// Where it stands.
    pub run: Run,
    /// What it amounts to.
    pub report: Report,
    /// How it ended, if it has.
    pub closed: Option<RunOutcome>,
    /// Why it was set aside, if it was and nobody took it up since.
    pub parked: Option<String>,
    /// The last record it is folded from.
    pub last: Seq,
    /// Where that record stands in the journal.
    pub(crate) position: Position,
}

/// Folds the records of a run, up to `at` (all, if that is `None`). Every record is checked to follow from those
/// before it.
pub(crate) fn fold(journal: &dyn Journal, row: &RunRow, at: Option<Seq>) -> Result<RunView, FoldError> {
    let stream = StreamId::run(&row.client, row.run);
    let mut run: Option<(RunOpened, Run)> = None;
    let mut timeline = Timeline::default();
    let (mut closed, mut parked, mut last, mut position) = (None, None, Seq(0), Position(0));
    'all: loop {
        let records = journal.read(stream, last, READ_AT_ONCE)?;
        if records.is_empty() {
            break;
        }
        for record in records {
            if at.is_some_and(|at| record.seq > at) {
                break 'all;
            }
            (last, position) = (record.seq, record.position);
            timeline.record(&record.event, record.at_ms);
            match (&mut run, &record.event) {
                (None, Event::RunOpened(opened)) => run = Some((opened.clone(), open(opened, record.at_ms)?)),
                (None, _) => return Err(FoldError::Unopened(row.run)),
                (Some((_, run)), event) => {
                    let illegal = |what: String| FoldError::Illegal { run: row.run, seq: last.0, what };
                    run.apply(event, record.at_ms).map_err(|step| illegal(step.to_string()))?;
                }
            }
            match record.event {
                Event::RunClosed { outcome } => closed = Some(outcome),
                Event::Parked { reason } => parked = Some(reason),
                Event::NodeTransition(_) => parked = None,
                _ => {}
            }
        }
    }
    let (opened, run) = run.ok_or(FoldError::Unopened(row.run))?;
    let report = timeline.report(&run);
    Ok(RunView { opened, opened_ms: row.opened_ms, run, report, closed, parked, last, position })
}
