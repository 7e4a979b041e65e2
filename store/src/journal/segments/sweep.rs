//! Reading what the index covers, for nothing but its checksums: a journal that is damaged is not written to.

use std::io;
use std::sync::Arc;
use std::thread;

use super::Shared;
use super::files::Files;
use super::frame::{self, Found, Place};
use super::segment::{self, SEGMENT_HEADER_BYTES};
use super::verify::Damage;

/// Whether every frame of a segment before `until` has the checksum that it was written with; `before` is the segment before it.
pub(crate) fn sweep(files: &Files, number: u32, before: u32, until: Place) -> io::Result<Option<Damage>> {
    let mut bytes = files.read_segment(number)?;
    if until.segment() == number {
        bytes.truncate(until.offset() as usize);
    }
    if segment::previous(number, &bytes) != Some(before) {
        let what = Damage::header(number, before, &bytes);
        return Ok(Some(Damage::new(Place::new(number, 0), what, Vec::new())));
    }
    let mut at = SEGMENT_HEADER_BYTES;
    loop {
        let place = Place::new(number, at as u64);
        match frame::look(place, bytes.get(at..).unwrap_or(&[])) {
            Found::Frame { len, .. } => at += len,
            Found::Blank if bytes.get(at..).is_none_or(segment::is_blank) => return Ok(None),
            Found::Blank => {
                return Ok(Some(Damage::new(place, "blank, with something behind it".into(), Vec::new())));
            }
            Found::Bad(what) => return Ok(Some(Damage::new(place, what.to_owned(), Vec::new()))),
        }
    }
}

/// Sweeps the newest segments before `until` that `bytes_max` has room for, and gives the numbers of those that are left and
/// what they should follow.
pub(crate) fn sweep_newest(
    files: &Files,
    until: Place,
    bytes_max: u64,
) -> io::Result<Result<Vec<(u32, u32)>, Damage>> {
    let mut numbers = files.numbers()?;
    // Of a segment of which the index has nothing, not even the header needs to be there.
    let begun = until.offset() > SEGMENT_HEADER_BYTES as u64;
    numbers.retain(|number| *number < until.segment() || (begun && *number == until.segment()));
    let befores = [0].into_iter().chain(numbers.iter().copied());
    let mut left: Vec<(u32, u32)> = numbers.iter().copied().zip(befores).collect();
    let count = usize::try_from(bytes_max / files.segment_bytes).unwrap_or(usize::MAX);
    for (number, before) in left.split_off(left.len().saturating_sub(count)) {
        if let Some(damage) = sweep(files, number, before, until)? {
            return Ok(Err(damage));
        }
    }
    Ok(Ok(left))
}

/// Sweeps the rest beside what goes on, newest first. If something is damaged, nothing is written from there on.
pub(crate) fn sweep_beside(shared: &Arc<Shared>, mut left: Vec<(u32, u32)>, until: Place) -> io::Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    let shared = Arc::downgrade(shared);
    let sweep_all = move || {
        while let Some((number, before)) = left.pop() {
            // Whoever closes the journal does not wait for this.
            let Some(shared) = shared.upgrade() else { return };
            match sweep(&shared.files, number, before, until) {
                Ok(None) => {}
                Ok(Some(damage)) => {
                    return shared
                        .poison(format!("it is damaged: {damage}; `ostler doctor --repair` mends it"));
                }
                Err(error) => tracing::warn!(%error, number, "a segment could not be looked at"),
            }
        }
    };
    thread::Builder::new().name("journal-sweep".into()).spawn(sweep_all).map(drop)
}
