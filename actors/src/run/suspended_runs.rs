//! Changes of inactive runs: suspend, cancel, skip a node, record late results.

use std::sync::Arc;

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Rule;
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus, Seq, StreamId};
use ostler_kernel::run::{
    AbandonedWork, Canceller, FoldedRun, Operation, ReportedCalls, ResolutionError, RunInput,
    refused_candidate,
};
use serde_json::Value;

use crate::base::attempt_end::{Ended, ModelCalls};
use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::base::lock::lock;
use crate::base::paused_time::SPACE_RETRY;
use crate::messages::wait_answer::WaitAnswerRequest;
use crate::run::decided::Decided;
use crate::run::goal;
use crate::run::lost_calls::RecordedCalls;
use crate::run::services::RunServices;
use crate::storage::run_reader;

/// Reason of a suspension on request.
pub const CHECKPOINTED: &str = "it was checkpointed";

/// Ends the driving of a run: records the ends of its attempts, and wakes callers by closing their signal.
pub(crate) fn release(services: &Arc<RunServices>, run: RunId) {
    services.active_runs.remove(run);
    services.attempts.of_run(run).iter().for_each(|key| ended(services, key));
    services.run_budgets.release(run);
    services.call_accounts.forget(run);
    services.step_logs.forget(run);
    services.gatekeeper.totals.forget(run, |run| services.active_runs.has(run));
    services.journal.status.notify_changed();
}

/// Suspends a run and returns the position of the record. The run is not driven again until it is resumed by name.
pub(crate) fn park(
    services: &Arc<RunServices>,
    row: &RunRow,
    reason: String,
) -> Result<Position, JournalError> {
    let last = run_reader::last(&**services.journal, StreamId::run(&row.client, row.run))?;
    if last == Seq(0) {
        // The opening was rolled back: nothing is left to suspend.
        return Ok(row.position);
    }
    // The run ended after the suspension was requested.
    let known = services.journal.run(row.run)?;
    if let Some(over) = known.filter(|row| matches!(row.status, RunRowStatus::Closed(_))) {
        return Ok(over.position);
    }
    append(services, row, last, vec![Event::Parked { reason }], Vec::new())
}

/// Cancels and closes a run without attempts in the process. Returns the position of the record; `None` if it only
/// waits to be closed.
pub(crate) fn cancel(
    services: &Arc<RunServices>,
    row: &RunRow,
    by: Canceller,
) -> Result<Option<Position>, RunError> {
    alone(services, || {
        let (FoldedRun { mut run, last, .. }, called) = open(services, row)?;
        match services.kernel.without_planner(row.run, &mut run, |run, cx| run.cancel_and_close(cx, by)) {
            Some(events) => Ok(Some(append(services, row, last, [called, events].concat(), Vec::new())?)),
            None => Ok(None),
        }
    })
}

/// Reads an inactive run and appends to it, one caller at a time.
///
/// A driver that is ending, or has just resumed the run, may still append in between; the append then conflicts, and the
/// decision is made again from what was read anew.
fn alone<T>(services: &RunServices, act: impl Fn() -> Result<T, RunError>) -> Result<T, RunError> {
    let _alone = lock(&services.suspended_writes);
    for _ in 1..READS_MAX {
        match act() {
            Err(RunError::Journal(JournalError::Conflict { .. })) => {}
            done => return done,
        }
    }
    act()
}

/// Reads of a run for one append, at most.
const READS_MAX: u32 = 8;

/// Cancels or skips a node of a run without attempts in the process, and cancels its child runs. Returns the position
/// of the record.
pub(crate) fn operate(
    services: &Arc<RunServices>,
    row: &RunRow,
    operation: &Operation,
) -> Result<Position, RunError> {
    alone(services, || {
        let (FoldedRun { mut run, last, .. }, called) = open(services, row)?;
        run.check_operation(operation, &services.kernel.settings_of(&run))?;
        let input = RunInput::Operator(operation.clone());
        let events = services.kernel.without_planner(row.run, &mut run, |run, cx| run.decide(cx, input));
        let given_up =
            run.abandoned_work(&events, |node| services.active_runs.has_opened(row.run, node)).collect();
        Ok(append(services, row, last, [called, events].concat(), given_up)?)
    })
}

/// Reopens a closed run and begins its undo. Returns the position of the record.
pub(crate) fn undo(
    services: &Arc<RunServices>,
    row: &RunRow,
    intent: Option<u8>,
) -> Result<Position, RunError> {
    alone(services, || {
        let FoldedRun { mut run, last, .. } = services.runs.fold(row, None, |_| {})?;
        run.check_undo()?;
        let input = RunInput::Operator(Operation::Undo { intent });
        let mut events = services.kernel.without_planner(row.run, &mut run, |run, cx| run.decide(cx, input));
        // The index marks the run as open because of this record.
        events.push(Event::RunRecovered { count: 0 });
        Ok(append(services, row, last, events, Vec::new())?)
    })
}

/// Records that nothing is left of the unknown effect of a node of a closed run. Returns the position of the record, or of the run's
/// last record if the node is settled already.
pub(crate) fn settle_by_hand(
    services: &Arc<RunServices>,
    row: &RunRow,
    node: &NodeId,
    by: &str,
) -> Result<Position, RunError> {
    alone(services, || {
        let FoldedRun { run, last, position, closed, .. } = services.runs.fold(row, None, |_| {})?;
        if closed.is_none() {
            return Err(ResolutionError::GoesOn { node: node.clone() }.into());
        }
        match run.settle_by_hand(node, by.to_owned())? {
            Some(settled) => Ok(append(services, row, last, vec![settled], Vec::new())?),
            None => Ok(position),
        }
    })
}

/// Records an answer to a wait of a run without a driver. Returns the position of the record, or of the run's last record if the
/// answer changes nothing.
pub(crate) fn answer_wait(
    services: &Arc<RunServices>,
    row: &RunRow,
    request: &WaitAnswerRequest,
) -> Result<Position, RunError> {
    alone(services, || {
        let (FoldedRun { mut run, last, position, .. }, called) = open(services, row)?;
        let broken = |rules: &[Rule], value: &Value| services.gatekeeper.broken(rules, value);
        let input = request.clone().into_input(&run, services.journal.now(), &broken);
        let events = services.kernel.without_planner(row.run, &mut run, |run, cx| run.decide(cx, input));
        let abandoned =
            run.abandoned_work(&events, |node| services.active_runs.has_opened(row.run, node)).collect();
        match [called, events].concat() {
            events if events.is_empty() => Ok(position),
            events => Ok(append(services, row, last, events, abandoned)?),
        }
    })
}

/// Records the result of an attempt of an inactive run, so that the attempt neither runs again nor is in doubt, and its
/// cost counts. Pure work is cancelled with its run and runs again: only its cost counts.
pub(crate) fn ended(services: &Arc<RunServices>, key: &AttemptKey) {
    let Some((ended, acts)) = services.attempts.ended_acting(key) else { return };
    match alone(services, || record(services, key, ended.clone(), acts)) {
        Ok(Some(upto)) => {
            services.attempts.ordered(key.clone(), upto);
            services.attempts.sweep_when_durable();
            services.run_budgets.abandon(key);
            return;
        }
        // The run was over before, or accepts no changes.
        Ok(None) | Err(RunError::Over) => {}
        Err(RunError::Journal(JournalError::Full(_))) => {
            let (services, key) = (Arc::clone(services), key.clone());
            tokio::spawn(async move {
                tokio::time::sleep(SPACE_RETRY).await;
                services.attempts.undelivered_result(key);
            });
            return;
        }
        Err(error) => {
            tracing::warn!(run = %key.run, node = %key.node, %error, "the end of an attempt could not be written down");
        }
    }
    services.attempts.forget(key);
    services.run_budgets.abandon(key);
}

/// Returns the position of the record, if one was needed.
fn record(
    services: &Arc<RunServices>,
    key: &AttemptKey,
    ended: Ended,
    acts: bool,
) -> Result<Option<Position>, RunError> {
    let Some(row) = services.journal.run(key.run)? else { return Ok(None) };
    if !matches!(row.status, RunRowStatus::Open | RunRowStatus::Parked(_)) {
        return Ok(None);
    }
    let (FoldedRun { mut run, last, .. }, mut called) = open(services, &row)?;
    let now = services.journal.now();
    let ModelCalls { ended: calls, verdicts, rung, refused, .. } = ended.model_calls.clone();
    let reported = ReportedCalls { calls, verdicts, rung };
    called.extend(run.record_calls(now, &key.node, key.attempt, reported));
    called.extend(
        refused.and_then(|output| refused_candidate(&key.node, key.attempt, &ended.outcome, *output)),
    );
    // Nobody judges the answer of a control node here: the call is made again.
    let is_unjudged = run.goal().is_some_and(|goal| goal.role(&key.node).is_some());
    let was_stopped = !acts && (is_unjudged || matches!(ended.outcome, Outcome::Failed(_)));
    let result = ended.result_of(key);
    let events = if was_stopped {
        vec![Event::LateResult(result)]
    } else {
        // The confidence was not checked, so people are asked where they watch.
        let unsure = run.plan().policy.oversight.is_some() && matches!(result.outcome, Outcome::Ok(_));
        let input = if unsure { RunInput::Unsure(result) } else { RunInput::Result(result) };
        services.kernel.without_planner(key.run, &mut run, |run, cx| run.decide(cx, input))
    };
    let abandoned =
        run.abandoned_work(&events, |node| services.active_runs.has_opened(row.run, node)).collect();
    Ok(Some(append(services, &row, last, [called, events].concat(), abandoned)?))
}

/// The run, and the records of calls that it misses, already applied.
fn open(services: &RunServices, row: &RunRow) -> Result<(FoldedRun, Vec<Event>), RunError> {
    let mut calls = RecordedCalls::default();
    let mut folded = services.runs.fold(row, None, |record| calls.see(&record.event))?;
    goal::equip(services, &mut folded.run, &folded.opened.scope);
    if folded.closed.is_some() {
        return Err(RunError::Over);
    }
    let called = calls.complete(services, row, &mut folded.run)?;
    Ok((folded, called))
}

fn append(
    services: &Arc<RunServices>,
    row: &RunRow,
    last: Seq,
    events: Vec<Event>,
    abandoned: Vec<AbandonedWork>,
) -> Result<Position, JournalError> {
    let RunRow { agent, client, run, .. } = row;
    Decided { agent, client, run: *run, last, events, abandoned }.append(services)
}
