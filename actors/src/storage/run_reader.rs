//! Reads runs and streams from the journal.

use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{Journal, JournalError, Recorded, RunRow, RunRowStatus, Seq, StreamId};
use ostler_kernel::run::{FoldedRun, RunFold};

use crate::base::error::RunError;
use crate::storage::journal_client::JournalClient;
use crate::storage::plans::Plans;

pub(crate) const READ_AT_ONCE: usize = 1_024;

/// Passes the records of a stream to `take` in order, all or up to `at`.
pub(crate) fn each<E: From<JournalError>>(
    journal: &dyn Journal,
    stream: StreamId,
    at: Option<Seq>,
    mut take: impl FnMut(&Recorded) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = Seq(0);
    loop {
        let records = journal.read(stream, after, READ_AT_ONCE)?;
        for record in &records {
            if at.is_some_and(|at| record.seq > at) {
                return Ok(());
            }
            take(record)?;
        }
        // A page may be short because its records are large.
        let Some(last) = records.last() else { return Ok(()) };
        after = last.seq;
    }
}

pub(crate) fn last(journal: &dyn Journal, stream: StreamId) -> Result<Seq, JournalError> {
    let mut last = Seq(0);
    while let Some(record) = journal.read(stream, last, READ_AT_ONCE)?.last() {
        last = record.seq;
    }
    Ok(last)
}

/// The run whose attempt opened a run; `None` for a run that a caller submitted.
fn parent_of(journal: &dyn Journal, run: RunId) -> Result<Option<RunId>, JournalError> {
    let Some(row) = journal.run(run)? else { return Ok(None) };
    // The terms are the second record.
    let records = journal.read(StreamId::run(&row.client, run), Seq(1), 1)?;
    Ok(match records.first().map(|record| &record.event) {
        Some(Event::RunTerms(terms)) => terms.parent.as_ref().map(|parent| parent.run),
        _ => None,
    })
}

/// The runs above a run, nearest first, each opened by an attempt of the next. An error ends the list.
pub(crate) fn ancestors(
    journal: &dyn Journal,
    run: RunId,
) -> impl Iterator<Item = Result<RunId, JournalError>> {
    let mut below = Some(run);
    std::iter::from_fn(move || {
        let above = parent_of(journal, below?).transpose();
        below = above.as_ref().and_then(|above| above.as_ref().ok()).copied();
        above
    })
}

/// The runs that attempts of a run opened.
pub(crate) fn opened_by(runs: &RunReader, run: RunId) -> Result<Vec<RunId>, JournalError> {
    let Some(row) = runs.journal.run(run)? else { return Ok(Vec::new()) };
    let mut opened = Vec::new();
    let log = StreamId::attempts(&row.client, run);
    each(&**runs.journal, log, None, |record| -> Result<(), JournalError> {
        if let Event::ChildRun { run, .. } = record.event {
            opened.push(run);
        }
        Ok(())
    })?;
    Ok(opened)
}

pub(crate) struct RunReader {
    pub(crate) journal: Arc<JournalClient>,
    pub(crate) plans: Plans,
}

impl RunReader {
    /// Folds the records of a run, all or up to `at`. Each must follow from those before it; `see` is shown each.
    pub(crate) fn fold(
        &self,
        row: &RunRow,
        at: Option<Seq>,
        mut see: impl FnMut(&Recorded),
    ) -> Result<FoldedRun, RunError> {
        let mut fold = RunFold::of(row.run);
        let stream = StreamId::run(&row.client, row.run);
        let read = each(&**self.journal, stream, at, |record| -> Result<(), RunError> {
            see(record);
            Ok(fold.record(record, &|plan| self.plans.read(plan))?)
        });
        read.map_err(|error| match (&row.status, error) {
            // The remains of a quarantined run are readable only in part.
            (RunRowStatus::Quarantined(why), RunError::Journal(JournalError::Damaged { .. })) => {
                RunError::Quarantined(why.clone())
            }
            (_, error) => error,
        })?;
        Ok(fold.end()?)
    }
}
