//! The reserve: a file of allocated blocks, given up when the disk is full so that an operator can still cancel runs.

use std::io;

use super::Disk;

const NAME: &str = "reserve";

const PROBE: &str = "probe";

/// Returns whether the file exists, with or without blocks.
pub(crate) fn exists(disk: &dyn Disk) -> bool {
    disk.open(NAME, false).is_ok()
}

/// Allocates the reserve's blocks, unless they are allocated already.
pub(crate) fn ensure(disk: &dyn Disk, bytes: u64) -> io::Result<()> {
    if let Ok(file) = disk.open(NAME, false)
        && file.read_at(&mut [0], bytes - 1)? == 1
    {
        return Ok(());
    }
    let existed = exists(disk);
    let filled = disk.open(NAME, true).and_then(|file| file.write_at(&vec![0; bytes as usize], 0));
    filled.inspect_err(|_| give_up(disk, existed))
}

/// Allocates the reserve and checks for `more` free bytes beside it. On failure the reserve's blocks are free.
pub(crate) fn ensure_with_room(disk: &dyn Disk, bytes: u64, more: usize) -> io::Result<()> {
    let existed = exists(disk);
    ensure(disk, bytes)?;
    let taken = disk.open(PROBE, true).and_then(|file| file.write_at(&vec![0; more], 0));
    let taken = disk.remove(PROBE).and(taken);
    taken.inspect_err(|_| give_up(disk, existed))
}

/// Frees the blocks as far as possible. The name of an existing reserve stays: it marks the free space as the operator's.
fn give_up(disk: &dyn Disk, existed: bool) {
    let _ = if existed { release(disk) } else { disk.remove(NAME) };
}

/// Runs `act` with the reserve's blocks free, and allocates them again afterwards if the disk has room.
pub(crate) fn without<T>(disk: &dyn Disk, bytes: u64, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    release(disk)?;
    let done = act();
    if let Err(error) = ensure(disk, bytes) {
        tracing::warn!(%error, "no room for the reserve");
    }
    done
}

/// Frees the reserve's blocks; the empty file stays.
pub(crate) fn release(disk: &dyn Disk) -> io::Result<()> {
    match disk.open(NAME, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.and_then(|file| {
            file.set_len(0)?;
            file.sync()
        }),
    }
}
