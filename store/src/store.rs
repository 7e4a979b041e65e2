//! The store: a data folder opened by this process. Connects the online path with maintenance.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::data_folder::output_files::OUTPUT_FOLDER;
use crate::data_folder::{
    OpenError, WRITES_FILE, check_format, check_place, is_unmarked, lock, lock_if_writable,
};
use crate::disk::lock::HeldLock;
use crate::disk::safe_open::{make_folder, sync_folder};
use crate::disk::{Disk, Folder, is_full};
use crate::format::damage::{Damage, OpenJournalError};
use crate::format::lsn::Lsn;
use crate::format::segment_files::SegmentFiles;
use crate::index::Index;
use crate::maintenance::{self, Examination, Garbage, atomic_replace, scrub, verify};
use crate::online::integrity::{IntegrityChecks, SegmentToScrub};
use crate::online::{self, FolderArtifacts, FolderOutput, JournalOpened, SegmentJournal, WriteCounts};
use crate::options::{Options, RetentionPolicy};

/// An open data folder, held by this process until the journal is dropped.
pub struct Store {
    /// The journal.
    pub journal: Arc<SegmentJournal>,
    /// The artifacts.
    pub artifacts: Arc<FolderArtifacts>,
    /// The output of programs.
    pub output: Arc<FolderOutput>,
    /// The count of calls that have written in workspaces.
    pub writes: Arc<WriteCounts>,
}

/// Outcome of opening a data folder.
pub type Opened = JournalOpened;

struct Checks;

impl IntegrityChecks for Checks {
    fn scrub(&self, files: &SegmentFiles, segment: SegmentToScrub, until: Lsn) -> io::Result<Option<Damage>> {
        scrub::scrub(files, segment.number, segment.before, until)
    }

    fn verify(&self, files: &SegmentFiles, until: Option<Lsn>) -> io::Result<Vec<Damage>> {
        verify::verify(files, until)
    }

    fn verify_end(&self, files: &SegmentFiles, index: &Index) -> io::Result<Vec<Damage>> {
        verify::verify_end(files, index)
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Finishes an interrupted replacement of files, then opens the journal.
fn open_journal(
    disk: Arc<dyn Disk>,
    index: Index,
    options: Options,
    epoch_seen: u64,
    lock: impl FnOnce(u64) -> io::Result<Option<HeldLock>>,
) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
    options.check()?;
    atomic_replace::finish(&*disk)?;
    online::open(disk, index, options, epoch_seen, &Checks, lock)
}

impl SegmentJournal {
    /// Opens a journal on any [`Disk`], with an index in memory. For tests with a [`FaultyDisk`](crate::disk::FaultyDisk).
    ///
    /// # Errors
    ///
    /// See [`OpenJournalError`].
    pub fn on_disk(
        disk: Arc<dyn Disk>,
        options: Options,
    ) -> Result<(SegmentJournal, JournalOpened), OpenJournalError> {
        open_journal(disk, Index::open(None), options, 0, |_| Ok(None))
    }
}

impl Store {
    /// Opens the data folder at `path`. A missing folder is made, for the owner alone.
    ///
    /// Blocks while the journal is read: milliseconds with an index, up to seconds without. A torn tail is truncated and
    /// reported in [`Opened::torn`](JournalOpened::torn).
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; no error changes records.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let (store, opened) = ostler_store::Store::open(&folder.path().join("data"))?;
    /// assert_eq!(opened.epoch, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path) -> Result<(Store, Opened), OpenError> {
        Store::open_with(path, Options::default())
    }

    /// [`Store::open`] with other options. Removes expired runs first, once enough have expired
    /// ([`Options::retention`]).
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_with(path: &Path, options: Options) -> Result<(Store, Opened), OpenError> {
        let io = |error| OpenError::io(path, error);
        check_place(path)?;
        make_folder(path).map_err(io)?;
        let (lock, epoch_seen) = lock(path)?;
        let format_missing = is_unmarked(path);
        check_format(path, true)?;
        let journal_path = path.join("journal");
        make_folder(&journal_path).map_err(io)?;
        let artifacts = FolderArtifacts::open(&path.join("artifacts")).map_err(io)?;
        sync_folder(path).map_err(io)?;
        let disk = Arc::new(Folder::new(&journal_path));
        let index = Index::open(Some(&path.join("index.redb")));
        let mut removed = 0;
        if let Some(retention) = maintenance::worthwhile(&index, options.retention) {
            let held = (&lock, epoch_seen);
            match maintenance::collect_folder(path, &index, &options, retention, held, true) {
                // Nothing has changed. The remaining space is for an operator who cancels runs.
                Err(OpenError::Io { error, .. }) if is_full(&error) => {
                    tracing::warn!(%error, "no room to rewrite the journal without expired runs");
                }
                collected => removed = collected?.runs.len(),
            }
        }
        let artifacts = artifacts.held_by(lock.name().clone());
        let output = FolderOutput::at(&path.join(OUTPUT_FOLDER)).held_by(lock.name().clone());
        let writes_path = path.join(WRITES_FILE);
        let writes = match WriteCounts::open(&writes_path, epoch_seen + 1, lock.name().clone()) {
            // The remaining space is for an operator who cancels runs.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "no room for the count of calls that write: approved programs are asked about again");
                // A later process must not find counts without the calls of this one.
                remove_if_there(&writes_path).map_err(io)?;
                WriteCounts::unkept(epoch_seen + 1)
            }
            opened => opened.map_err(io)?,
        };
        let record_epoch = |epoch| lock.write(epoch).map(|()| Some(lock));
        let opened = open_journal(disk, index, options, epoch_seen, record_epoch);
        let (journal, opened) = opened.map_err(|error| OpenError::journal(path, error))?;
        let opened = Opened { format_missing, removed, ..opened };
        let (artifacts, output, writes) = (Arc::new(artifacts), Arc::new(output), Arc::new(writes));
        Ok((Store { journal: Arc::new(journal), artifacts, output, writes }, opened))
    }

    /// Checks that `path` is missing, empty, or a data folder. Reads only names.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotAFolder`], [`OpenError::LeadsNowhere`] or [`OpenError::Foreign`].
    pub fn check_place(path: &Path) -> Result<(), OpenError> {
        check_place(path)
    }

    /// Finds all damage in the data folder at `path` and the affected runs, and changes no record. Reads everything, and compares
    /// the index with the records. Finishes a [`Store::repair`] or [`Store::collect`] interrupted after its commit point first.
    ///
    /// # Errors
    ///
    /// Another process holds the folder, or the folder cannot be read.
    pub fn examine(path: &Path) -> Result<Examination, OpenError> {
        maintenance::examine(path, false)
    }

    /// Quarantines the runs affected by damage, and nothing else.
    ///
    /// Their readable records are kept in files, and the runs stay listed and never resume. Copies of the damaged segments stay
    /// beside the journal. A crash leaves the journal before or after the repair. A second repair finds nothing.
    ///
    /// # Errors
    ///
    /// Another process holds the folder, or the folder cannot be read or written.
    pub fn repair(path: &Path) -> Result<Examination, OpenError> {
        maintenance::examine(path, true)
    }

    /// Removes expired runs and unneeded pipeline records; without `apply`, only reports. Charges and the numbers of events
    /// stay. A crash leaves the journal before or after the change.
    ///
    /// # Errors
    ///
    /// The folder is damaged, another process holds it, or it cannot be read or written.
    pub fn collect(path: &Path, retention: RetentionPolicy, apply: bool) -> Result<Garbage, OpenError> {
        let Some((lock, epoch_seen)) = lock_if_writable(path)? else {
            return Err(OpenError::ReadOnly { path: path.to_owned() });
        };
        let index = Index::open(Some(&path.join("index.redb")));
        let held = (&lock, epoch_seen);
        maintenance::collect_folder(path, &index, &Options::default(), retention, held, apply)
    }

    /// Reports the present garbage of a folder that another process holds. Changes nothing.
    ///
    /// # Errors
    ///
    /// The folder is damaged or cannot be read.
    pub fn garbage_beside_holder(path: &Path, retention: RetentionPolicy) -> Result<Garbage, OpenError> {
        maintenance::report_beside_holder(path, &Options::default(), retention)
    }
}
