//! Reading the journal from a mark on: what opening, catching up with the index and taking back have in common.

use std::io;

use super::files::Files;
use super::fold::{Fold, Misfit};
use super::frame::{FIRST, Place};
use super::segment::{self, SEGMENT_HEADER_BYTES, Step, Walk};
use super::verify::Damage;
use crate::index::{Broken, Index, Mark};

/// The journal from the index's mark on.
pub(crate) struct Loaded {
    pub(crate) fold: Fold,
    /// Where the next frame goes.
    pub(crate) end: Place,
    /// Where the last write began: all before it was synced before.
    pub(crate) last_write: Place,
    /// Whether the last frame says that nothing was under way.
    pub(crate) sealed: bool,
    /// Bytes of the last segment behind `end` that are no frames, and why.
    pub(crate) torn: Option<(usize, &'static str)>,
    /// The last segment, 0 if there is none.
    pub(crate) last_segment: u32,
    /// A segment whose creation was cut short.
    pub(crate) stillborn: Option<u32>,
}

impl Loaded {
    /// What an index covers, without a look at the journal.
    pub(crate) fn covered_by(mark: Mark) -> Loaded {
        let (end, last_segment) = (mark.upto, mark.upto.segment());
        let fold = Fold::after(Some(mark));
        Loaded { fold, end, last_write: end, sealed: true, torn: None, last_segment, stillborn: None }
    }
}

/// Why the journal could not be read.
#[derive(Debug)]
pub(crate) enum LoadError {
    Io(io::Error),
    Index(Broken),
    Damaged(Damage),
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Io(error)
    }
}

impl From<Broken> for LoadError {
    fn from(broken: Broken) -> LoadError {
        LoadError::Index(broken)
    }
}

/// Reads every frame from the index's mark on, up to `until`.
pub(crate) fn load(files: &Files, index: &Index, until: Option<Place>) -> Result<Loaded, LoadError> {
    let mark = index.mark()?;
    let mut numbers = files.numbers()?;
    if let Some(until) = until {
        let begun = until.offset() > SEGMENT_HEADER_BYTES as u64;
        numbers.retain(|number| *number < until.segment() || (begun && *number == until.segment()));
    }
    if let Some(mark) = mark {
        recognise(files, mark)?;
    }
    let end = mark.map_or(Place::new(1, SEGMENT_HEADER_BYTES as u64), |mark| mark.upto);
    let fold = Fold::after(mark);
    let last_segment = numbers.last().copied().unwrap_or(0);
    let mut loaded =
        Loaded { fold, end, last_write: end, sealed: false, torn: None, last_segment, stillborn: None };
    for (at, number) in numbers.iter().copied().enumerate().filter(|(_, number)| *number >= end.segment()) {
        let before = if at == 0 { 0 } else { numbers[at - 1] };
        let last = at + 1 == numbers.len();
        segment(files, index, &mut loaded, Part { number, before, last, from: end, until })?;
    }
    Ok(loaded)
}

/// Whether the journal has the last frame that the index was made of.
pub(crate) fn recognise(files: &Files, mark: Mark) -> Result<(), LoadError> {
    if mark.last == Place::default() {
        return Ok(());
    }
    let found = files.frame_crc(mark.last).ok().flatten();
    if found == Some(mark.last_crc) { Ok(()) } else { Err(Broken::ahead().into()) }
}

/// One segment of those to read.
struct Part {
    number: u32,
    before: u32,
    last: bool,
    from: Place,
    until: Option<Place>,
}

fn segment(files: &Files, index: &Index, loaded: &mut Loaded, part: Part) -> Result<(), LoadError> {
    let mut bytes = files.read_segment(part.number)?;
    if let Some(until) = part.until.filter(|until| until.segment() == part.number) {
        bytes.truncate(until.offset() as usize);
    }
    let start = if part.from.segment() == part.number { part.from.offset() as usize } else { 0 };
    let mut walk = Walk::new(part.number, &bytes, start);
    let damaged = |offset: usize, what: String, streams| {
        let place = Place::new(part.number, offset as u64);
        LoadError::Damaged(Damage::new(place, what, streams))
    };
    if segment::previous(part.number, &bytes) != Some(part.before) {
        // From its start, whatever the index covers: one that has frames was not cut short as it was made.
        let mut whole = Walk::new(part.number, &bytes, 0);
        let empty = !matches!(whole.step(), Step::Frame { .. }) && whole.resync(false).is_none();
        let covered = start > SEGMENT_HEADER_BYTES;
        if part.last && part.until.is_none() && empty && !covered {
            loaded.stillborn = Some(part.number);
            loaded.last_segment = part.before;
            return Ok(());
        }
        return Err(damaged(0, Damage::header(part.number, part.before, &bytes), Vec::new()));
    }
    loaded.end = Place::new(part.number, walk.offset as u64);
    loaded.last_write = loaded.end;
    loop {
        match walk.step() {
            Step::Frame { place, crc, flags, body } => {
                match loaded.fold.frame(place, crc, &body, index) {
                    Ok(()) => {}
                    Err(Misfit::Index(broken)) => return Err(broken.into()),
                    Err(Misfit::Frame(stream, what)) => {
                        return Err(damaged(place.offset() as usize, what, stream.into_iter().collect()));
                    }
                }
                loaded.sealed = body.is_seal();
                loaded.end = Place::new(part.number, walk.offset as u64);
                if flags & FIRST != 0 {
                    loaded.last_write = place;
                }
            }
            Step::End => return Ok(()),
            Step::Bad { what } => {
                if !part.last || part.until.is_some() || walk.resync(true).is_some() {
                    return Err(damaged(walk.offset, what.to_owned(), Vec::new()));
                }
                loaded.torn = Some((walk.left(), what));
                return Ok(());
            }
        }
    }
}
