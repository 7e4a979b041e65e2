//! The lock of a data folder: at most one process writes.
//!
//! The lock belongs to the open file (`flock`). The kernel releases the lock when the holder ends, for any reason, and not
//! before, so a suspended holder still holds the lock.
//!
//! An operator may still delete or replace the lock file; another process can then lock the new file while the first is alive.
//! Fencing limits the damage: the holder compares the file under the lock's path with the held file before each write and
//! again before acknowledging the write. A holder that lost its file writes and acknowledges nothing more. Epochs are the last
//! line of defence on file systems without working locks: each opening starts a higher epoch, every frame carries the epoch
//! of its writer, and recovery rejects a frame of a lower epoch behind a frame of a higher one.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::safe_open::open_regular;

const TEXT_BYTES: usize = 48;

/// The held lock of a data folder; dropping releases the lock.
pub(crate) struct HeldLock {
    file: File,
    name: LockName,
}

/// The name of a held lock, for checks by parts of the process that do not keep the lock.
#[derive(Debug, Clone)]
pub(crate) struct LockName {
    path: PathBuf,
    /// Device and inode of the held file.
    identity: (u64, u64),
}

#[derive(Debug)]
pub(crate) enum LockError {
    /// Another holder; with the process id, if the holder has recorded one.
    Held(Option<u32>),
    NotAFile,
    Io(io::Error),
}

/// The lock file was deleted or replaced; another process may hold the folder.
#[derive(Debug, thiserror::Error)]
#[error("{}: the lock file was deleted or replaced; another process may hold the folder", .0.display())]
pub(crate) struct LockLost(PathBuf);

impl LockLost {
    pub(crate) fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<LockLost>())
    }
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> LockError {
        LockError::Io(error)
    }
}

impl HeldLock {
    /// Takes the lock and returns the last holder's epoch; 0 without a readable one.
    pub(crate) fn take(path: &Path) -> Result<(HeldLock, u64), LockError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let Some(file) = open_regular(&mut options, path)? else { return Err(LockError::NotAFile) };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held(read_holder(&file)?.map(|(pid, _)| pid)));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let epoch = read_holder(&file)?.map_or(0, |(_, epoch)| epoch);
        let held = file.metadata()?;
        let name = LockName { path: path.to_owned(), identity: (held.dev(), held.ino()) };
        let lock = HeldLock { file, name };
        // The file may have been deleted between opening and locking.
        lock.check()?;
        lock.write(epoch)?;
        Ok((lock, epoch))
    }

    pub(crate) fn write(&self, epoch: u64) -> io::Result<()> {
        let mut text = format!("{} {epoch}", std::process::id());
        while text.len() < TEXT_BYTES - 1 {
            text.push(' ');
        }
        text.push('\n');
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.sync_data()
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    /// See [`LockName::check`].
    pub(crate) fn check(&self) -> io::Result<()> {
        self.name.check()
    }
}

impl LockName {
    /// Checks that the lock's path still names the held file.
    ///
    /// # Errors
    ///
    /// [`LockLost`] if the path names no file or another one.
    pub(crate) fn check(&self) -> io::Result<()> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(io::Error::other(LockLost(self.path.clone()))),
        }
    }
}

fn read_holder(file: &File) -> io::Result<Option<(u32, u64)>> {
    let mut bytes = [0; TEXT_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let mut words = text.split_whitespace();
    let numbers =
        words.next().and_then(|pid| pid.parse().ok()).zip(words.next().and_then(|e| e.parse().ok()));
    Ok(numbers)
}
