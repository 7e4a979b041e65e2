//! Deciding which runs and clients damage affects.
//!
//! Three kinds of evidence show a loss:
//!
//! 1. A later record of a stream does not continue the record before, by number and chain hash.
//! 2. The index caught up behind the damage, and knows of more records than the journal has.
//! 3. Without such an index, the content of the damaged bytes is unknown. Then every run counts as affected that was not closed
//!    before the damage and has no record behind: its last records may be lost, and resuming the run could repeat work.
//!    The same holds for the step history of unfinished attempts.

use std::collections::{BTreeMap, HashMap};

use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::port::{RunRowStatus, StreamId, StreamKind};

use super::findings::ClientLoss;
use super::indexed_state::IndexedState;
use super::survey::Survey;
use crate::format::lsn::Lsn;
use crate::format::quarantine_list::Quarantine;
use crate::format::stream::run_of;

pub(super) type AffectedRuns = BTreeMap<RunId, String>;

pub(super) fn is_of(stream: &StreamId, runs: &AffectedRuns) -> bool {
    run_of(stream).is_some_and(|run| runs.contains_key(&run))
}

/// The affected runs, without runs moved out of the journal by an earlier repair.
pub(super) fn affected_runs(
    survey: &Survey,
    indexed: Option<&IndexedState>,
    list: &Quarantine,
) -> AffectedRuns {
    let mut runs = AffectedRuns::new();
    let mut add = |stream: &StreamId, why: String| {
        if let Some(run) = run_of(stream) {
            runs.entry(run).or_insert(why);
        }
    };
    for (stream, lsn) in &survey.affected_streams {
        add(stream, format!("records are lost before {lsn}"));
    }
    match indexed {
        Some(indexed) => {
            for (stream, from) in streams_with_lost_end(survey, indexed) {
                add(stream, format!("records from {from} on are lost"));
            }
        }
        None => add_possibly_affected(survey, &mut add),
    }
    runs.retain(|run, _| list.get(run).is_none_or(|one| one.moved == 0));
    runs
}

/// Streams with fewer records than the index knows, and the number of the first lost record.
fn streams_with_lost_end<'a>(
    survey: &'a Survey,
    indexed: &'a IndexedState,
) -> impl Iterator<Item = (&'a StreamId, u64)> {
    let heads = indexed.heads.iter().map(|(stream, head)| (stream, survey.last_seq(stream), head.seq));
    heads.filter(|(_, found, known)| found < known).map(|(stream, found, _)| (stream, found + 1))
}

fn add_possibly_affected(survey: &Survey, add: &mut dyn FnMut(&StreamId, String)) {
    let is_closed = |run: RunId| {
        let row = survey.tables.runs.get(&run);
        row.is_some_and(|row| matches!(row.status, RunRowStatus::Closed(_)))
    };
    let of_runs = survey.heads.iter().filter(|(stream, _)| stream.kind != StreamKind::Attempts);
    for (stream, (_, last)) in of_runs {
        if let (Some(from), Some(false)) = (survey.first_lost_after(*last), run_of(stream).map(is_closed)) {
            add(stream, format!("the run was open, and its last records may be among those lost at {from}"));
        }
    }
    for stream in survey.heads.keys() {
        if let Some(why) = lost_step_history(survey, stream) {
            add(stream, why);
        }
    }
    // Runs with all records in damaged bytes, known only by a guess at the stream's name.
    for damage in survey.damages.iter().filter(|damage| !damage.torn) {
        let all_lost =
            |stream: &&StreamId| survey.last_seq(stream) == 0 && survey.last_seq(&run_stream(stream)) == 0;
        for stream in damage.streams.iter().filter(all_lost) {
            let lsn = Lsn::new(damage.segment, damage.offset);
            add(stream, format!("all records are lost, at {lsn}"));
        }
    }
}

/// The stream of the run owning a stream of attempts; other streams unchanged.
fn run_stream(stream: &StreamId) -> StreamId {
    match stream.kind {
        StreamKind::Attempts => StreamId { kind: StreamKind::Run, ..*stream },
        StreamKind::Run | StreamKind::Client | StreamKind::Pipeline | StreamKind::PipelineLog => *stream,
    }
}

/// The reason if a run may have lost step history: a node was started before the damage and has no result, and no step record
/// stands behind the damage. Resuming the run could repeat completed steps.
fn lost_step_history(survey: &Survey, stream: &StreamId) -> Option<String> {
    let run = run_of(stream).filter(|_| stream.kind == StreamKind::Run)?;
    let started = survey.obligations.unfinished.get(&run)?.values().min()?;
    let attempts = StreamId { kind: StreamKind::Attempts, ..*stream };
    let last = survey.heads.get(&attempts).map_or(*started, |(_, last)| *last.max(started));
    let from = survey.first_lost_after(last)?;
    Some(format!("step records of unfinished attempts may be among those lost at {from}"))
}

/// The clients with lost records. `names` maps streams to the names in readable records.
pub(super) fn client_losses(
    survey: &Survey,
    indexed: Option<&IndexedState>,
    names: &HashMap<StreamId, ClientId>,
) -> Vec<ClientLoss> {
    let is_client = |stream: &StreamId| stream.kind == StreamKind::Client;
    let mut losses = BTreeMap::new();
    for (stream, lsn) in survey.affected_streams.iter().filter(|(stream, _)| is_client(stream)) {
        losses.insert(*stream, format!("records are lost before {lsn}"));
    }
    for (stream, from) in indexed.into_iter().flat_map(|indexed| streams_with_lost_end(survey, indexed)) {
        if is_client(stream) {
            losses.entry(*stream).or_insert_with(|| format!("records from {from} on are lost"));
        }
    }
    let rows = indexed.map_or(&survey.tables.runs, |indexed| &indexed.runs).values();
    let by_runs: HashMap<StreamId, &ClientId> =
        rows.map(|row| (StreamId::client(&row.client), &row.client)).collect();
    let name = |stream: &StreamId| names.get(stream).or_else(|| by_runs.get(stream).copied()).cloned();
    losses.into_iter().map(|(stream, what)| ClientLoss { client: name(&stream), what }).collect()
}
