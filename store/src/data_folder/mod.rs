//! The data folder: layout, format file, checks of the place, locking, artifact files.
//!
//! ```text
//! DATA/format            version of the layout
//! DATA/lock              holder and epoch
//! DATA/journal/*.seg     the journal, the only truth
//! DATA/index.redb        index of the journal; may be deleted
//! DATA/artifacts/ab/…    results too large for a record
//! DATA/output/*.jsonl    output of programs, for people; may be deleted
//! DATA/writes            count of calls that wrote in workspaces, for approvals; without it they are asked about again
//! DATA/programs/         running programs; kept by the drivers, may be deleted while no process holds the folder
//! DATA/plans/*.yaml      learnt plans, which belong to the user: nothing here writes or removes them
//! ```

pub(crate) mod artifact_files;
mod error;
mod format_file;
pub(crate) mod output_files;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::lock::{HeldLock, LockError};

pub use error::OpenError;
pub(crate) use format_file::{check_format, is_unmarked, repair_format};

/// Names allowed in a folder without a format file: opening was interrupted.
const KNOWN_NAMES: &[&str] = &[
    "lock",
    "format",
    "format.new",
    "journal",
    "index.redb",
    "artifacts",
    "output",
    WRITES_FILE,
    "programs",
    "mcp",
    "operators",
    "callback.key",
    "plans",
    "control.sock",
    "lockdown",
    "ostler.toml",
];

/// Name of the file with the count of calls that have written in workspaces.
pub(crate) const WRITES_FILE: &str = "writes";

/// Start of the names of files that `doctor` wrote to measure the disk, and left when it was killed.
const PROBE: &str = ".ostler-probe-";

pub(crate) fn check_place(path: &Path) -> Result<(), OpenError> {
    check_is_folder(path)?;
    if let Some(entry) = foreign_entry(path) {
        return Err(OpenError::Foreign { path: path.to_owned(), entry });
    }
    ["journal", "artifacts"].iter().try_for_each(|part| check_is_folder(&path.join(part)))
}

fn check_is_folder(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(OpenError::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match dangling_link(path) {
            Some((link, target)) => Err(OpenError::LeadsNowhere { link, target }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn dangling_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    // `components` drops a trailing slash; with one, the system resolves the link.
    let mut parts = path.components().as_path().ancestors();
    let link = parts.find(|part| fs::symlink_metadata(part).is_ok())?;
    let target = fs::read_link(link).ok()?;
    let target = link.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    fs::metadata(link).is_err().then(|| (link.to_owned(), target))
}

/// An entry unknown to data folders, in a folder without a format file.
fn foreign_entry(path: &Path) -> Option<String> {
    if fs::symlink_metadata(path.join("format")).is_ok() {
        return None;
    }
    let names =
        fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_ours = |name: &String| KNOWN_NAMES.contains(&name.as_str()) || name.starts_with(PROBE);
    let other = names.filter(|name| !is_ours(name)).min();
    other.or_else(|| foreign_journal_entry(&path.join("journal")))
}

/// An entry of a non-empty folder `journal` without any file of a journal.
fn foreign_journal_entry(path: &Path) -> Option<String> {
    let entries = fs::read_dir(path).ok()?.flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let is_ours = |name: &String| name.ends_with(".seg") || name == "reserve";
    let first = names.iter().min().filter(|_| !names.iter().any(is_ours))?;
    Some(format!("journal/{first}"))
}

/// Takes the lock of the folder at `path`, made if missing, and returns the last holder's epoch.
pub(crate) fn lock(path: &Path) -> Result<(HeldLock, u64), OpenError> {
    let lock_path = path.join("lock");
    HeldLock::take(&lock_path).map_err(|error| match error {
        LockError::Held(pid) => OpenError::Held { path: path.to_owned(), pid },
        LockError::NotAFile => OpenError::NotAFile { path: lock_path },
        LockError::Io(error) => OpenError::io(path, error),
    })
}

/// Takes the lock of an existing folder. `None`: the folder is read-only, so no process can write to the folder either.
pub(crate) fn lock_if_writable(path: &Path) -> Result<Option<(HeldLock, u64)>, OpenError> {
    fs::read_dir(path).map_err(|error| OpenError::io(path, error))?;
    check_place(path)?;
    check_format(path, false)?;
    let lock_path = path.join("lock");
    match HeldLock::take(&lock_path) {
        Ok(taken) => Ok(Some(taken)),
        Err(LockError::Held(pid)) => Err(OpenError::Held { path: path.to_owned(), pid }),
        Err(LockError::NotAFile) => Err(OpenError::NotAFile { path: lock_path }),
        Err(LockError::Io(_)) => Ok(None),
    }
}
