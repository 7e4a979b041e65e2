//! The format file of a data folder.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use super::OpenError;
use crate::disk::safe_open::{open_regular, sync_folder};
use crate::format::{FORMAT, segment};

const FORMAT_NAME: &str = "ostler-store";

const FORMAT_BYTES_MAX: u64 = 64;

/// Returns whether a folder has records and no format file. The records are readable: each names the version of its own encoding.
pub(crate) fn is_unmarked(path: &Path) -> bool {
    let format = fs::symlink_metadata(path.join("format"));
    format.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        && fs::read_dir(path.join("journal")).is_ok_and(|mut names| names.next().is_some())
}

/// Checks the format file. With `write`, a missing file or one of an earlier version is written; without, the file may be missing
/// beside a journal or an index.
pub(crate) fn check_format(path: &Path, write: bool) -> Result<(), OpenError> {
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
                // This program may add records unknown to the version that wrote the file.
                Some(found) if found < FORMAT && write => write_format(path),
                Some(_) => Ok(()),
                None if has_segments(path) => {
                    Err(OpenError::FormatDamaged { path: path.to_owned(), found: text })
                }
                None => Err(OpenError::NotOurs { path: path.to_owned(), found: text }),
            }
        }
        Ok(None) => Err(OpenError::NotAFile { path: file }),
        Err(error) if write && error.kind() == io::ErrorKind::NotFound => write_format(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_journal_or_index(path) => Ok(()),
        Err(error) => Err(OpenError::io(&file, error)),
    }
}

/// Writes the format file of a folder whose own is damaged. The caller holds the lock.
pub(crate) fn repair_format(path: &Path) -> Result<(), OpenError> {
    write_format(path)?;
    sync_folder(path).map_err(|error| OpenError::io(path, error))
}

/// Returns whether the folder has a segment of a journal of this program.
fn has_segments(path: &Path) -> bool {
    let journal = path.join("journal");
    let entries = fs::read_dir(&journal).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().and_then(segment::number).is_some()).any(|entry| {
        let mut start = [0; segment::MAGIC.len()];
        let segment = open_regular(File::options().read(true), &entry.path()).ok().flatten();
        segment.is_some_and(|mut segment| segment.read_exact(&mut start).is_ok() && start == *segment::MAGIC)
    })
}

fn has_journal_or_index(path: &Path) -> bool {
    path.join("journal").is_dir() || path.join("index.redb").is_file()
}

/// Writes the format file. The caller syncs the folder.
fn write_format(path: &Path) -> Result<(), OpenError> {
    let text = format!("{FORMAT_NAME} {FORMAT}\n");
    let temporary = path.join("format.new");
    replace_file(&temporary, &path.join("format"), text.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => OpenError::NotAFile { path: temporary },
        _ => OpenError::io(path, error),
    })
}

/// Replaces a file by way of a temporary file and a rename: a crash leaves the old file or the new one. The caller syncs the
/// folder.
fn replace_file(temporary: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    // A leftover is unfinished or foreign, so it is removed rather than written into.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = File::create_new(temporary)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(temporary, file)
}
