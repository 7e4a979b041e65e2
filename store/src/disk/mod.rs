//! What the journal needs of a file system, small enough that a test can put a bad one in its place.

mod faulty;
mod folder;

use std::io;
use std::sync::Arc;

pub use faulty::FaultyDisk;
pub use folder::Folder;

/// A folder of files.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file for reading and writing; with `create`, makes it if it is not there.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;

    /// Names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name; what had that name before is gone. Nobody ever sees neither.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes created, changed and removed names durable.
    fn sync(&self) -> io::Result<()>;
}

/// The length of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// All bytes behind this many are zeros.
    pub used: u64,
}

/// A file whose every operation names its place, so that threads can share it.
pub trait DiskFile: Send + Sync {
    /// Reads up to the length of `buffer`; fewer bytes only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// How long it is, and how much of it need be read.
    fn extent(&self) -> io::Result<Extent>;

    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file, or extends it with a hole that reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

/// Whether `error` says that there is no room, rather than that something broke: on the disk, for this user, or below the size that
/// a file of this process may have.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
