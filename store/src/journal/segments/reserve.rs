//! A file that holds room for the time when there is none: then it goes, and the operator can still cancel.

use std::io;

use super::files::Files;

const NAME: &str = "reserve";

/// Written and removed to see whether there is room.
const PROBE: &str = "probe";

/// Whether the reserve is there, all of its bytes taken.
pub(crate) fn is_there(files: &Files, bytes: u64) -> io::Result<bool> {
    match files.disk.open(NAME, false) {
        Ok(file) => Ok(file.read_at(&mut [0], bytes - 1)? == 1),
        Err(_) => Ok(false),
    }
}

/// Makes sure that the reserve is there, all of its bytes taken.
pub(crate) fn ensure(files: &Files, bytes: u64) -> io::Result<()> {
    if is_there(files, bytes)? {
        return Ok(());
    }
    let filled = files.disk.open(NAME, true).and_then(|file| file.write_at(&vec![0; bytes as usize], 0));
    filled.inspect_err(|_| drop(files.disk.remove(NAME)))
}

/// Makes sure of the reserve, and that `more` bytes can be taken beside it; else there is none.
pub(crate) fn ensure_with_room(files: &Files, bytes: u64, more: usize) -> io::Result<()> {
    ensure(files, bytes)?;
    let taken = files.disk.open(PROBE, true).and_then(|file| file.write_at(&vec![0; more], 0));
    let taken = files.disk.remove(PROBE).and(taken);
    taken.inspect_err(|_| drop(files.disk.remove(NAME)))
}

/// Does something with the room of the reserve, which is taken again afterwards, if there is any.
pub(crate) fn without<T>(files: &Files, bytes: u64, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    release(files)?;
    let done = act();
    if let Err(error) = ensure(files, bytes) {
        tracing::warn!(%error, "no room for the reserve");
    }
    done
}

/// Gives the room of the reserve up.
pub(crate) fn release(files: &Files) -> io::Result<()> {
    match files.disk.remove(NAME) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => files.disk.sync(),
    }
}
