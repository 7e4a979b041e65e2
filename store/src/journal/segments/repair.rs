//! What damage comes to, and setting aside what it touches: those runs and pipelines, and nothing else.
//!
//! Whether a run lost records shows in three ways. A later record of it does not continue the one before. The index, if it is whole
//! and was brought up to date behind the damage, knows of more records than there are. Without such an index, what stood in the
//! damaged bytes is not known: then every run counts that was not over and of which nothing follows them, since its last records
//! may be lost, and to go on with it might do again what was done. So does what its attempts noted, while they were not over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{ClientId, Digest, RunId};
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::{AccountRow, RunRow, RunRowStatus, StreamId, StreamKind};

use super::collect::artifacts;
use super::files::Files;
use super::frame::{Place, Section};
use super::load::load;
use super::open::OpenJournalError;
use super::pipes;
use super::quarantine::{self, Quarantine, Quarantined, Remaining};
use super::rewrite::{Rewrite, rewrite};
use super::segment;
use super::swap::Swap;
use super::verify::{Damage, Survey, decoded, survey};
use crate::index::{Head, Index};
use crate::journal::rows::{self, Lines};

/// What is wrong with a journal and what it touches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// Everything that is wrong with its bytes.
    pub damages: Vec<Damage>,
    /// Bytes that cannot be read.
    pub bytes_lost: u64,
    /// Runs that lost something and were not set aside before.
    pub runs: Vec<Quarantined>,
    /// Pipelines that lost something. What is left of them is moved out of the journal: their events are told by their places, so
    /// that none may be missing.
    pub pipelines: Vec<PipelineLoss>,
    /// Clients that lost records of theirs: terms, credits or agents.
    pub clients: Vec<ClientLoss>,
    /// Whether what clients were charged in records that are lost is known all the same, from the index.
    pub charges_known: bool,
    /// Whether clients other than those named may have lost records.
    pub clients_unsure: bool,
    /// Whether the list of runs that were set aside before is damaged.
    pub list_damaged: bool,
    /// Files in the folder of the journal that keep the damaged segments as they were found.
    pub kept: Vec<String>,
}

impl Findings {
    /// Whether there is nothing to repair.
    pub fn is_empty(&self) -> bool {
        self.is_whole() && self.runs.is_empty() && self.pipelines.is_empty() && !self.list_damaged
    }

    /// Whether every record can be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.damages.iter().all(|damage| damage.torn)
    }
}

/// A client that lost records of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLoss {
    /// Its name, if a record is left that says it.
    pub client: Option<ClientId>,
    /// Where that shows.
    pub what: String,
}

/// A pipeline that lost records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineLoss {
    /// Its name, if the record is left that says it.
    pub pipeline: Option<String>,
    /// Where that shows.
    pub what: String,
    /// Its records that can be read.
    pub moved: u64,
    /// The file in the folder of the journal that they were moved to, a line of JSON each, if there are any.
    pub remains: String,
}

/// Finds out what is wrong and what it touches; with `commit`, sets that aside. `commit` is called just before the change: the
/// index must be gone by then. `wrong` says what is wrong with an artifact.
pub(crate) fn repair(
    files: &Files,
    index: &Index,
    epoch_seen: u64,
    wrong: &dyn Fn(Digest) -> Option<String>,
    commit: Option<&mut dyn FnMut() -> io::Result<()>>,
) -> Result<Findings, OpenJournalError> {
    let mut survey = survey(files, None)?;
    let lost_end = survey.add_lost_end(files, index);
    let (mut list, list_damaged) = match quarantine::read(&*files.disk) {
        Ok(list) => (list, false),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            (quarantine::read_remains(&*files.disk)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    let known = if lost_end { Known::of(index, &survey) } else { Known::read(files, index, &survey) };
    let touched = touched(&survey, known.as_ref(), &list);
    let pipes = pipes::touched(&survey, known.as_ref().map(|known| &known.heads[..]));
    let epoch = survey.epoch.max(epoch_seen) + 1;
    let kept: BTreeMap<u32, String> = damaged_segments(&survey)
        .map(|number| (number, format!("{}{}{epoch}", segment::name(number), quarantine::DAMAGED)))
        .collect();
    let mut found = Aside {
        touched: &touched,
        wrong,
        moved: BTreeMap::new(),
        spoilt: BTreeMap::new(),
        names: HashMap::new(),
        pipes: pipes::Left::default(),
    };
    let what = Rewrite {
        gone: &survey
            .heads
            .keys()
            .filter(|stream| is_of(stream, &touched) || pipes::is_of(stream, &pipes))
            .copied()
            .collect(),
        renumbered: &survey.touched.keys().filter(|it| it.kind == StreamKind::Client).copied().collect(),
        anew: &|_| Ok(None),
        logs: &HashMap::new(),
        misfits: &survey.misfits,
        kept: &kept,
        accounts: known.as_ref().map_or_else(
            || survey.lines.accounts.values().cloned().collect(),
            |known| known.accounts.clone(),
        ),
        epoch,
    };
    let mut swap = match &commit {
        Some(_) => Some(Swap::new(&*files.disk)?),
        None => None,
    };
    let is_damaged = survey.is_damaged() || !touched.is_empty() || !pipes.is_empty();
    let segments = swap.as_mut().filter(|_| is_damaged);
    rewrite(files, &survey.segments, &what, segments, &mut |place, section, gone| {
        found.see(place, section, gone)
    })?;
    let clients = clients(&survey, known.as_ref(), &found.names);
    let Aside { moved, spoilt, pipes: left, .. } = found;
    let pipelines = left.set_aside(&pipes, epoch, swap.as_mut())?;
    let row = |run: RunId| {
        let rows = known.as_ref().map_or(&survey.lines.rows, |known| &known.rows);
        rows.get(&run).cloned().unwrap_or_else(|| quarantine::unknown(run))
    };
    let mut runs = Vec::new();
    for (run, why) in touched
        .iter()
        .chain(spoilt.iter().filter(|(run, _)| !touched.contains_key(run) && !list.contains_key(run)))
    {
        let Moved { count, artifacts, text } = moved.get(run).cloned().unwrap_or_default();
        let one = Quarantined { row: row(*run), why: why.clone(), moved: count, artifacts };
        if let (Some(swap), true) = (&mut swap, count > 0) {
            swap.replace(&one.remains(), &text, None)?;
        }
        runs.push(one);
    }
    list.extend(runs.iter().map(|one| (one.row.run, one.clone())));
    let findings = Findings {
        bytes_lost: survey.lost.iter().map(|(from, to)| to.0.saturating_sub(from.0)).sum(),
        damages: survey.damages,
        runs,
        pipelines,
        clients,
        charges_known: known.is_some(),
        clients_unsure: known.is_none() && !survey.lost.is_empty(),
        list_damaged,
        kept: kept.into_values().collect(),
    };
    if let (Some(commit), Some(mut swap)) = (commit, swap)
        && !findings.is_empty()
    {
        swap.replace(quarantine::NAME, &quarantine::bytes(&list), None)?;
        commit()?;
        swap.commit()?;
        super::swap::clean(&*files.disk, files.segment_bytes)?;
    }
    Ok(findings)
}

/// Segments that hold something that is no part of the journal.
fn damaged_segments(survey: &Survey) -> impl Iterator<Item = u32> {
    let lost = survey.lost.iter().map(|(from, _)| from.segment());
    let all: BTreeSet<u32> = lost.chain(survey.misfits.iter().map(|place| place.segment())).collect();
    all.into_iter()
}

fn is_of(stream: &StreamId, runs: &BTreeMap<RunId, String>) -> bool {
    rows::run_of(stream).is_some_and(|run| runs.contains_key(&run))
}

/// What the index knows of a journal whose damage it was brought up to date behind.
struct Known {
    heads: Vec<(StreamId, Head)>,
    rows: HashMap<RunId, RunRow>,
    accounts: Vec<AccountRow>,
}

impl Known {
    /// `None`: it does not know, or is not to be believed.
    fn read(files: &Files, index: &Index, survey: &Survey) -> Option<Known> {
        let mark = index.mark().ok()??;
        let before = survey.lost.iter().map(|(_, end)| *end).chain(survey.misfits.iter().copied());
        if before.max().is_some_and(|end| end > mark.upto) {
            return None;
        }
        // What follows the mark is whole, and the mark is one of this journal, or this fails.
        let Lines { mut rows, mut accounts } = load(files, index, None).ok()?.fold.lines;
        for row in index.rows(false).ok()? {
            rows.entry(row.run).or_insert(row);
        }
        for row in index.accounts().ok()? {
            accounts.entry(rows::key_of(&row)).or_insert(row);
        }
        Some(Known { heads: index.heads().ok()?, rows, accounts: accounts.into_values().collect() })
    }

    /// Of a journal whose end is gone, which the index knows.
    fn of(index: &Index, survey: &Survey) -> Option<Known> {
        let mut rows = survey.lines.rows.clone();
        rows.extend(index.rows(false).ok()?.into_iter().map(|row| (row.run, row)));
        Some(Known { heads: index.heads().ok()?, rows, accounts: index.accounts().ok()? })
    }
}

/// The runs that lost records, and why that is believed.
fn touched(survey: &Survey, known: Option<&Known>, list: &Quarantine) -> BTreeMap<RunId, String> {
    let mut runs = BTreeMap::new();
    let mut touch = |stream: &StreamId, why: String| {
        if let Some(run) = rows::run_of(stream) {
            runs.entry(run).or_insert(why);
        }
    };
    for (stream, place) in &survey.touched {
        touch(stream, format!("records of it are lost before {}", named(*place)));
    }
    let seq = |stream: &StreamId| survey.heads.get(stream).map_or(0, |(head, _)| head.seq);
    match known {
        Some(known) => {
            for (stream, _) in known.heads.iter().filter(|(stream, head)| seq(stream) < head.seq) {
                touch(stream, format!("its records from {} on are lost", seq(stream) + 1));
            }
        }
        None => {
            let is_over = |run: RunId| {
                let row = survey.lines.rows.get(&run);
                row.is_some_and(|row| matches!(row.status, RunRowStatus::Closed(_)))
            };
            let of_runs = survey.heads.iter().filter(|(stream, _)| stream.kind != StreamKind::Attempts);
            for (stream, (_, last)) in of_runs {
                let after = survey.lost.iter().find(|(from, _)| from > last);
                if let (Some((from, _)), Some(false)) = (after, rows::run_of(stream).map(is_over)) {
                    let place = named(*from);
                    touch(
                        stream,
                        format!("it was not over, and its last records may be among those lost at {place}"),
                    );
                }
            }
            for (stream, why) in survey.heads.keys().filter_map(|stream| lost_notes(survey, stream)) {
                touch(&stream, why);
            }
            // Runs of which nothing is left but their names, in bytes that are damaged.
            for damage in survey.damages.iter().filter(|damage| !damage.torn) {
                let all_lost = |stream: &&StreamId| seq(stream) == 0 && seq(&run_stream(stream)) == 0;
                for stream in damage.streams.iter().filter(all_lost) {
                    touch(
                        stream,
                        format!(
                            "all its records are lost, at segment {}, offset {}",
                            damage.segment, damage.offset
                        ),
                    );
                }
            }
        }
    }
    // Those whose records were moved before have none in the journal.
    runs.retain(|run, _| list.get(run).is_none_or(|one| one.moved == 0));
    runs
}

/// The stream of the run that a stream of attempts goes with; any other itself.
fn run_stream(stream: &StreamId) -> StreamId {
    match stream.kind {
        StreamKind::Attempts => StreamId { kind: StreamKind::Run, ..*stream },
        StreamKind::Run | StreamKind::Client | StreamKind::Pipeline | StreamKind::PipelineLog => *stream,
    }
}

/// Whether what attempts of a run noted may be lost, and matter: work that was begun before the damage has no result, and nothing
/// that was noted stands behind the damage. To go on without might do steps again that were done.
fn lost_notes(survey: &Survey, stream: &StreamId) -> Option<(StreamId, String)> {
    let run = rows::run_of(stream).filter(|_| stream.kind == StreamKind::Run)?;
    let begun = survey.unfinished.get(&run)?.values().min()?;
    let notes = StreamId { kind: StreamKind::Attempts, ..*stream };
    let last = survey.heads.get(&notes).map_or(*begun, |(_, last)| *last.max(begun));
    let (from, _) = survey.lost.iter().find(|(from, _)| *from > last)?;
    let what = format!("what its attempts noted of themselves may be among what is lost at {}", named(*from));
    Some((*stream, what))
}

fn named(place: Place) -> String {
    format!("segment {}, offset {}", place.segment(), place.offset())
}

fn clients(survey: &Survey, known: Option<&Known>, names: &HashMap<StreamId, ClientId>) -> Vec<ClientLoss> {
    let mut losses = BTreeMap::new();
    for (stream, place) in survey.touched.iter().filter(|(stream, _)| stream.kind == StreamKind::Client) {
        losses.insert(*stream, format!("records of it are lost before {}", named(*place)));
    }
    for (stream, head) in known.into_iter().flat_map(|known| &known.heads) {
        let seq = survey.heads.get(stream).map_or(0, |(head, _)| head.seq);
        if stream.kind == StreamKind::Client && seq < head.seq {
            losses.entry(*stream).or_insert_with(|| format!("its records from {} on are lost", seq + 1));
        }
    }
    let rows = known.map_or(&survey.lines.rows, |known| &known.rows).values();
    let by_runs: HashMap<StreamId, &ClientId> =
        rows.map(|row| (StreamId::client(&row.client), &row.client)).collect();
    let named = |stream: &StreamId| names.get(stream).or_else(|| by_runs.get(stream).copied()).cloned();
    losses.into_iter().map(|(stream, what)| ClientLoss { client: named(&stream), what }).collect()
}

/// What is met on the way through the journal.
struct Aside<'a> {
    touched: &'a BTreeMap<RunId, String>,
    wrong: &'a dyn Fn(Digest) -> Option<String>,
    /// What is left of runs that lost records.
    moved: BTreeMap<RunId, Moved>,
    /// Runs whose records name an artifact that is wrong.
    spoilt: BTreeMap<RunId, String>,
    /// Names of clients by their streams.
    names: HashMap<StreamId, ClientId>,
    /// What is left of pipelines that lost records.
    pipes: pipes::Left,
}

/// What is left of a run.
#[derive(Default, Clone)]
struct Moved {
    count: u64,
    artifacts: Vec<Digest>,
    text: Vec<u8>,
}

impl Aside<'_> {
    fn see(&mut self, _: Place, section: &Section<'_>, gone: bool) -> io::Result<()> {
        let events = decoded(section).map_err(io::Error::other)?;
        if pipes::is_pipeline(&section.stream) {
            return if gone { self.pipes.see(section, events) } else { Ok(()) };
        }
        let Some(run) = rows::run_of(&section.stream) else {
            self.names.extend(events.iter().find_map(client_of).map(|client| (section.stream, client)));
            return Ok(());
        };
        if !gone {
            let spoilt = events.iter().find_map(|event| self.spoilt_by(event));
            if let Some(why) = spoilt {
                self.spoilt.entry(run).or_insert(why);
            }
            return Ok(());
        }
        let moved = self.moved.entry(run).or_default();
        moved.artifacts.extend(artifacts(&events));
        for (event, seq) in events.into_iter().zip(section.first..) {
            serde_json::to_writer(&mut moved.text, &Remaining { seq, at_ms: section.at_ms, event })?;
            moved.text.push(b'\n');
            moved.count += 1;
        }
        debug_assert!(self.touched.contains_key(&run), "only what is touched goes");
        Ok(())
    }

    fn spoilt_by(&self, event: &Event) -> Option<String> {
        let (outcome, whose) = match event {
            Event::AttemptResult(result) => (&result.outcome, format!("its node {}", result.node)),
            Event::StepResult(result) => {
                (&result.outcome, format!("step {:?} of its node {}", result.step, result.of.node))
            }
            _ => return None,
        };
        let Outcome::Ok(output) = outcome else { return None };
        let what = (self.wrong)(output.artifact).filter(|_| output.inline.is_none())?;
        Some(format!("the result of {whose}: {what}"))
    }
}

/// The client whose stream an event stands in.
fn client_of(event: &Event) -> Option<ClientId> {
    match event {
        Event::AgentRegistered { client, .. }
        | Event::ClientSet { client, .. }
        | Event::CreditDeposited { client, .. }
        | Event::AgentProfiled { client, .. }
        | Event::AgentOffered { client, .. } => Some(client.clone()),
        Event::Market { step, .. } => match &**step {
            MarketStep::Posted(job) => Some(job.client.clone()),
            _ => None,
        },
        _ => None,
    }
}
