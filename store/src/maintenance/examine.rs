//! Examining and repairing a data folder.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_kernel::id::Digest;
use ostler_kernel::port::ArtifactError;

use super::atomic_replace;
use super::audit::audit_index;
use super::findings::Findings;
use super::repair::{BeforeCommit, repair};
use crate::data_folder::artifact_files::ArtifactFiles;
use crate::data_folder::{OpenError, is_unmarked, lock, lock_if_writable, repair_format};
use crate::disk::lock::HeldLock;
use crate::disk::safe_open::{make_folder, sync_folder};
use crate::disk::{Disk, Folder};
use crate::format::segment::SEGMENT_BYTES;
use crate::format::segment_files::SegmentFiles;
use crate::index::{Index, IndexDifferences};

/// Result of an examination.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Examination {
    /// Damage of the journal, and the runs, pipelines and clients affected by any damage.
    pub journal: Findings,
    /// Damaged artifacts.
    pub artifacts: Vec<ArtifactError>,
    /// True if the index was unreadable. The index is rebuilt from the journal.
    pub index_broken: bool,
    /// Differences between the index and the records, if all records are readable. The index is not changed.
    pub index: IndexDifferences,
    /// True if the folder has records and no format file. The next opening writes one.
    pub format_missing: bool,
    /// True if the format file was damaged and was written again.
    pub format_repaired: bool,
    /// True if the folder is read-only. The index was not read then, so a missing end of the journal would be unnoticed.
    pub read_only: bool,
}

impl Examination {
    /// Returns whether nothing needs a repair.
    pub fn is_sound(&self) -> bool {
        self.journal.is_empty() && self.artifacts.is_empty()
    }
}

type LockAndEpoch = (HeldLock, u64);

pub(crate) fn examine(path: &Path, apply: bool) -> Result<Examination, OpenError> {
    let (lock, format_repaired) = match lock_if_writable(path) {
        Err(OpenError::FormatDamaged { .. }) if apply => {
            let held = lock(path)?;
            repair_format(path)?;
            (Some(held), true)
        }
        held => (held?, false),
    };
    if apply && lock.is_none() {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    let found = examine_locked(path, lock.as_ref(), apply)?;
    Ok(Examination { format_repaired, ..found })
}

fn check(lock: Option<&LockAndEpoch>) -> io::Result<()> {
    lock.map_or(Ok(()), |(lock, _)| lock.check())
}

/// [`examine`] with a lock, or without one for a read-only folder.
pub(crate) fn examine_locked(
    path: &Path,
    lock: Option<&LockAndEpoch>,
    apply: bool,
) -> Result<Examination, OpenError> {
    let io = |error| OpenError::io(path, error);
    let disk = Arc::new(Folder::new(&path.join("journal")));
    if lock.is_some() {
        make_folder(&path.join("journal")).map_err(io)?;
        atomic_replace::finish(&*disk).map_err(io)?;
    }
    let artifacts = CheckedArtifacts::read(&path.join("artifacts")).map_err(io)?;
    let index = Index::open(lock.is_some().then(|| path.join("index.redb")).as_deref());
    let segments = SegmentFiles::new(Arc::clone(&disk) as Arc<dyn Disk>, SEGMENT_BYTES);
    let epoch_seen = lock.map_or(0, |(_, epoch)| *epoch);
    let mut commit = || {
        check(lock)?;
        index.clear();
        sync_folder(path)?;
        check(lock)
    };
    let commit: Option<BeforeCommit<'_>> = if apply { Some(&mut commit) } else { None };
    let found = repair(&segments, &index, epoch_seen, &|digest| artifacts.fault(digest), commit);
    if found.is_err() && lock.is_some() && check(lock).is_ok() {
        // The unfinished new files may be what fills the disk.
        let _ = atomic_replace::finish(&*disk);
    }
    let journal = found.map_err(|error| OpenError::journal(path, error))?;
    let differences = match journal.is_whole() {
        true => audit_index(&segments, &index).map_err(io)?,
        false => IndexDifferences::default(),
    };
    if apply {
        // After quarantining the runs naming them: a missing artifact then surprises no reader.
        artifacts.quarantine_damaged(|| check(lock)).map_err(io)?;
    }
    Ok(Examination {
        journal,
        artifacts: artifacts.into_errors(),
        index_broken: index.was_unreadable,
        index: differences,
        format_missing: is_unmarked(path),
        format_repaired: false,
        read_only: lock.is_none(),
    })
}

struct CheckedArtifacts {
    files: ArtifactFiles,
    present: BTreeSet<Digest>,
    damaged: HashMap<Digest, ArtifactError>,
}

impl CheckedArtifacts {
    fn read(root: &Path) -> io::Result<CheckedArtifacts> {
        let files = ArtifactFiles::at(root);
        let present: BTreeSet<Digest> = files.list()?.into_iter().collect();
        let damaged =
            present.iter().filter_map(|digest| Some((*digest, files.get(*digest).err()?))).collect();
        Ok(CheckedArtifacts { files, present, damaged })
    }

    /// Describes a damaged or missing artifact. A file that cannot be read now may be readable later, and counts as intact.
    fn fault(&self, digest: Digest) -> Option<String> {
        match self.damaged.get(&digest) {
            Some(error @ ArtifactError::Damaged { .. }) => Some(error.to_string()),
            Some(_) => None,
            None if self.present.contains(&digest) => None,
            None => Some(format!("artifact {digest} is missing")),
        }
    }

    fn quarantine_damaged(&self, check: impl Fn() -> io::Result<()>) -> io::Result<()> {
        for (digest, error) in &self.damaged {
            if matches!(error, ArtifactError::Damaged { .. }) {
                check().and_then(|()| self.files.quarantine(*digest))?;
            }
        }
        Ok(())
    }

    fn into_errors(self) -> Vec<ArtifactError> {
        let mut errors: Vec<ArtifactError> = self.damaged.into_values().collect();
        errors.sort_by_key(ArtifactError::to_string);
        errors
    }
}
