//! Runs that nobody drives: setting one aside, cancelling one, doing without a node of one.

use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::port::{JournalError, Position, RunRow, Seq, StreamBatch, StreamId};
use ostler_kernel::run::{Folded, Input, Operation};

use crate::error::RunError;
use crate::services::Services;
use crate::stream;

/// Why a run is set aside that somebody wanted to come to rest.
pub const CHECKPOINTED: &str = "it was checkpointed";

/// Sets a run aside: it is not driven any more until somebody asks for it by name. Gives where that is recorded.
pub(crate) fn park(services: &Services, row: &RunRow, reason: String) -> Result<Position, JournalError> {
    let last = stream::last(&*services.journal, StreamId::run(&row.client, row.run))?;
    append(services, row, last, vec![Event::Parked { reason }])
}

/// Cancels a run of which no attempt is under way in this process, and closes it. Gives where that is recorded;
/// `None` if there is nothing left to cancel and it only waits to be closed.
pub(crate) fn cancel(services: &Services, row: &RunRow) -> Result<Option<Position>, RunError> {
    let Folded { mut run, last, .. } = open(services, row)?;
    match services.within(row.run, &mut run, |run, cx| run.cancel_at_rest(cx)) {
        Some(events) => Ok(Some(append(services, row, last, events)?)),
        None => Ok(None),
    }
}

/// Cancels or skips a node of a run of which no attempt is under way in this process, and the runs that it opened. Gives where
/// that is recorded.
pub(crate) fn operate(
    services: &Arc<Services>,
    row: &RunRow,
    operation: Operation,
) -> Result<Position, RunError> {
    let Folded { mut run, last, .. } = open(services, row)?;
    run.check_operation(&operation)?;
    let events = services.within(row.run, &mut run, |run, cx| run.decide(cx, Input::Operator(operation)));
    let given_up = run.given_up(&events).collect();
    let position = append(services, row, last, events)?;
    services.cancel_children(&row.client, row.run, given_up);
    Ok(position)
}

/// A run that is not over.
fn open(services: &Services, row: &RunRow) -> Result<Folded, RunError> {
    let folded = stream::fold(services, row, None, |_| {})?;
    if folded.closed.is_some() { Err(RunError::Over) } else { Ok(folded) }
}

fn append(
    services: &Services,
    row: &RunRow,
    expected: Seq,
    events: Vec<Event>,
) -> Result<Position, JournalError> {
    let (stream, at_ms) = (StreamId::run(&row.client, row.run), services.clock.now());
    services.journal.append(vec![StreamBatch { stream, expected, at_ms, events }])
}
