//! Segment files: names, headers, and scanning frames.

use std::hash::{BuildHasher, RandomState};

use super::frame::{self, FIRST_OF_WRITE, FRAME_HEADER_BYTES, Found};
use super::frame_body::{self, Body};
use super::lsn::Lsn;

/// Length of a segment file in bytes. The unwritten rest of a new segment is a hole.
pub const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;

/// Bytes reserved at the end of each segment for the seal.
pub(crate) const SEAL_BYTES_MAX: usize = 32;

/// Extension of files with preallocated, zeroed room for a future segment.
pub(crate) const SPARE: &str = ".spare";

pub(crate) const MAGIC: &[u8; 8] = b"OSTLERJ\n";
const VERSION: u32 = 1;

/// Most bytes checksummed while searching for the next frame behind a bad one. Only records crafted to look like frames
/// exhaust the limit; the search then assumes a frame, so the caller reports damage rather than a torn write.
const RESYNC_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Most bytes put into a segment, or taken out of it, that the frames behind them reveal.
const SHIFT_MAX: usize = 8;

pub(crate) fn name(number: u32) -> String {
    format!("{number:010}.seg")
}

pub(crate) fn number(name: &str) -> Option<u32> {
    name.strip_suffix(".seg").filter(|digits| digits.len() == 10)?.parse().ok().filter(|number| *number > 0)
}

pub(crate) fn first_lsn(number: u32) -> Lsn {
    Lsn::new(number, SEGMENT_HEADER_BYTES as u64)
}

/// Returns whether `lsn` lies behind the first frame's address, so that the segment holds a frame before `lsn`.
pub(crate) fn has_frames_before(lsn: Lsn) -> bool {
    lsn.offset() > SEGMENT_HEADER_BYTES as u64
}

/// Encodes a header. `previous` is the number of the preceding segment, 0 for the first; the links make a journal complete
/// without a list of segments. `journal` is the random identity that all segments of a journal share. 0 is unknown, as in
/// segments of format 3 and before, and leaves the header as it was then.
pub(crate) fn header(number: u32, previous: u32, journal: u64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&previous.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..24].copy_from_slice(&crc.to_le_bytes());
    if journal != 0 {
        header[24..32].copy_from_slice(&journal.to_le_bytes());
        let crc = crc32c::crc32c(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
    }
    header
}

/// `journal`, or a random identity if that is unknown.
pub(crate) fn journal_or_new(journal: u64) -> u64 {
    // The keys of a new hasher state come from the system's randomness.
    if journal != 0 { journal } else { RandomState::new().hash_one(SEGMENT_BYTES).max(1) }
}

/// Number of the preceding segment, from a valid header of segment `number`.
pub(crate) fn previous(number: u32, bytes: &[u8]) -> Option<u32> {
    let previous = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    let journal = u64::from_le_bytes(bytes.get(24..32)?.try_into().ok()?);
    (bytes.get(..SEGMENT_HEADER_BYTES)? == header(number, previous, journal)).then_some(previous)
}

/// The number in a valid header, whatever the name of its file says.
pub(crate) fn own_number(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?);
    previous(number, bytes).map(|_| number)
}

/// The identity of the journal in a valid header, whatever the name of its file says; 0 is unknown.
pub(crate) fn journal(bytes: &[u8]) -> u64 {
    let journal = bytes.get(24..32).filter(|_| own_number(bytes).is_some());
    journal.and_then(|journal| journal.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Returns whether two identities are of different journals. An unknown one is never different.
pub(crate) fn differ(one: u64, other: u64) -> bool {
    one != 0 && other != 0 && one != other
}

pub(crate) struct Scanner<'a> {
    number: u32,
    /// The segment from the start; missing bytes count as zeros.
    bytes: &'a [u8],
    /// End of the last nonzero byte.
    used: usize,
    pub(crate) offset: usize,
}

pub(crate) enum Step<'a> {
    Frame { lsn: Lsn, crc: u32, flags: u8, body: Body<'a> },
    End,
    Bad { what: &'static str },
}

impl<'a> Scanner<'a> {
    /// Starts at `offset`, or behind the header if that is later.
    pub(crate) fn new(number: u32, bytes: &'a [u8], offset: usize) -> Scanner<'a> {
        Scanner { number, bytes, used: used(bytes), offset: offset.max(SEGMENT_HEADER_BYTES) }
    }

    /// Reads the next frame and moves behind it. [`Step::End`] and [`Step::Bad`] do not move the scanner.
    pub(crate) fn step(&mut self) -> Step<'a> {
        if self.offset >= self.used {
            return Step::End;
        }
        let rest = &self.bytes[self.offset..];
        let lsn = Lsn::new(self.number, self.offset as u64);
        match read_and_parse(lsn, rest) {
            Parsed::Frame { len, crc, flags, body } => {
                self.offset += len;
                Step::Frame { lsn, crc, flags, body }
            }
            Parsed::Bad(what) => Step::Bad { what },
        }
    }

    /// Offset of the next frame behind bad bytes; with `first_of_write`, of the next frame flagged [`FIRST_OF_WRITE`], which
    /// proves that the bad bytes were durable once. Does not move the scanner.
    pub(crate) fn resync(&self, first_of_write: bool) -> Option<usize> {
        self.next_frame(first_of_write, 0)
    }

    /// Offset of the next frame, which may have been moved by up to `shift_max` bytes.
    fn next_frame(&self, first_of_write: bool, shift_max: usize) -> Option<usize> {
        let mut checked = 0;
        for offset in self.offset + 1..self.used {
            let rest = &self.bytes[offset..];
            let Some(header) = rest.get(..FRAME_HEADER_BYTES) else { break };
            let Some(len) = frame::body_len(header).filter(|len| FRAME_HEADER_BYTES + len <= rest.len())
            else {
                continue;
            };
            if first_of_write && header[7] & FIRST_OF_WRITE == 0 {
                continue;
            }
            // Many offsets inside records pass for a header. Few are followed by a parsable body, and only those are worth
            // a checksum.
            if frame_body::parse(&rest[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + len]).is_none() {
                continue;
            }
            let is_frame_of = |written_at: usize| {
                let lsn = Lsn::new(self.number, written_at as u64);
                matches!(read_and_parse(lsn, rest), Parsed::Frame { .. })
            };
            checked += len * (2 * shift_max + 1);
            let mut places = offset.saturating_sub(shift_max)..=offset + shift_max;
            if checked > RESYNC_BYTES_MAX || places.any(is_frame_of) {
                return Some(offset);
            }
        }
        None
    }

    /// Returns whether the bad bytes at the scanner may be the torn end of the last write: no later frame proves them durable. A
    /// frame moved by bytes that were put in or taken out is such a proof too.
    pub(crate) fn may_be_torn(&self) -> bool {
        self.next_frame(true, SHIFT_MAX).is_none()
    }

    /// Bytes from the scanner's offset to the last nonzero byte.
    pub(crate) fn remaining_len(&self) -> usize {
        self.used.saturating_sub(self.offset)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset..).unwrap_or(&[])
    }
}

enum Parsed<'a> {
    Frame { len: usize, crc: u32, flags: u8, body: Body<'a> },
    Bad(&'static str),
}

fn read_and_parse(lsn: Lsn, bytes: &[u8]) -> Parsed<'_> {
    match frame::read(lsn, bytes) {
        Found::Frame { len, flags, body } => match frame_body::parse(body) {
            Some(body) => Parsed::Frame { len, crc: frame::stored_crc(bytes), flags, body },
            None => Parsed::Bad("a frame with a valid checksum and an unreadable body"),
        },
        Found::Blank => Parsed::Bad("zeros in front of more data"),
        Found::Bad(what) => Parsed::Bad(what),
    }
}

pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    used(bytes) == 0
}

fn used(bytes: &[u8]) -> usize {
    const PAGE: usize = 4096;
    static BLANK: [u8; PAGE] = [0; PAGE];
    let Some(page) = bytes.chunks(PAGE).rposition(|page| *page != BLANK[..page.len()]) else { return 0 };
    let from = page * PAGE;
    let page = &bytes[from..bytes.len().min(from + PAGE)];
    from + page.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_read_back() {
        assert_eq!(number(&name(7)), Some(7));
        for other in ["reserve", "7.seg", "0000000000.seg", "000000000x.seg"] {
            assert_eq!(number(other), None, "{other}");
        }
        for identity in [0, 1, u64::MAX] {
            let mut header = header(7, 5, identity);
            assert_eq!(previous(7, &header), Some(5));
            assert_eq!(previous(8, &header), None);
            assert_eq!((own_number(&header), own_number(&[0; 64])), (Some(7), None));
            assert_eq!(previous(7, &header[..63]), None);
            assert_eq!(journal(&header), identity);
            header[30] ^= 1;
            assert_eq!((previous(7, &header), journal(&header)), (None, 0), "a changed identity is noticed");
        }
        assert!(journal_or_new(0) != 0 && journal_or_new(0) != journal_or_new(0));
        assert!(differ(1, 2) && !differ(1, 1) && !differ(0, 2) && !differ(1, 0));
    }

    #[test]
    fn blank_bytes_at_the_end_are_not_used() {
        let mut bytes = vec![0; 10_000];
        assert_eq!(used(&bytes), 0);
        for at in [0, 4095, 4096, 9_999] {
            bytes[at] = 1;
            assert_eq!(used(&bytes), at + 1);
        }
    }
}
