//! The data folder: what is where in it, and opening it.
//!
//! ```text
//! DATA/format            which layout this is
//! DATA/lock              who holds it, and the epoch
//! DATA/journal/*.seg     the journal: the truth
//! DATA/index.redb        where things are in it; may be deleted
//! DATA/artifacts/ab/…    results too large for a record
//! DATA/programs/         which programs run; kept by the drivers, may be deleted when nobody holds the folder
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::artifact::FolderArtifacts;
use crate::care;
use crate::disk::{Folder, is_full};
use crate::index::Index;
use crate::journal::segments::{self, Damage, JournalOpened, OpenJournalError, Options, SegmentJournal};
use crate::lock::{HeldLock, LockLost, NotLocked};
use crate::regular::open_regular;

/// The format of a data folder: its layout, and the kinds of records in it. A version of this program that adds to them has a new one, and marks
/// every folder with it that it opens to write, so that earlier versions leave it alone. It reads all earlier ones.
pub const FORMAT: u32 = 3;

const FORMAT_NAME: &str = "ostler-store";

/// How much of the format file is read.
const FORMAT_BYTES_MAX: u64 = 64;

/// An open data folder. The process holds it until the journal is dropped.
pub struct Store {
    /// The journal.
    pub journal: Arc<SegmentJournal>,
    /// The artifacts.
    pub artifacts: Arc<FolderArtifacts>,
}

/// What was found and done on opening.
pub type Opened = JournalOpened;

/// Why a data folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, has it open.
    #[error("{} is held by {}", path.display(), pid.map_or("another process".into(), |pid| format!("process {pid}")))]
    Held {
        /// The folder.
        path: PathBuf,
        /// Who holds it, unless it has not written that down yet.
        pid: Option<u32>,
    },
    /// What was once durable is not what it was. Nothing was changed.
    #[error("{} is damaged: {}", path.display(), told(damages))]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Everything that is wrong with its journal.
        damages: Vec<Damage>,
    },
    /// A later version of this program wrote it.
    #[error("{} has format {found}, this program knows up to {FORMAT}: a newer one wrote it", path.display())]
    NewerFormat {
        /// The folder.
        path: PathBuf,
        /// What its format file says.
        found: u32,
    },
    /// Its format file is not one of ours.
    #[error("{} is not a data folder: its format file says {found:?}", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The beginning of its format file.
        found: String,
    },
    /// It is no data folder yet, and other things are in it, which are left alone.
    #[error("{} is not a data folder: {entry} is in it", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the other things.
        entry: String,
    },
    /// It may not be written to.
    #[error("{} may only be read", path.display())]
    ReadOnly {
        /// The folder.
        path: PathBuf,
    },
    /// Its lock was removed or replaced while something was about to be changed, which was left as it was from there on.
    #[error("{}: its lock is not the file any more that this process held, and another process may hold it now", path.display())]
    Lost {
        /// The folder.
        path: PathBuf,
    },
    /// Something else is in its place.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The place.
        path: PathBuf,
    },
    /// It is a link, or stands below one, that leads nowhere. What it was to lead to is not made.
    #[error("{} is a link that leads nowhere: {} is not there", link.display(), target.display())]
    LeadsNowhere {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Something else is in the place of one of its files. It was not followed, and nothing was read from it.
    #[error("{} is not a regular file, and ostler made none but such", path.display())]
    NotAFile {
        /// The place.
        path: PathBuf,
    },
    /// The file system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

/// Damages that are told one by one; of more, how many.
const DAMAGES_TOLD_MAX: usize = 5;

fn told(damages: &[Damage]) -> String {
    let mut told: Vec<String> = damages.iter().take(DAMAGES_TOLD_MAX).map(Damage::to_string).collect();
    if damages.len() > DAMAGES_TOLD_MAX {
        told.push(format!("{} more places", damages.len() - DAMAGES_TOLD_MAX));
    }
    told.join("; ")
}

impl OpenError {
    pub(crate) fn journal(path: &Path, error: OpenJournalError) -> OpenError {
        match error {
            OpenJournalError::Damaged(damages) => OpenError::Damaged { path: path.to_owned(), damages },
            OpenJournalError::Io(error) => OpenError::io(path, error),
        }
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> OpenError {
        let path = path.to_owned();
        if LockLost::is_told_by(&error) {
            return OpenError::Lost { path };
        }
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::ReadOnly { path }
            }
            io::ErrorKind::NotADirectory => OpenError::NotAFolder { path },
            _ => OpenError::Io { path, error },
        }
    }
}

impl Store {
    /// Opens the data folder at `path`, made if it is not there (for its owner alone).
    ///
    /// Blocks while the journal is read: milliseconds with an index, up to seconds without. The torn end of a
    /// write that was cut short is cut off and reported.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; none of them changes anything.
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

    /// [`Store::open`] with sizes that are not the usual ones.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_with(path: &Path, options: Options) -> Result<(Store, Opened), OpenError> {
        let io = |error| OpenError::io(path, error);
        Store::check_place(path)?;
        make_folder(path).map_err(io)?;
        let lock_path = path.join("lock");
        let (lock, epoch_seen) = HeldLock::take(&lock_path).map_err(|error| match error {
            NotLocked::Held(pid) => OpenError::Held { path: path.to_owned(), pid },
            NotLocked::NotAFile => OpenError::NotAFile { path: lock_path },
            NotLocked::Io(error) => OpenError::io(path, error),
        })?;
        let format_missing = is_unmarked(path);
        check_format(path, true)?;
        let journal_path = path.join("journal");
        make_folder(&journal_path).map_err(io)?;
        let artifacts = FolderArtifacts::open(&path.join("artifacts")).map_err(io)?;
        sync_folder(path).map_err(io)?;
        let disk = Arc::new(Folder::new(&journal_path));
        let index = Index::open(Some(&path.join("index.redb")));
        let mut removed = 0;
        if let Some(unwanted) = care::worthwhile(&index, options.unwanted) {
            match care::collect(path, &index, &options, unwanted, (&lock, epoch_seen), true) {
                // Nothing has changed, and what is left of the room is for whoever comes to cancel.
                Err(OpenError::Io { error, .. }) if is_full(&error) => {
                    tracing::warn!(%error, "no room to write the journal anew without the runs that are no longer kept");
                }
                collected => removed = collected?.runs.len(),
            }
        }
        let keep = |epoch| lock.write(epoch).map(|()| Some(lock));
        let opened = segments::open(disk, index, options, epoch_seen, keep);
        let (journal, opened) = opened.map_err(|error| OpenError::journal(path, error))?;
        let opened = Opened { format_missing, removed, ..opened };
        Ok((Store { journal: Arc::new(journal), artifacts: Arc::new(artifacts) }, opened))
    }

    /// Whether nothing but a data folder stands at `path`, which may be nothing yet. Reads no more than what is in it.
    ///
    /// # Errors
    ///
    /// Something else is there: [`OpenError::NotAFolder`], [`OpenError::LeadsNowhere`] or [`OpenError::Foreign`].
    pub fn check_place(path: &Path) -> Result<(), OpenError> {
        check_folder(path)?;
        if let Some(entry) = foreign(path) {
            return Err(OpenError::Foreign { path: path.to_owned(), entry });
        }
        ["journal", "artifacts"].iter().try_for_each(|part| check_folder(&path.join(part)))
    }
}

/// Whether nothing but a folder stands at `path`, which may be nothing yet.
fn check_folder(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(OpenError::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match leads_nowhere(path) {
            Some((link, target)) => Err(OpenError::LeadsNowhere { link, target }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The link on the way to what is not there that leads nowhere, if it is for one, and where it leads.
fn leads_nowhere(path: &Path) -> Option<(PathBuf, PathBuf)> {
    // A link with a slash behind it is what it leads to.
    let mut parts = path.components().as_path().ancestors();
    let link = parts.find(|part| fs::symlink_metadata(part).is_ok())?;
    let target = fs::read_link(link).ok()?;
    let target = link.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    fs::metadata(link).is_err().then(|| (link.to_owned(), target))
}

/// The lock of a folder that is there, and the last epoch; `None`: it may only be read, so it cannot be locked, and nobody
/// can write to it either.
pub(crate) fn lock_if_writable(path: &Path) -> Result<Option<(HeldLock, u64)>, OpenError> {
    fs::read_dir(path).map_err(|error| OpenError::io(path, error))?;
    Store::check_place(path)?;
    check_format(path, false)?;
    let lock_path = path.join("lock");
    match HeldLock::take(&lock_path) {
        Ok(taken) => Ok(Some(taken)),
        Err(NotLocked::Held(pid)) => Err(OpenError::Held { path: path.to_owned(), pid }),
        Err(NotLocked::NotAFile) => Err(OpenError::NotAFile { path: lock_path }),
        Err(NotLocked::Io(_)) => Ok(None),
    }
}

/// What may stand in a folder that was begun and is not yet marked as one of ours.
const BEGUN: [&str; 9] = [
    "lock",
    "format",
    "format.new",
    "journal",
    "index.redb",
    "artifacts",
    "programs",
    "control.sock",
    "ostler.toml",
];

/// Something that no data folder has, in a folder that is not marked as one.
fn foreign(path: &Path) -> Option<String> {
    if fs::symlink_metadata(path.join("format")).is_ok() {
        return None;
    }
    let names =
        fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let other = names.filter(|name| !BEGUN.contains(&name.as_str())).min();
    other.or_else(|| foreign_journal(&path.join("journal")))
}

/// Something in a folder that is called as a journal is, and has nothing that a journal has.
fn foreign_journal(path: &Path) -> Option<String> {
    let entries = fs::read_dir(path).ok()?.flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_ours = |name: &String| name.ends_with(".seg") || name == "reserve";
    let first = names.iter().min().filter(|_| !names.iter().any(is_ours))?;
    Some(format!("journal/{first}"))
}

/// Whether a folder has records, and no format file. They are read all the same: what is too new of them says so itself.
pub(crate) fn is_unmarked(path: &Path) -> bool {
    let format = fs::symlink_metadata(path.join("format"));
    format.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        && fs::read_dir(path.join("journal")).is_ok_and(|mut names| names.next().is_some())
}

/// Checks the format file; with `write`, writes it where there is none, or one of an earlier version. Without, none is needed beside a
/// journal or its index.
fn check_format(path: &Path, write: bool) -> Result<(), OpenError> {
    let file = path.join("format");
    let io = |error| OpenError::io(path, error);
    match open_regular(File::options().read(true), &file) {
        Ok(Some(format)) => {
            let mut bytes = Vec::new();
            format.take(FORMAT_BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let found = text.trim_end().strip_prefix(FORMAT_NAME).and_then(|rest| rest.trim().parse().ok());
            match found {
                Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path: path.to_owned(), found }),
                // Records may follow that whoever wrote it does not know.
                Some(found) if found < FORMAT && write => mark(path),
                Some(_) => Ok(()),
                None => Err(OpenError::NotOurs { path: path.to_owned(), found: text }),
            }
        }
        Ok(None) => Err(OpenError::NotAFile { path: file }),
        Err(error) if write && error.kind() == io::ErrorKind::NotFound => mark(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_begun(path) => Ok(()),
        Err(error) => Err(OpenError::io(&file, error)),
    }
}

/// Whether there is a journal, or the index of one.
fn has_begun(path: &Path) -> bool {
    path.join("journal").is_dir() || path.join("index.redb").is_file()
}

/// Writes the format file. The folder is synced by the caller.
fn mark(path: &Path) -> Result<(), OpenError> {
    let text = format!("{FORMAT_NAME} {FORMAT}\n");
    let temporary = path.join("format.new");
    write_whole(&temporary, &path.join("format"), text.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => OpenError::NotAFile { path: temporary },
        _ => OpenError::io(path, error),
    })
}

/// Makes a file that is there as a whole or not at all. The folder is synced by the caller.
fn write_whole(temporary: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    // What stands there was not finished, or is somebody else's: it is not written into.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = File::create_new(temporary)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(temporary, file)
}

/// Makes a folder for its owner alone, if it is not there.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    path.parent().map_or(Ok(()), |parent| {
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    })
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
