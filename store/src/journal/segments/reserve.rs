//! A file that holds room for the time when there is none: then it goes, and the operator can still cancel.

use std::io;

use super::files::Files;

const NAME: &str = "reserve";

/// Makes sure that the reserve is there, all of its bytes taken.
pub(crate) fn ensure(files: &Files, bytes: u64) -> io::Result<()> {
    if let Ok(file) = files.disk.open(NAME, false)
        && file.read_at(&mut [0], bytes - 1)? == 1
    {
        return Ok(());
    }
    let filled = files.disk.open(NAME, true).and_then(|file| file.write_at(&vec![0; bytes as usize], 0));
    filled.inspect_err(|_| drop(files.disk.remove(NAME)))
}

/// Gives the room of the reserve up.
pub(crate) fn release(files: &Files) -> io::Result<()> {
    match files.disk.remove(NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => files.disk.sync(),
    }
}
