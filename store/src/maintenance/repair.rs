//! Repairing the journal: quarantining the affected runs and pipelines, and nothing else.
//!
//! A rewrite drops the damaged frames and all records of the affected runs; the readable ones move to files. The damaged
//! segments stay beside the journal, renamed. The list of quarantined runs is part of the same atomic replacement, so a crash
//! never leaves a run both unlisted and incomplete.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use ostler_kernel::id::RunId;
use ostler_kernel::port::{RunRow, StreamId, StreamKind};

use super::affected_runs::{self, AffectedRuns, affected_runs, client_losses};
use super::atomic_replace::{self, AtomicReplace};
use super::findings::Findings;
use super::indexed_state::IndexedState;
use super::pipeline_damage::{self, AffectedPipelines, affected_pipelines};
use super::quarantine;
use super::rewrite::{Rewrite, rewrite};
use super::salvage::{ArtifactFault, Salvage};
use super::survey::{Survey, survey};
use crate::format::damage::OpenJournalError;
use crate::format::frame_body::Section;
use crate::format::quarantine_list::{self, Quarantine, Quarantined};
use crate::format::segment;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;

/// Called just before a change is committed. The index must be cleared, durably, by then.
pub(crate) type BeforeCommit<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Finds all damage and the affected runs; with `commit`, repairs the journal.
pub(crate) fn repair(
    files: &SegmentFiles,
    index: &Index,
    epoch_seen: u64,
    artifact_fault: ArtifactFault<'_>,
    commit: Option<BeforeCommit<'_>>,
) -> Result<Findings, OpenJournalError> {
    let disk = &*files.disk;
    let diagnosis = diagnose(files, index)?;
    let epoch = diagnosis.survey.epoch.max(epoch_seen) + 1;
    let kept = kept_copies(&diagnosis.survey, epoch);
    let mut change = match &commit {
        Some(_) => Some(AtomicReplace::new(disk)?),
        None => None,
    };
    let mut salvage = Salvage::new(&diagnosis.runs, artifact_fault);
    let rewritten = change.as_mut().filter(|_| diagnosis.needs_rewrite());
    diagnosis.rewrite(files, &kept, epoch, rewritten, &mut salvage)?;
    let clients = client_losses(&diagnosis.survey, diagnosis.indexed.as_ref(), &salvage.client_names);
    let pipelines = std::mem::take(&mut salvage.pipelines);
    let pipelines = pipelines.into_losses(&diagnosis.pipelines, epoch, change.as_mut())?;
    let runs = diagnosis.quarantined(&salvage, change.as_mut())?;
    let Diagnosis { survey, indexed, mut list, list_damaged, .. } = diagnosis;
    list.extend(runs.iter().map(|one| (one.row.run, one.clone())));
    let findings = Findings {
        bytes_lost: survey.lost_ranges.iter().map(|(from, to)| to.0.saturating_sub(from.0)).sum(),
        damages: survey.damages,
        runs,
        pipelines,
        clients,
        charges_known: indexed.is_some(),
        clients_unsure: indexed.is_none() && !survey.lost_ranges.is_empty(),
        list_damaged,
        kept: kept.into_values().collect(),
    };
    if let (Some(commit), Some(mut change)) = (commit, change)
        && !findings.is_empty()
    {
        change.replace(quarantine_list::NAME, &quarantine_list::bytes(&list), None)?;
        commit()?;
        change.commit()?;
        atomic_replace::zero_recycled(disk, files.segment_bytes)?;
    }
    Ok(findings)
}

struct Diagnosis {
    survey: Survey,
    indexed: Option<IndexedState>,
    list: Quarantine,
    list_damaged: bool,
    runs: AffectedRuns,
    pipelines: AffectedPipelines,
}

fn diagnose(files: &SegmentFiles, index: &Index) -> Result<Diagnosis, OpenJournalError> {
    let mut survey = survey(files, None)?;
    let lost_end = survey.add_lost_end(files, index);
    let (list, list_damaged) = match quarantine_list::read(&*files.disk) {
        Ok(list) => (list, false),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            (quarantine::rebuild_list(&*files.disk)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    let indexed = match lost_end {
        true => IndexedState::of_lost_end(index, &survey),
        false => IndexedState::read(files, index, &survey),
    };
    let runs = affected_runs(&survey, indexed.as_ref(), &list);
    let pipelines = affected_pipelines(&survey, indexed.as_ref().map(|indexed| &indexed.heads[..]));
    Ok(Diagnosis { survey, indexed, list, list_damaged, runs, pipelines })
}

fn kept_copies(survey: &Survey, epoch: u64) -> BTreeMap<u32, String> {
    let lost = survey.lost_ranges.iter().map(|(from, _)| from.segment());
    let damaged: BTreeSet<u32> =
        lost.chain(survey.misplaced_frames.iter().map(|lsn| lsn.segment())).collect();
    let name = |number| format!("{}{}{epoch}", segment::name(number), quarantine::DAMAGED);
    damaged.into_iter().map(|number| (number, name(number))).collect()
}

impl Diagnosis {
    fn needs_rewrite(&self) -> bool {
        self.survey.is_damaged() || !self.runs.is_empty() || !self.pipelines.is_empty()
    }

    /// Rewrites the journal without the affected streams; without `change`, only feeds `salvage`.
    fn rewrite(
        &self,
        files: &SegmentFiles,
        kept: &BTreeMap<u32, String>,
        epoch: u64,
        change: Option<&mut AtomicReplace<'_>>,
        salvage: &mut Salvage<'_>,
    ) -> io::Result<()> {
        let survey = &self.survey;
        let is_dropped = |stream: &&StreamId| {
            affected_runs::is_of(stream, &self.runs) || pipeline_damage::is_of(stream, &self.pipelines)
        };
        let dropped: HashSet<StreamId> = survey.heads.keys().filter(is_dropped).copied().collect();
        let clients = survey.affected_streams.keys().filter(|stream| stream.kind == StreamKind::Client);
        let what = Rewrite {
            dropped_streams: &dropped,
            renumbered_streams: &clients.copied().collect(),
            replacement: &|_| Ok(None),
            log_starts: &HashMap::new(),
            dropped_frames: &survey.misplaced_frames,
            kept_copies: kept,
            accounts: self.indexed.as_ref().map_or_else(
                || survey.tables.accounts.values().cloned().collect(),
                |indexed| indexed.accounts.clone(),
            ),
            epoch,
            journal: segment::journal_or_new(survey.journal),
        };
        let mut visit = |section: &Section<'_>, dropped: bool| salvage.add(section, dropped);
        rewrite(files, &survey.segments, &what, change, &mut visit).map(drop)
    }

    /// The runs to quarantine: the affected runs, and runs naming a faulty artifact. Records of the latter stay in the journal.
    fn quarantined(
        &self,
        salvage: &Salvage<'_>,
        mut change: Option<&mut AtomicReplace<'_>>,
    ) -> io::Result<Vec<Quarantined>> {
        let is_new = |run: &RunId| !self.runs.contains_key(run) && !self.list.contains_key(run);
        let faulty = salvage.faulty_artifacts.iter().filter(|(run, _)| is_new(run));
        let mut runs = Vec::new();
        for (run, why) in self.runs.iter().chain(faulty) {
            let salvaged = salvage.runs.get(run).cloned().unwrap_or_default();
            let one = Quarantined {
                row: self.row(*run),
                why: why.clone(),
                moved: salvaged.count,
                artifacts: salvaged.artifacts,
            };
            if let (Some(change), true) = (change.as_deref_mut(), salvaged.count > 0) {
                change.replace(&one.remains(), &salvaged.text, None)?;
            }
            runs.push(one);
        }
        Ok(runs)
    }

    fn row(&self, run: RunId) -> RunRow {
        let rows = self.indexed.as_ref().map_or(&self.survey.tables.runs, |indexed| &indexed.runs);
        rows.get(&run).cloned().unwrap_or_else(|| quarantine::unknown_row(run))
    }
}
