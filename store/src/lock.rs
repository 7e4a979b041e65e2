//! One process holds a store.
//!
//! The lock belongs to the open file: the system gives it up when the process that holds it ends, however it
//! ends, and not before. So a holder that is only suspended still holds it, and nobody takes over from one that
//! may still write.
//!
//! Somebody may remove the file all the same, or put a copy in its place, and then another process takes over from
//! one that is alive. So the holder looks, before each write and before it says that the write is durable, whether
//! the file that it holds is the one that stands there: what comes after a takeover is neither written nor
//! acknowledged. Should a file system keep neither promise, epochs do: each opening begins a higher one, every
//! frame carries its own, and a frame of a lower epoch behind one of a higher is refused on opening.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::regular::open_regular;

/// Bytes of the lock file: two numbers, blanks, and the end of the line.
const TEXT_BYTES: usize = 48;

/// The lock of a data folder; released when dropped.
pub(crate) struct HeldLock {
    file: File,
    path: PathBuf,
    /// Which file that is: device and number.
    identity: (u64, u64),
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Somebody has it: the process, if it has written down which.
    Held(Option<u32>),
    /// What stands in its place is not a regular file.
    NotAFile,
    Io(io::Error),
}

/// Somebody else may hold the folder by now.
#[derive(Debug, thiserror::Error)]
#[error("{} is not the file that this process holds any more: another process may hold the folder now", .0.display())]
pub(crate) struct LockLost(PathBuf);

impl LockLost {
    /// Whether that is what an error tells.
    pub(crate) fn is_told_by(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<LockLost>())
    }
}

impl From<io::Error> for NotLocked {
    fn from(error: io::Error) -> NotLocked {
        NotLocked::Io(error)
    }
}

impl HeldLock {
    /// Takes the lock, and tells the epoch of the last holder (0: none, or not to be read).
    pub(crate) fn take(path: &Path) -> Result<(HeldLock, u64), NotLocked> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let Some(file) = open_regular(&mut options, path)? else { return Err(NotLocked::NotAFile) };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(NotLocked::Held(written(&file)?.map(|(pid, _)| pid)));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let epoch = written(&file)?.map_or(0, |(_, epoch)| epoch);
        let held = file.metadata()?;
        let lock = HeldLock { file, path: path.to_owned(), identity: (held.dev(), held.ino()) };
        // Somebody may have removed it between its opening and its lock.
        lock.check()?;
        lock.write(epoch)?;
        Ok((lock, epoch))
    }

    /// Writes down who holds the lock, and the epoch.
    pub(crate) fn write(&self, epoch: u64) -> io::Result<()> {
        let mut text = format!("{} {epoch}", std::process::id());
        while text.len() < TEXT_BYTES - 1 {
            text.push(' ');
        }
        text.push('\n');
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.sync_data()
    }

    /// Whether the file that is held is still the one that others would take.
    ///
    /// # Errors
    ///
    /// It is gone, or another stands in its place: somebody else may hold the folder by now.
    pub(crate) fn check(&self) -> io::Result<()> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(io::Error::other(LockLost(self.path.clone()))),
        }
    }
}

/// Process and epoch, where they can be read.
fn written(file: &File) -> io::Result<Option<(u32, u64)>> {
    let mut bytes = [0; TEXT_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let mut words = text.split_whitespace();
    let numbers =
        words.next().and_then(|pid| pid.parse().ok()).zip(words.next().and_then(|e| e.parse().ok()));
    Ok(numbers)
}
