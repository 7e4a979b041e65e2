//! Opening files in folders that other users may write to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file without following links and without blocking on a FIFO. `None`: another kind of file.
///
/// # Errors
///
/// The errors of opening a file.
pub(crate) fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match options.custom_flags(flags.bits() as i32).open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Ok(None),
        // Opening a link, a folder or a socket fails with various errors.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a folder for the owner alone, unless the folder exists.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    path.parent().map_or(Ok(()), |parent| {
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    })
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
