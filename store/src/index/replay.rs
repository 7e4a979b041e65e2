//! Replaying the journal from the index's mark. Opening, catching up the index and rebuilding the tail index share this code.

use std::io;

use super::tail_index::{ApplyError, TailIndex};
use super::{Index, IndexError, Mark};
use crate::format::damage::Damage;
use crate::format::frame::FIRST_OF_WRITE;
use crate::format::lsn::Lsn;
use crate::format::segment::{self, Scanner, Step};
use crate::format::segment_files::SegmentFiles;

pub(crate) struct Replayed {
    pub(crate) tail: TailIndex,
    pub(crate) end: Lsn,
    /// Start of the last write. Everything before was durable before that write began.
    pub(crate) last_write: Lsn,
    pub(crate) sealed: bool,
    /// Bytes of the last segment behind `end` without a frame, and the reason.
    pub(crate) torn: Option<(usize, &'static str)>,
    pub(crate) last_segment: u32,
    /// A last segment without a valid header or frame: the process died while creating the file.
    pub(crate) incomplete_segment: Option<u32>,
}

impl Replayed {
    /// The state an index covers, without reading the journal.
    pub(crate) fn covered_by(mark: Mark) -> Replayed {
        let (end, last_segment) = (mark.upto, mark.upto.segment());
        let tail = TailIndex::after(Some(mark));
        Replayed {
            tail,
            end,
            last_write: end,
            sealed: true,
            torn: None,
            last_segment,
            incomplete_segment: None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum ReplayError {
    Io(io::Error),
    Index(IndexError),
    Damaged(Damage),
}

impl From<io::Error> for ReplayError {
    fn from(error: io::Error) -> ReplayError {
        ReplayError::Io(error)
    }
}

impl From<IndexError> for ReplayError {
    fn from(error: IndexError) -> ReplayError {
        ReplayError::Index(error)
    }
}

/// Applies every frame from the index's mark up to `until`, or to the end of the journal.
///
/// At the end of the last segment bad bytes are torn if no later frame proves them durable. Bad bytes anywhere else, or with
/// `until`, are damage.
pub(crate) fn replay(
    files: &SegmentFiles,
    index: &Index,
    until: Option<Lsn>,
) -> Result<Replayed, ReplayError> {
    let mark = index.mark()?;
    let numbers = match until {
        Some(until) => files.numbers_before(until)?,
        None => files.numbers()?,
    };
    if let Some(mark) = mark {
        check_mark(files, mark)?;
    }
    let start = mark.map_or(segment::first_lsn(1), |mark| mark.upto);
    let last_segment = numbers.last().copied().unwrap_or(0);
    let mut replayed = Replayed {
        tail: TailIndex::after(mark),
        end: start,
        last_write: start,
        sealed: false,
        torn: None,
        last_segment,
        incomplete_segment: None,
    };
    for (at, number) in numbers.iter().copied().enumerate().filter(|(_, number)| *number >= start.segment()) {
        let before = if at == 0 { 0 } else { numbers[at - 1] };
        let last = at + 1 == numbers.len();
        replay_segment(files, index, &mut replayed, SegmentRange { number, before, last, start, until })?;
    }
    Ok(replayed)
}

/// Checks that the journal is the one the index was built from, and still has the last frames that the index was built from.
///
/// # Errors
///
/// [`IndexError::foreign`]: the index belongs to another journal. [`IndexError::ahead`]: the journal has lost its end, or has
/// gone another way since it was copied.
pub(crate) fn check_mark(files: &SegmentFiles, mark: Mark) -> Result<(), ReplayError> {
    let journal = files.identity().ok().flatten().filter(|_| mark.journal != 0);
    if journal.is_some_and(|journal| journal != mark.journal) {
        return Err(IndexError::foreign().into());
    }
    let has = |at: Lsn, crc| at == Lsn::default() || files.frame_crc(at).ok().flatten() == Some(crc);
    if has(mark.last, mark.last_crc) && has(mark.records, mark.records_crc) {
        Ok(())
    } else {
        Err(IndexError::ahead().into())
    }
}

struct SegmentRange {
    number: u32,
    before: u32,
    last: bool,
    start: Lsn,
    until: Option<Lsn>,
}

fn replay_segment(
    files: &SegmentFiles,
    index: &Index,
    replayed: &mut Replayed,
    range: SegmentRange,
) -> Result<(), ReplayError> {
    let SegmentRange { number, before, last, .. } = range;
    let bytes = files.read_segment_before(number, range.until)?;
    let start = if range.start.segment() == number { range.start.offset() as usize } else { 0 };
    let may_end_here = last && range.until.is_none();
    if segment::previous(number, &bytes) != Some(before) {
        // Scanned from the start, whatever the index covers: a segment with frames was created completely.
        let mut whole = Scanner::new(number, &bytes, 0);
        let empty = !matches!(whole.step(), Step::Frame { .. }) && whole.resync(false).is_none();
        let covered = start > segment::SEGMENT_HEADER_BYTES;
        // A whole header was written and moved: the process did not die while creating this file.
        let moved = segment::own_number(&bytes).is_some_and(|own| own != number);
        if may_end_here && empty && !covered && !moved {
            replayed.incomplete_segment = Some(number);
            replayed.last_segment = before;
            return Ok(());
        }
        return Err(ReplayError::Damaged(Damage::in_header(number, before, &bytes)));
    }
    if files.is_foreign(number, &bytes)? {
        return Err(ReplayError::Damaged(Damage::in_header(number, before, &bytes)));
    }
    let mut scanner = Scanner::new(number, &bytes, start);
    let here = |scanner: &Scanner<'_>| Lsn::new(number, scanner.offset as u64);
    replayed.end = here(&scanner);
    replayed.last_write = replayed.end;
    loop {
        match scanner.step() {
            Step::Frame { lsn, crc, flags, body } => {
                replayed.tail.apply_frame(lsn, crc, &body, index).map_err(|error| match error {
                    ApplyError::Index(error) => error.into(),
                    ApplyError::Frame(stream, what) => {
                        ReplayError::Damaged(Damage::new(lsn, what, stream.into_iter().collect()))
                    }
                })?;
                replayed.sealed = body.is_seal();
                replayed.end = here(&scanner);
                if flags & FIRST_OF_WRITE != 0 {
                    replayed.last_write = lsn;
                }
            }
            Step::End => return Ok(()),
            Step::Bad { what } => {
                if !may_end_here || !scanner.may_be_torn() {
                    let damage = Damage::new(here(&scanner), what.to_owned(), Vec::new());
                    return Err(ReplayError::Damaged(damage));
                }
                replayed.torn = Some((scanner.remaining_len(), what));
                return Ok(());
            }
        }
    }
}
