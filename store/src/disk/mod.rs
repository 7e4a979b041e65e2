//! The file system as the journal sees it: a trait small enough for a faulty implementation in tests, and the locking and safe
//! opening of real files.

mod faulty;
mod folder;
pub(crate) mod lock;
pub(crate) mod reserve;
pub(crate) mod safe_open;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use faulty::FaultyDisk;
pub use folder::Folder;

/// A folder of files.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file for reading and writing; with `create`, makes a missing file.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// Names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file atomically, replacing any file with the name `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes created, renamed and removed names durable.
    fn sync(&self) -> io::Result<()>;
}

/// Length of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub len: u64,
    /// All bytes from this offset on are zeros.
    pub used: u64,
}

/// A file with positioned operations only, so threads can share it.
pub trait DiskFile: Send + Sync {
    /// Fills `buffer`, except at the end of the file, and returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The length, and the length without a trailing hole.
    fn extent(&self) -> io::Result<Extent>;

    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file, or extends the file with a hole reading as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

/// Free space of the file system of `path`, in bytes; `None` if it reports none.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok().filter(|disk| disk.f_blocks > 0)?;
    // Blocks reserved for root count for root alone.
    let free = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    Some(free.saturating_mul(disk.f_frsize))
}

/// Returns whether `error` reports a lack of space: a full disk, a quota, or the process's limit on file sizes.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
