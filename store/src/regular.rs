//! Opening files in a folder that others may write to: what stands there may be anything.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file: no link is followed, and nothing waits for somebody at the other end of a FIFO. `None`: something
/// else stands there.
///
/// # Errors
///
/// Those of opening a file.
pub(crate) fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match options.custom_flags(flags.bits() as i32).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Ok(None),
        // Links, folders and sockets are not opened, each for a reason of its own.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => Ok(None),
        Err(error) => Err(error),
    }
}
