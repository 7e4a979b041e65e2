//! Runs that nobody drives: setting one aside, cancelling one, doing without a node of one.

use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus, Seq, StreamBatch, StreamId};
use ostler_kernel::run::{Canceller, FoldedRun, Operation, RunInput};

use crate::attempts::attempt_table::{AttemptKey, Ended};
use crate::base::error::RunError;
use crate::services::Services;
use crate::storage::disk_space::ROOM;
use crate::storage::run_reader;

/// Why a run is set aside that somebody wanted to come to rest.
pub const CHECKPOINTED: &str = "it was checkpointed";

/// Sets a run aside: it is not driven any more until somebody asks for it by name. Gives where that is recorded.
pub(crate) fn park(services: &Services, row: &RunRow, reason: String) -> Result<Position, JournalError> {
    let last = run_reader::last(&*services.journal, StreamId::run(&row.client, row.run))?;
    if last == Seq(0) {
        // Its opening was undone: there is nothing to set aside, and who waits for it hears that.
        return Ok(row.position);
    }
    // It has come to its end since somebody wanted that.
    let known = services.journal.run(row.run)?;
    if let Some(over) = known.filter(|row| matches!(row.status, RunRowStatus::Closed(_))) {
        return Ok(over.position);
    }
    append(services, row, last, vec![Event::Parked { reason }])
}

/// Cancels a run of which no attempt is under way in this process, and closes it. Gives where that is recorded;
/// `None` if there is nothing left to cancel and it only waits to be closed.
pub(crate) fn cancel(services: &Services, row: &RunRow, by: Canceller) -> Result<Option<Position>, RunError> {
    alone(|| {
        let FoldedRun { mut run, last, .. } = open(services, row)?;
        match services.within(row.run, &mut run, |run, cx| run.cancel_and_close(cx, by)) {
            Some(events) => Ok(Some(append(services, row, last, events)?)),
            None => Ok(None),
        }
    })
}

/// Does something with the records of a run, once more if somebody wrote to it meanwhile: the end of one of its attempts, or what
/// somebody else wants of it.
fn alone<T>(act: impl Fn() -> Result<T, RunError>) -> Result<T, RunError> {
    for _ in 1..TRIES_MAX {
        match act() {
            Err(RunError::Journal(JournalError::Conflict { .. })) => {}
            done => return done,
        }
    }
    act()
}

/// Times that is tried.
const TRIES_MAX: u32 = 8;

/// Cancels or skips a node of a run of which no attempt is under way in this process, and the runs that it opened. Gives where
/// that is recorded.
pub(crate) fn operate(
    services: &Arc<Services>,
    row: &RunRow,
    operation: &Operation,
) -> Result<Position, RunError> {
    alone(|| {
        let FoldedRun { mut run, last, .. } = open(services, row)?;
        run.check_operation(operation, &services.settings())?;
        let input = RunInput::Operator(operation.clone());
        let events = services.within(row.run, &mut run, |run, cx| run.decide(cx, input));
        let given_up = run.abandoned_work(&events).collect();
        let position = append(services, row, last, events)?;
        services.cancel_children(&row.client, row.run, given_up);
        Ok(position)
    })
}

/// An attempt ended whose run nobody drives: what it came to is written down, so that it is neither done again nor in doubt, and
/// what it cost is not forgotten. Work that only looks or computes is stopped with its run, and is done again: only what
/// that cost counts.
pub(crate) fn ended(services: &Arc<Services>, key: &AttemptKey) {
    let Some((ended, acts)) = services.effects.ended_acting(key) else { return };
    match alone(|| record(services, key, ended.clone(), acts)) {
        Ok(Some(upto)) => {
            services.effects.ordered(key.clone(), upto);
            services.sweep_effects_when_durable();
            services.left_behind(key);
            return;
        }
        // It was over before, or is not to be changed any more.
        Ok(None) | Err(RunError::Over) => {}
        Err(RunError::Journal(JournalError::Full(_))) => {
            let (services, key) = (Arc::clone(services), key.clone());
            tokio::spawn(async move {
                tokio::time::sleep(ROOM).await;
                services.unheard(key);
            });
            return;
        }
        Err(error) => {
            tracing::warn!(run = %key.run, node = %key.node, %error, "the end of an attempt could not be written down");
        }
    }
    services.effects.forget(key);
    services.left_behind(key);
}

/// Gives where that is recorded, if there was anything to record.
fn record(
    services: &Services,
    key: &AttemptKey,
    ended: Ended,
    acts: bool,
) -> Result<Option<Position>, RunError> {
    let Some(row) = services.journal.run(key.run)? else { return Ok(None) };
    if !matches!(row.status, RunRowStatus::Open | RunRowStatus::Parked(_)) {
        return Ok(None);
    }
    let FoldedRun { mut run, last, .. } = open(services, &row)?;
    let was_stopped = !acts && matches!(ended.outcome, Outcome::Failed(_));
    let result = ended.result_of(key);
    let events = if was_stopped {
        vec![Event::LateResult(result)]
    } else {
        // How sure it is nobody has looked at: where people watch, they are asked.
        let unsure = run.plan().policy.oversight.is_some() && matches!(result.outcome, Outcome::Ok(_));
        let input = if unsure { RunInput::Unsure(result) } else { RunInput::Result(result) };
        services.within(key.run, &mut run, |run, cx| run.decide(cx, input))
    };
    Ok(Some(append(services, &row, last, events)?))
}

/// A run that is not over.
fn open(services: &Services, row: &RunRow) -> Result<FoldedRun, RunError> {
    let folded = run_reader::fold(services, row, None, |_| {})?;
    if folded.closed.is_some() { Err(RunError::Over) } else { Ok(folded) }
}

fn append(
    services: &Services,
    row: &RunRow,
    expected: Seq,
    events: Vec<Event>,
) -> Result<Position, JournalError> {
    let (stream, at_ms) = (StreamId::run(&row.client, row.run), services.clock.now());
    let told: Vec<Telemetry> = events.iter().filter_map(Telemetry::of).collect();
    let position = services.append(StreamBatch { stream, expected, at_ms, events })?;
    for event in told {
        services.measures.tell(event, Some(&row.agent), Some(row.run));
    }
    Ok(position)
}
