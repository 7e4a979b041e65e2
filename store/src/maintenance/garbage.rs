//! Collecting garbage in a data folder: expired runs in the journal, then artifacts no record names.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_kernel::id::RunId;
use ostler_kernel::port::RunRow;

use super::atomic_replace;
use super::collect::{Collected, collect};
use super::verify::check_end;
use crate::data_folder::OpenError;
use crate::data_folder::artifact_files::ArtifactFiles;
use crate::data_folder::output_files::{OUTPUT_FOLDER, superfluous};
use crate::disk::Folder;
use crate::disk::lock::HeldLock;
use crate::disk::safe_open::sync_folder;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;
use crate::options::{Options, RetentionPolicy};

const EXPIRED_RUNS_MAX: usize = 1_000;

/// Tries to read a journal beside a holder, whose write may be half visible.
const READS_BESIDE_MAX: usize = 5;

/// Data removed from a folder, or to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Garbage {
    /// Expired runs, ascending.
    pub runs: Vec<RunId>,
    /// Quarantined runs, ascending.
    pub quarantined: Vec<RunId>,
    /// Number of expired runs that stay, because reuse may need their results.
    pub kept_for_reuse: usize,
    /// Events of pipelines over their quota.
    pub pipeline_events: u64,
    /// Superseded records of pipeline stages.
    pub stage_records: u64,
    /// Bytes of the journal's records before.
    pub journal_bytes_before: u64,
    /// Bytes of the journal's records after.
    pub journal_bytes_after: u64,
    /// Artifacts no record names.
    pub artifacts: u64,
    /// Bytes of [`Garbage::artifacts`].
    pub artifact_bytes: u64,
    /// Files with the output of programs of runs that are gone.
    pub outputs: u64,
    /// Bytes of [`Garbage::outputs`].
    pub output_bytes: u64,
    /// Damaged artifacts quarantined by a repair.
    pub damaged: u64,
    /// Bytes of [`Garbage::damaged`].
    pub damaged_bytes: u64,
}

/// The policy, if enough runs have expired to be worth a rewrite: as many as remain, or [`EXPIRED_RUNS_MAX`]. `None` without a
/// readable index; the next opening can tell.
pub(crate) fn worthwhile(index: &Index, retention: RetentionPolicy) -> Option<RetentionPolicy> {
    retention.closed_before_ms?;
    let rows = index.runs(false).ok()?;
    let reusable = if retention.spares_reusable() { index.recorded_runs().ok()? } else { HashSet::new() };
    let has_expired = |row: &&RunRow| retention.has_expired(row, reusable.contains(&row.run));
    let count = rows.iter().filter(has_expired).count();
    (count > 0 && (count >= EXPIRED_RUNS_MAX || 2 * count >= rows.len())).then_some(retention)
}

/// Collects garbage in a locked folder; without `apply`, only reports.
pub(crate) fn collect_folder(
    path: &Path,
    index: &Index,
    options: &Options,
    retention: RetentionPolicy,
    (lock, epoch_seen): (&HeldLock, u64),
    apply: bool,
) -> Result<Garbage, OpenError> {
    let disk = Arc::new(Folder::new(&path.join("journal")));
    atomic_replace::finish(&*disk).map_err(|error| OpenError::io(path, error))?;
    let journal = SegmentFiles::new(disk, options.segment_bytes);
    // The remaining records of a journal with a missing end may be out of date, and its artifacts still needed.
    check_end(&journal, index).map_err(|error| OpenError::journal(path, error))?;
    let mut commit = || {
        lock.check()?;
        index.clear();
        sync_folder(path)?;
        lock.check()
    };
    let collected = collect(
        &journal,
        retention,
        epoch_seen,
        options.reserve_bytes,
        if apply { Some(&mut commit) } else { None },
    );
    let collected = collected.map_err(|error| OpenError::journal(path, error))?;
    garbage_of(path, collected, retention, apply.then_some(lock))
}

/// Reports the garbage of a folder that another process holds, and changes nothing. The holder may write meanwhile, so the figures
/// are of one moment, and a missing end of the journal is not noticed.
pub(crate) fn report_beside_holder(
    path: &Path,
    options: &Options,
    retention: RetentionPolicy,
) -> Result<Garbage, OpenError> {
    let mut tries = 0;
    let collected = loop {
        // Opened again for each try, as the holder may have begun another segment.
        let journal = SegmentFiles::new(Arc::new(Folder::new(&path.join("journal"))), options.segment_bytes);
        tries += 1;
        match collect(&journal, retention, 0, options.reserve_bytes, None) {
            Err(_) if tries < READS_BESIDE_MAX => {}
            collected => break collected.map_err(|error| OpenError::journal(path, error))?,
        }
    };
    garbage_of(path, collected, retention, None)
}

/// The garbage, with the artifacts that no record names. With `remove`, the held lock, removes the artifacts.
fn garbage_of(
    path: &Path,
    collected: Collected,
    retention: RetentionPolicy,
    remove: Option<&HeldLock>,
) -> Result<Garbage, OpenError> {
    let files = ArtifactFiles::at(&path.join("artifacts"));
    let mut garbage = Garbage {
        pipeline_events: collected.bytes.events,
        stage_records: collected.stage_records,
        kept_for_reuse: collected.kept_for_reuse,
        journal_bytes_before: collected.bytes.bytes_before,
        journal_bytes_after: collected.bytes.bytes_after,
        ..Garbage::default()
    };
    let mut remove_artifacts = || -> io::Result<()> {
        garbage.collect_artifacts(&files, &collected, remove)?;
        garbage.collect_outputs(&path.join(OUTPUT_FOLDER), &collected, remove)?;
        // The list of quarantined runs is empty by now, and no one needs their artifacts.
        if retention.quarantined { garbage.collect_damaged(&files, remove) } else { Ok(()) }
    };
    remove_artifacts().map_err(|error| OpenError::io(path, error))?;
    (garbage.runs, garbage.quarantined) = (collected.runs, collected.quarantined);
    garbage.runs.sort_unstable();
    garbage.quarantined.sort_unstable();
    Ok(garbage)
}

impl Garbage {
    /// Removes artifacts no record names. An artifact younger than the oldest open run may belong to a result not yet
    /// recorded, and stays.
    fn collect_artifacts(
        &mut self,
        files: &ArtifactFiles,
        collected: &Collected,
        remove: Option<&HeldLock>,
    ) -> io::Result<()> {
        for digest in files.list()? {
            let (bytes, written_ms) = files.size_and_time(digest)?;
            let is_young = collected.oldest_open_ms.is_some_and(|oldest| written_ms >= oldest);
            if is_young || collected.needed.contains(&digest) {
                continue;
            }
            self.artifacts += 1;
            self.artifact_bytes += bytes;
            if let Some(lock) = remove {
                lock.check().and_then(|()| files.remove(digest))?;
            }
        }
        Ok(())
    }

    fn collect_outputs(
        &mut self,
        root: &Path,
        collected: &Collected,
        remove: Option<&HeldLock>,
    ) -> io::Result<()> {
        for (path, bytes) in superfluous(root, &collected.kept)? {
            self.outputs += 1;
            self.output_bytes += bytes;
            if let Some(lock) = remove {
                lock.check().and_then(|()| std::fs::remove_file(path))?;
            }
        }
        Ok(())
    }

    fn collect_damaged(&mut self, files: &ArtifactFiles, remove: Option<&HeldLock>) -> io::Result<()> {
        for (path, bytes) in files.quarantined()? {
            self.damaged += 1;
            self.damaged_bytes += bytes;
            if let Some(lock) = remove {
                lock.check().and_then(|()| std::fs::remove_file(path))?;
            }
        }
        Ok(())
    }
}
