//! A file that holds room for the time when there is none: then it goes, and the operator can still cancel.

use std::io;

use super::files::Files;

const NAME: &str = "reserve";

/// Written and removed to see whether there is room.
const PROBE: &str = "probe";

/// Whether there is a reserve, or was one whose room was given up.
pub(crate) fn is_there(files: &Files) -> bool {
    files.disk.open(NAME, false).is_ok()
}

/// Makes sure that the reserve is there, all of its bytes taken.
pub(crate) fn ensure(files: &Files, bytes: u64) -> io::Result<()> {
    if let Ok(file) = files.disk.open(NAME, false)
        && file.read_at(&mut [0], bytes - 1)? == 1
    {
        return Ok(());
    }
    let was_there = is_there(files);
    let filled = files.disk.open(NAME, true).and_then(|file| file.write_at(&vec![0; bytes as usize], 0));
    filled.inspect_err(|_| give_up(files, was_there))
}

/// Makes sure of the reserve, and that `more` bytes can be taken beside it; else its room is free.
pub(crate) fn ensure_with_room(files: &Files, bytes: u64, more: usize) -> io::Result<()> {
    let was_there = is_there(files);
    ensure(files, bytes)?;
    let taken = files.disk.open(PROBE, true).and_then(|file| file.write_at(&vec![0; more], 0));
    let taken = files.disk.remove(PROBE).and(taken);
    taken.inspect_err(|_| give_up(files, was_there))
}

/// Gives its room up as far as that is possible. The name of one that there was stays: what room there is then is not for everybody.
fn give_up(files: &Files, was_there: bool) {
    let _ = if was_there { release(files) } else { files.disk.remove(NAME) };
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

/// Gives the room of the reserve up; its name stays.
pub(crate) fn release(files: &Files) -> io::Result<()> {
    match files.disk.open(NAME, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.and_then(|file| {
            file.set_len(0)?;
            file.sync()
        }),
    }
}
