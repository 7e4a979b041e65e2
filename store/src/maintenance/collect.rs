//! Collecting: removing expired runs and everything only they need, and compacting pipelines.
//!
//! A closed run is removed with its attempts' stream. Charges stay in the accounts' checkpoint, reputations too. A client's stream
//! stays, except for the plans of ended jobs without runs. A run stays while a job or a parent run may still ask for its
//! outcome.

use std::collections::{BTreeMap, HashSet};
use std::io;

use ostler_kernel::event::Event;
use ostler_kernel::id::{Digest, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::market::{Job, MarketStep};
use ostler_kernel::port::{RunRow, RunRowStatus, StreamId};

use super::artifact_refs::artifacts;
use super::atomic_replace::{self, AtomicReplace};
use super::compact::CompactionPlan;
use super::quarantine;
use super::repair::BeforeCommit;
use super::rewrite::{Rewrite, Rewritten, Visitor, rewrite};
use super::survey::{Survey, survey};
use crate::disk::{Disk, is_full, reserve};
use crate::format::bytes::put_block;
use crate::format::codec;
use crate::format::damage::OpenJournalError;
use crate::format::frame_body::Section;
use crate::format::quarantine_list::{self, Quarantine};
use crate::format::segment;
use crate::format::segment_files::SegmentFiles;
use crate::format::stream::run_of;
use crate::options::RetentionPolicy;

#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) runs: Vec<RunId>,
    pub(crate) quarantined: Vec<RunId>,
    pub(crate) kept_for_reuse: usize,
    pub(crate) stage_records: u64,
    pub(crate) bytes: Rewritten,
    pub(crate) needed: HashSet<Digest>,
    /// Runs that stay.
    pub(crate) kept: HashSet<RunId>,
    pub(crate) oldest_open_ms: Option<Ticks>,
}

/// Removes expired runs, or only reports them without `commit`.
///
/// On a full disk a second attempt uses the blocks of the reserve. A failure leaves the journal unchanged.
pub(crate) fn collect(
    files: &SegmentFiles,
    retention: RetentionPolicy,
    epoch_seen: u64,
    reserve_bytes: u64,
    commit: Option<BeforeCommit<'_>>,
) -> Result<Collected, OpenJournalError> {
    let survey = survey(files, None)?;
    if survey.is_damaged() {
        return Err(OpenJournalError::Damaged(survey.damages));
    }
    let quarantine = quarantine_list::read(&*files.disk)?;
    let removal = Removal::plan(&survey, &quarantine, retention);
    let mut needed: HashSet<Digest> = quarantine
        .values()
        .filter(|one| !removal.quarantined.contains(&one.row.run))
        .flat_map(|one| &one.artifacts)
        .copied()
        .collect();
    let mut visit = |section: &Section<'_>, dropped: bool| {
        if !dropped {
            needed.extend(artifacts(&section.events().map_err(io::Error::other)?));
        }
        Ok(())
    };
    let epoch = survey.epoch.max(epoch_seen) + 1;
    let bytes = match commit.filter(|_| !removal.is_empty()) {
        Some(commit) => {
            let mut apply = || removal.apply(files, &survey, &quarantine, epoch, &mut *commit, &mut visit);
            let applied = match apply() {
                Err(error) if is_full(&error) => reserve::without(&*files.disk, reserve_bytes, apply),
                applied => applied,
            };
            let bytes = applied?;
            atomic_replace::zero_recycled(&*files.disk, files.segment_bytes)?;
            bytes
        }
        None => removal.rewrite(files, &survey, epoch, None, &mut visit)?,
    };
    let bytes =
        if removal.is_empty() { Rewritten { bytes_after: bytes.bytes_before, ..bytes } } else { bytes };
    let open = survey.tables.runs.values().filter(|row| !matches!(row.status, RunRowStatus::Closed(_)));
    let oldest_open_ms = open.map(|row| row.opened_ms).min();
    let (stage_records, kept_for_reuse) = (removal.compaction.record_count(), removal.kept_for_reuse);
    let is_kept = |run: &&RunId| !removal.runs.contains(run) && !removal.quarantined.contains(run);
    let kept = survey.tables.runs.keys().chain(quarantine.keys()).filter(is_kept).copied().collect();
    let (runs, quarantined) = (removal.runs.into_iter().collect(), removal.quarantined.into_iter().collect());
    Ok(Collected { runs, quarantined, kept_for_reuse, stage_records, bytes, needed, kept, oldest_open_ms })
}

struct Removal {
    runs: HashSet<RunId>,
    kept_for_reuse: usize,
    quarantined: HashSet<RunId>,
    job_plans: HashSet<RunId>,
    clients: HashSet<StreamId>,
    compaction: CompactionPlan,
}

impl Removal {
    fn plan(survey: &Survey, quarantine: &Quarantine, retention: RetentionPolicy) -> Removal {
        let reusable: HashSet<RunId> = match retention.spares_reusable() {
            true => survey.tables.records.values().map(|row| row.place.run).collect(),
            false => HashSet::new(),
        };
        let rows = survey.tables.runs.values();
        let due = rows.filter(|row| {
            !quarantine.contains_key(&row.run)
                && retention.has_expired(row, false)
                && !is_awaited(survey, quarantine, row.run)
        });
        let (expired, spared): (Vec<&RunRow>, Vec<&RunRow>) =
            due.partition(|row| retention.has_expired(row, reusable.contains(&row.run)));
        let (runs, kept_for_reuse) = (expired.iter().map(|row| row.run).collect(), spared.len());
        let quarantined: HashSet<RunId> =
            quarantine.keys().filter(|_| retention.quarantined).copied().collect();
        let job_plans = removable_job_plans(survey, &runs, retention);
        let clients = job_plans.iter().map(|job| survey.obligations.ended_jobs[job].0).collect();
        let is_anyway = !(runs.is_empty() && quarantined.is_empty() && job_plans.is_empty());
        let compaction = survey.pipelines.plan(is_anyway, |stream| survey.last_seq(stream));
        Removal { runs, kept_for_reuse, quarantined, job_plans, clients, compaction }
    }

    fn is_empty(&self) -> bool {
        self.runs.is_empty()
            && self.quarantined.is_empty()
            && self.job_plans.is_empty()
            && self.compaction.is_empty()
    }

    fn drops(&self, stream: &StreamId) -> bool {
        run_of(stream).is_some_and(|run| self.runs.contains(&run) || self.quarantined.contains(&run))
    }

    fn apply(
        &self,
        files: &SegmentFiles,
        survey: &Survey,
        quarantine: &Quarantine,
        epoch: u64,
        commit: BeforeCommit<'_>,
        visit: Visitor<'_>,
    ) -> io::Result<Rewritten> {
        let disk = &*files.disk;
        atomic_replace::replace_all(disk, |change| {
            let bytes = self.rewrite(files, survey, epoch, Some(&mut *change), visit)?;
            if !self.quarantined.is_empty() {
                drop_quarantined(disk, change, quarantine.clone(), &self.quarantined)?;
            }
            commit()?;
            Ok(bytes)
        })
    }

    /// Prepares the rewritten journal in `change`; without one, only measures.
    fn rewrite(
        &self,
        files: &SegmentFiles,
        survey: &Survey,
        epoch: u64,
        change: Option<&mut AtomicReplace<'_>>,
        visit: Visitor<'_>,
    ) -> io::Result<Rewritten> {
        let what = Rewrite {
            dropped_streams: &survey.heads.keys().filter(|stream| self.drops(stream)).copied().collect(),
            renumbered_streams: &self.clients.iter().copied().chain(self.compaction.streams()).collect(),
            replacement: &|section| match self.compaction.remaining(section) {
                None => self.without_job_plans(section),
                remaining => Ok(remaining),
            },
            log_starts: self.compaction.log_starts(),
            dropped_frames: &survey.misplaced_frames,
            kept_copies: &BTreeMap::new(),
            accounts: survey.tables.accounts.values().cloned().collect(),
            epoch,
            journal: segment::journal_or_new(survey.journal),
        };
        rewrite(files, &survey.segments, &what, change, visit)
    }

    /// The records of a client's section with the plans of removed jobs replaced by null; `None` without such plans.
    fn without_job_plans(&self, section: &Section<'_>) -> io::Result<Option<(Vec<u8>, u64)>> {
        if !self.clients.contains(&section.stream) {
            return Ok(None);
        }
        let records = section.records().unwrap_or_default();
        let (mut bytes, mut changed) = (Vec::new(), false);
        for (record, mut event) in records.into_iter().zip(section.events().map_err(io::Error::other)?) {
            if let Event::Market { job, step } = &mut event
                && self.job_plans.contains(job)
                && let MarketStep::Posted(Job { plan, .. }) | MarketStep::Decomposed { plan, .. } =
                    &mut **step
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
}

/// Returns whether a closed run's outcome is still to be recorded by an open job or an open parent. A quarantined parent never
/// resumes.
fn is_awaited(survey: &Survey, quarantine: &Quarantine, run: RunId) -> bool {
    let obligations = &survey.obligations;
    let parent = obligations.parents.get(&run).filter(|parent| !quarantine.contains_key(parent));
    let parent = parent.and_then(|parent| survey.tables.runs.get(parent));
    obligations.open_jobs.contains(&run)
        || parent.is_some_and(|row| !matches!(row.status, RunRowStatus::Closed(_)))
}

/// Jobs ended before the retention's time and without runs: their plans never run again.
fn removable_job_plans(
    survey: &Survey,
    removed: &HashSet<RunId>,
    retention: RetentionPolicy,
) -> HashSet<RunId> {
    let has_expired = |ended: Ticks| retention.closed_before_ms.is_some_and(|before| ended < before);
    let is_gone = |job: &RunId| removed.contains(job) || !survey.tables.runs.contains_key(job);
    let jobs = survey.obligations.ended_jobs.iter();
    jobs.filter(|(job, (_, ended))| has_expired(*ended) && is_gone(job)).map(|(job, _)| *job).collect()
}

/// Removes the files of quarantined runs. The copies of damaged segments go with the last quarantined run.
fn drop_quarantined(
    disk: &dyn Disk,
    change: &mut AtomicReplace<'_>,
    mut list: Quarantine,
    dropped: &HashSet<RunId>,
) -> io::Result<()> {
    list.retain(|run, _| !dropped.contains(run));
    let remains: HashSet<String> = dropped.iter().map(|run| quarantine_list::remains(*run)).collect();
    let names = disk.list()?;
    for name in &names {
        if remains.contains(name) || (list.is_empty() && name.contains(quarantine::DAMAGED)) {
            change.remove(name);
        }
    }
    if list.is_empty() {
        change.remove(quarantine_list::NAME);
        return Ok(());
    }
    change.replace(quarantine_list::NAME, &quarantine_list::bytes(&list), None)
}
