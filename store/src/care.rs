//! Looking after a data folder that nobody has open: finding out what is damaged, setting aside what that touches, removing
//! what is no longer to be kept.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::port::ArtifactError;

use crate::artifact;
use crate::data_folder::{OpenError, Store, is_unmarked, lock_if_writable, make_folder, sync_folder};
use crate::disk::{Disk, Folder};
use crate::index::{Index, IndexDifferences};
use crate::journal::segments::{self, Findings, Options, Unwanted};
use crate::lock::HeldLock;

/// Unwanted runs that are worth it to write the journal anew, whatever else it holds.
const UNWANTED_RUNS_MAX: usize = 1_000;

/// What is wrong with a data folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Examination {
    /// What is wrong with its journal, and the runs and clients that anything wrong touches.
    pub journal: Findings,
    /// What is wrong with its artifacts.
    pub artifacts: Vec<ArtifactError>,
    /// Whether its index could not be read. It is built again from the journal.
    pub index_broken: bool,
    /// What its index says otherwise than the records that it was made of, if these are whole. It is not changed.
    pub index: IndexDifferences,
    /// Whether it has records and no format file. Who opens it next writes that anew.
    pub format_missing: bool,
    /// Whether it may only be read. Its index was not asked then, so that nobody knows whether the end of its journal is gone.
    pub read_only: bool,
}

impl Examination {
    /// Whether there is nothing to repair.
    pub fn is_sound(&self) -> bool {
        self.journal.is_empty() && self.artifacts.is_empty()
    }
}

/// What was removed from a data folder, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Garbage {
    /// Runs that were over, ascending.
    pub runs: Vec<RunId>,
    /// Runs that had been set aside because something of them was damaged, ascending.
    pub quarantined: Vec<RunId>,
    /// Events of pipelines that were over the quota.
    pub pipeline_events: u64,
    /// Records of what became of stages of pipelines that later ones made needless.
    pub stage_records: u64,
    /// Bytes of the journal's records before.
    pub journal_bytes_before: u64,
    /// Bytes of the journal's records after.
    pub journal_bytes_after: u64,
    /// Artifacts that no record names any more.
    pub artifacts: u64,
    /// Their bytes.
    pub artifact_bytes: u64,
    /// Damaged artifacts that [`Store::repair`] had set aside, with the runs that were.
    pub damaged: u64,
    /// Their bytes.
    pub damaged_bytes: u64,
}

impl Store {
    /// Finds out what is wrong with the data folder at `path` and which runs that touches, and changes no record of it. Reads
    /// everything, and compares the index with it. What [`Store::repair`] or [`Store::collect`] had begun and did not finish is finished first.
    ///
    /// # Errors
    ///
    /// Somebody holds the folder, or it cannot be read.
    pub fn examine(path: &Path) -> Result<Examination, OpenError> {
        examine(path, false)
    }

    /// Sets aside what damage touches: those runs, and nothing else. What is left of them is kept, listed, and never goes on; the
    /// damaged segments are kept beside the journal as they were found. Whatever ends this half-way, the folder is as it was
    /// before or as it is after. Done twice, the second time finds nothing.
    ///
    /// # Errors
    ///
    /// Somebody holds the folder, or it cannot be read or written.
    pub fn repair(path: &Path) -> Result<Examination, OpenError> {
        examine(path, true)
    }

    /// Removes runs that are no longer to be kept, and what pipelines do not need any more, with `apply`; else only tells what would be
    /// removed. What clients were charged for runs stays, and so do the numbers of events. Whatever ends this half-way, the journal is as it was before or as it is after.
    ///
    /// # Errors
    ///
    /// The folder is damaged, somebody holds it, or it cannot be read or written.
    pub fn collect(path: &Path, unwanted: Unwanted, apply: bool) -> Result<Garbage, OpenError> {
        let Some((lock, epoch_seen)) = lock_if_writable(path)? else {
            return Err(OpenError::ReadOnly { path: path.to_owned() });
        };
        let index = Index::open(Some(&path.join("index.redb")));
        let garbage = collect(path, &index, &Options::default(), unwanted, (&lock, epoch_seen), apply);
        drop(lock);
        garbage
    }
}

fn examine(path: &Path, apply: bool) -> Result<Examination, OpenError> {
    let lock = lock_if_writable(path)?;
    if apply && lock.is_none() {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    examine_within(path, lock.as_ref(), apply)
}

/// Whether the folder is still ours, who are about to change it.
fn check(lock: Option<&(HeldLock, u64)>) -> io::Result<()> {
    lock.map_or(Ok(()), |(lock, _)| lock.check())
}

fn examine_within(
    path: &Path,
    lock: Option<&(HeldLock, u64)>,
    apply: bool,
) -> Result<Examination, OpenError> {
    let io = |error| OpenError::io(path, error);
    let disk = Arc::new(Folder::new(&path.join("journal")));
    if lock.is_some() {
        make_folder(&path.join("journal")).map_err(io)?;
        segments::finish_swap(&*disk).map_err(io)?;
    }
    let files = artifact::Files::at(&path.join("artifacts"));
    let present: BTreeSet<Digest> = files.list().map_err(io)?.into_iter().collect();
    let damaged: HashMap<Digest, ArtifactError> =
        present.iter().filter_map(|digest| Some((*digest, files.get(*digest).err()?))).collect();
    let wrong = |digest: Digest| match damaged.get(&digest) {
        Some(error @ ArtifactError::Damaged { .. }) => Some(error.to_string()),
        // One that cannot be read now may be another time.
        Some(_) => None,
        None if present.contains(&digest) => None,
        None => Some(format!("artifact {digest} is missing")),
    };
    let index = Index::open(lock.is_some().then(|| path.join("index.redb")).as_deref());
    let segment_files = segments::Files::new(Arc::clone(&disk) as Arc<dyn Disk>, segments::SEGMENT_BYTES);
    let epoch_seen = lock.map_or(0, |(_, epoch)| *epoch);
    let mut commit = || {
        check(lock)?;
        index.reset();
        sync_folder(path)?;
        check(lock)
    };
    let commit: Option<&mut dyn FnMut() -> io::Result<()>> = if apply { Some(&mut commit) } else { None };
    let found = segments::repair(&segment_files, &index, epoch_seen, &wrong, commit);
    if found.is_err() && lock.is_some() && check(lock).is_ok() {
        // What was written for it may be what fills the disk.
        let _ = segments::finish_swap(&*disk);
    }
    let journal = found.map_err(|error| OpenError::journal(path, error))?;
    let differences = match journal.is_whole() {
        true => segments::audit_index(&segment_files, &index).map_err(io)?,
        false => IndexDifferences::default(),
    };
    if apply {
        // After the runs that need them are set aside: what is missing then surprises nobody.
        for (digest, error) in &damaged {
            if matches!(error, ArtifactError::Damaged { .. }) {
                check(lock).and_then(|()| files.set_aside(*digest)).map_err(io)?;
            }
        }
    }
    let mut artifacts: Vec<ArtifactError> = damaged.into_values().collect();
    artifacts.sort_by_key(ArtifactError::to_string);
    Ok(Examination {
        journal,
        artifacts,
        index_broken: index.was_broken,
        index: differences,
        format_missing: is_unmarked(path),
        read_only: lock.is_none(),
    })
}

/// What is unwanted, if there is enough of it that writing the journal anew is worth it: as many runs as stay, or
/// [`UNWANTED_RUNS_MAX`].
pub(crate) fn worthwhile(index: &Index, unwanted: Unwanted) -> Option<Unwanted> {
    unwanted.closed_before_ms?;
    // Without an index nobody knows before the journal was read; the next opening will.
    let rows = index.rows(false).ok()?;
    let count = rows.iter().filter(|row| unwanted.holds(row)).count();
    (count > 0 && (count >= UNWANTED_RUNS_MAX || 2 * count >= rows.len())).then_some(unwanted)
}

/// Removes what is unwanted from a folder whose lock is held.
pub(crate) fn collect(
    path: &Path,
    index: &Index,
    options: &Options,
    unwanted: Unwanted,
    (lock, epoch_seen): (&HeldLock, u64),
    apply: bool,
) -> Result<Garbage, OpenError> {
    let io = |error| OpenError::io(path, error);
    let disk = Arc::new(Folder::new(&path.join("journal")));
    segments::finish_swap(&*disk).map_err(io)?;
    let journal = segments::Files::new(disk, options.segment_bytes);
    // What the journal has lost is needed still, and what it says of its runs may be of before they were over.
    segments::check_end(&journal, index).map_err(|error| OpenError::journal(path, error))?;
    let mut commit = || {
        lock.check()?;
        index.reset();
        sync_folder(path)?;
        lock.check()
    };
    let collected = segments::collect(
        &journal,
        unwanted,
        epoch_seen,
        options.reserve_bytes,
        if apply { Some(&mut commit) } else { None },
    );
    let collected = collected.map_err(|error| OpenError::journal(path, error))?;
    let files = artifact::Files::at(&path.join("artifacts"));
    let mut garbage = Garbage {
        runs: collected.runs,
        quarantined: collected.quarantined,
        pipeline_events: collected.bytes.events,
        stage_records: collected.stage_records,
        journal_bytes_before: collected.bytes.bytes_before,
        journal_bytes_after: collected.bytes.bytes_after,
        ..Garbage::default()
    };
    garbage.runs.sort_unstable();
    garbage.quarantined.sort_unstable();
    for digest in files.list().map_err(io)? {
        let (bytes, since_ms) = files.about(digest).map_err(io)?;
        // What is as young as an open run may be the result of an attempt that is not recorded yet.
        let is_young = collected.oldest_open_ms.is_some_and(|oldest| since_ms >= oldest);
        if is_young || collected.needed.contains(&digest) {
            continue;
        }
        garbage.artifacts += 1;
        garbage.artifact_bytes += bytes;
        if apply {
            lock.check().and_then(|()| files.remove(digest)).map_err(io)?;
        }
    }
    // They were kept for the runs that were set aside, all of which are gone by now.
    if unwanted.quarantined {
        for (damaged, bytes) in files.set_asides().map_err(io)? {
            garbage.damaged += 1;
            garbage.damaged_bytes += bytes;
            if apply {
                lock.check().and_then(|()| std::fs::remove_file(damaged)).map_err(io)?;
            }
        }
    }
    Ok(garbage)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    use ostler_kernel::event::{Event, RunOpened};
    use ostler_kernel::id::ClientId;
    use ostler_kernel::json::canonical;
    use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
    use ostler_kernel::run::RunOutcome;
    use serde_json::json;

    use super::*;

    /// A folder with a run that is over.
    fn filled(path: &Path) {
        let (store, _) = Store::open(path).unwrap();
        let (client, run) = (ClientId::from("acme"), RunId(uuid::Uuid::from_u128(7)));
        let opened = RunOpened {
            run,
            client: client.clone(),
            agent: "worker".into(),
            plan: canonical(&json!({"id": "p", "nodes": []})).unwrap(),
            intent: 1,
            scope: "default".into(),
            workspace: "/tmp".into(),
            policy_epoch: 1,
            seed: 7,
        };
        let closed = Event::RunClosed { outcome: RunOutcome::Succeeded };
        let events = vec![Event::RunOpened(Box::new(opened)), closed];
        let stream = StreamId::run(&client, run);
        store.journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 5, events }]).unwrap();
    }

    /// Every file of the journal, with what is in it, but for those that were to take the place of others.
    fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let all = fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path());
        let counts = all.filter(|path| path.extension().is_none_or(|it| it != "new"));
        counts.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Hands `act` a folder and its lock, which somebody has replaced.
    fn check_taken_over(prepare: impl Fn(&Path), act: impl Fn(&Path, &(HeldLock, u64)) -> OpenError) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        filled(&path);
        prepare(&path);
        let lock = lock_if_writable(&path).unwrap().unwrap();
        let copy = fs::read(path.join("lock")).unwrap();
        fs::remove_file(path.join("lock")).unwrap();
        fs::write(path.join("lock"), copy).unwrap();
        let before = files(&path);
        let error = act(&path, &lock);
        assert!(matches!(error, OpenError::Lost { .. }), "{error}");
        let after = files(&path);
        let names: Vec<_> =
            before.keys().chain(after.keys()).filter(|it| before.get(*it) != after.get(*it)).collect();
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn a_folder_that_was_taken_over_meanwhile_is_not_cleared() {
        let unwanted = Unwanted { closed_before_ms: Some(100), quarantined: false };
        check_taken_over(
            |_| {},
            |path, (lock, epoch)| {
                let index = Index::open(Some(&path.join("index.redb")));
                collect(path, &index, &Options::default(), unwanted, (lock, *epoch), true).unwrap_err()
            },
        );
    }

    #[test]
    fn a_folder_that_was_taken_over_meanwhile_is_not_repaired() {
        let damage = |path: &Path| {
            let mut names: Vec<PathBuf> =
                fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.retain(|name| name.extension().is_some_and(|it| it == "seg"));
            let mut bytes = fs::read(&names[0]).unwrap();
            let at = bytes.windows(6).position(|it| it == b"worker").unwrap();
            bytes[at] ^= 1;
            fs::write(&names[0], bytes).unwrap();
        };
        check_taken_over(damage, |path, lock| examine_within(path, Some(lock), true).unwrap_err());
    }
}
