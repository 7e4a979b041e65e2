//! Removing runs that are over, and what only they needed; and what pipelines that go on do not need any more.

use std::collections::{BTreeMap, HashSet};
use std::io;

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{Digest, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::market::{Job, MarketStep};
use ostler_kernel::port::{RunRow, RunRowStatus, StreamId};

use super::files::Files;
use super::frame::Section;
use super::open::OpenJournalError;
use super::quarantine::{self, Quarantine};
use super::reserve;
use super::rewrite::{Rewrite, Rewritten, rewrite};
use super::swap::{self, Swap};
use super::verify::{Survey, decoded, survey};
use crate::bytes::put_block;
use crate::codec;
use crate::disk::is_full;

/// What is no longer to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unwanted {
    /// Runs that were closed before this, in milliseconds since the Unix epoch; `None`: none of them.
    pub closed_before_ms: Option<Ticks>,
    /// Runs that were set aside because something of them is damaged.
    pub quarantined: bool,
}

impl Unwanted {
    /// Whether a run that is not damaged goes.
    pub(crate) fn holds(&self, row: &RunRow) -> bool {
        let over = matches!(row.status, RunRowStatus::Closed(_));
        over && row.closed_ms.zip(self.closed_before_ms).is_some_and(|(closed, before)| closed < before)
    }
}

/// What removing came to in the journal.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Runs that are gone.
    pub(crate) runs: Vec<RunId>,
    /// Runs that were damaged, and are gone.
    pub(crate) quarantined: Vec<RunId>,
    /// Records of the stages of pipelines that later ones made needless, and that are gone.
    pub(crate) stage_records: u64,
    pub(crate) bytes: Rewritten,
    /// Artifacts that are still needed.
    pub(crate) needed: HashSet<Digest>,
    /// When the oldest run was opened that is not over.
    pub(crate) oldest_open_ms: Option<Ticks>,
}

/// Removes what is unwanted. Without `commit` nothing changes; with it, it is called just before: the index
/// must be gone by then. On a full disk the room of the reserve is used meanwhile. What fails leaves everything as it was.
pub(crate) fn collect(
    files: &Files,
    unwanted: Unwanted,
    epoch_seen: u64,
    reserve_bytes: u64,
    commit: Option<&mut dyn FnMut() -> std::io::Result<()>>,
) -> Result<Collected, OpenJournalError> {
    let disk = &*files.disk;
    let survey = survey(files, None)?;
    if survey.is_damaged() {
        return Err(OpenJournalError::Damaged(survey.damages));
    }
    let quarantine = quarantine::read(disk)?;
    let (runs, damaged) = choose(&survey, &quarantine, unwanted);
    let gone: HashSet<StreamId> =
        survey.heads.keys().filter(|stream| goes(stream, &runs, &damaged)).copied().collect();
    let plans = plans_that_go(&survey, &runs, unwanted);
    let is_anyway = !(runs.is_empty() && damaged.is_empty() && plans.is_empty());
    let last = |stream: &StreamId| survey.heads.get(stream).map_or(0, |(head, _)| head.seq);
    let needless = survey.pipelines.needless(is_anyway, last);
    let clients: HashSet<StreamId> = plans.iter().map(|job| survey.jobs_over[job].0).collect();
    let mut needed: HashSet<Digest> = quarantine
        .values()
        .filter(|one| !damaged.contains(&one.row.run))
        .flat_map(|one| &one.artifacts)
        .copied()
        .collect();
    let mut see = |_, section: &Section<'_>, gone: bool| {
        if !gone {
            needed.extend(artifacts(&decoded(section).map_err(std::io::Error::other)?));
        }
        Ok(())
    };
    let what = Rewrite {
        gone: &gone,
        renumbered: &clients.iter().copied().chain(needless.streams()).collect(),
        anew: &|section| match needless.without(section) {
            None => without_plans(section, &clients, &plans),
            left => Ok(left),
        },
        logs: needless.logs(),
        misfits: &survey.misfits,
        kept: &BTreeMap::new(),
        accounts: survey.lines.accounts.values().cloned().collect(),
        epoch: survey.epoch.max(epoch_seen) + 1,
    };
    let changes = is_anyway || !needless.is_empty();
    let bytes = match commit.filter(|_| changes) {
        Some(commit) => {
            let mut change = || {
                swap::make(disk, |swap| {
                    let bytes = rewrite(files, &survey.segments, &what, Some(&mut *swap), &mut see)?;
                    if !damaged.is_empty() {
                        forget(disk, swap, quarantine.clone(), &damaged)?;
                    }
                    commit()?;
                    Ok(bytes)
                })
            };
            let made = match change() {
                Err(error) if is_full(&error) => reserve::without(files, reserve_bytes, change),
                made => made,
            };
            let bytes = made?;
            swap::clean(disk, files.segment_bytes)?;
            bytes
        }
        None => rewrite(files, &survey.segments, &what, None, &mut see)?,
    };
    let bytes = if changes { bytes } else { Rewritten { bytes_after: bytes.bytes_before, ..bytes } };
    let open = survey.lines.rows.values().filter(|row| !matches!(row.status, RunRowStatus::Closed(_)));
    let oldest_open_ms = open.map(|row| row.opened_ms).min();
    let (runs, quarantined) = (runs.into_iter().collect(), damaged.into_iter().collect());
    let stage_records = needless.count();
    Ok(Collected { runs, quarantined, stage_records, bytes, needed, oldest_open_ms })
}

/// The runs that go: those that are over and that nothing unfinished asks for, and those that are damaged.
fn choose(survey: &Survey, quarantine: &Quarantine, unwanted: Unwanted) -> (HashSet<RunId>, HashSet<RunId>) {
    let rows = survey.lines.rows.values();
    let over = rows.filter(|row| {
        !quarantine.contains_key(&row.run)
            && unwanted.holds(row)
            && !is_asked_for(survey, quarantine, row.run)
    });
    let damaged = quarantine.keys().filter(|_| unwanted.quarantined);
    (over.map(|row| row.run).collect(), damaged.copied().collect())
}

/// Whether somebody has yet to write down what came of a run that is over: its job, or the run of which an attempt opened it. A
/// run that is damaged never goes on.
fn is_asked_for(survey: &Survey, quarantine: &Quarantine, run: RunId) -> bool {
    let parent = survey.parents.get(&run).filter(|parent| !quarantine.contains_key(parent));
    let parent = parent.and_then(|parent| survey.lines.rows.get(parent));
    survey.jobs.contains(&run) || parent.is_some_and(|row| !matches!(row.status, RunRowStatus::Closed(_)))
}

/// Jobs that were over by then and whose runs are gone: nobody runs their plans any more.
fn plans_that_go(survey: &Survey, runs: &HashSet<RunId>, unwanted: Unwanted) -> HashSet<RunId> {
    let was_over = |ended: Ticks| unwanted.closed_before_ms.is_some_and(|before| ended < before);
    let is_gone = |job: &RunId| runs.contains(job) || !survey.lines.rows.contains_key(job);
    let over = survey.jobs_over.iter().filter(|(job, (_, ended))| was_over(*ended) && is_gone(job));
    over.map(|(job, _)| *job).collect()
}

/// The records of a client without the plans of these jobs; `None`: there are none among them.
fn without_plans(
    section: &Section<'_>,
    clients: &HashSet<StreamId>,
    jobs: &HashSet<RunId>,
) -> io::Result<Option<(Vec<u8>, u64)>> {
    if !clients.contains(&section.stream) {
        return Ok(None);
    }
    let records = section.records().unwrap_or_default();
    let (mut bytes, mut changed) = (Vec::new(), false);
    for (record, mut event) in records.into_iter().zip(decoded(section).map_err(io::Error::other)?) {
        if let Event::Market { job, step } = &mut event
            && jobs.contains(job)
            && let MarketStep::Posted(Job { plan, .. }) | MarketStep::Decomposed { plan, .. } = &mut **step
        {
            *plan = Json::null();
            changed = true;
            let mut record = Vec::new();
            codec::encode(&event, &mut record).map_err(io::Error::other)?;
            put_block(&mut bytes, &record);
        } else {
            put_block(&mut bytes, record);
        }
    }
    Ok(changed.then_some((bytes, section.count)))
}

fn goes(stream: &StreamId, runs: &HashSet<RunId>, damaged: &HashSet<RunId>) -> bool {
    crate::journal::rows::run_of(stream).is_some_and(|run| runs.contains(&run) || damaged.contains(&run))
}

/// Removes what was kept of damaged runs. The segments as they were found go with the last of them.
fn forget(
    disk: &dyn crate::disk::Disk,
    swap: &mut Swap<'_>,
    mut quarantine: Quarantine,
    damaged: &HashSet<RunId>,
) -> std::io::Result<()> {
    quarantine.retain(|run, _| !damaged.contains(run));
    let remains: HashSet<String> = damaged.iter().map(|run| quarantine::remains(*run)).collect();
    let names = disk.list()?;
    for name in &names {
        if remains.contains(name) || (quarantine.is_empty() && name.contains(quarantine::DAMAGED)) {
            swap.remove(name);
        }
    }
    if quarantine.is_empty() {
        swap.remove(quarantine::NAME);
        return Ok(());
    }
    swap.replace(quarantine::NAME, &quarantine::bytes(&quarantine), None)
}

/// Artifacts that events name.
pub(crate) fn artifacts(events: &[Event]) -> impl Iterator<Item = Digest> {
    events.iter().filter_map(|event| match event {
        Event::AttemptResult(result) | Event::LateResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        Event::StepResult(result) => match &result.outcome {
            Outcome::Ok(output) => Some(output.artifact),
            Outcome::Failed(_) => None,
        },
        _ => None,
    })
}
