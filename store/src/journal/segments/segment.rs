//! The segment file: its name, its header, and the walk over its frames.

use super::frame::{self, Body, FIRST, FRAME_HEADER_BYTES, Found, Place};

/// Length of a segment file, in bytes. Mostly a hole while it is being filled.
pub const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes before the first frame.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;

/// Room that frames leave at the end of a segment, for the seal.
pub(crate) const SEAL_BYTES_MAX: usize = 32;

const MAGIC: &[u8; 8] = b"OSTLERJ\n";
const VERSION: u32 = 1;

/// Bytes that looking for the next frame behind a bad one may check in all. Only contents made for it get
/// there; the answer is then the careful one: damaged.
const RESYNC_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// The file of a segment.
pub(crate) fn name(number: u32) -> String {
    format!("{number:010}.seg")
}

/// The segment that a file holds.
pub(crate) fn number(name: &str) -> Option<u32> {
    name.strip_suffix(".seg").filter(|digits| digits.len() == 10)?.parse().ok().filter(|number| *number > 0)
}

/// The header of a segment; `previous` is the number of the one before, 0 for the first.
pub(crate) fn header(number: u32, previous: u32) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&previous.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..24].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The number of the segment before this one, if the header is whole.
pub(crate) fn previous(number: u32, bytes: &[u8]) -> Option<u32> {
    let previous = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    (bytes.get(..SEGMENT_HEADER_BYTES)? == header(number, previous)).then_some(previous)
}

/// A walk over the frames of a segment.
pub(crate) struct Walk<'a> {
    number: u32,
    /// The segment from its start; what is not there reads as blank.
    bytes: &'a [u8],
    /// Everything behind this is blank.
    used: usize,
    /// Where the next frame starts.
    pub(crate) offset: usize,
}

/// What a walk met.
pub(crate) enum Step<'a> {
    /// A frame.
    Frame { place: Place, crc: u32, flags: u8, body: Body<'a> },
    /// Only blank bytes from here on.
    End,
    /// Bytes that are no frame.
    Bad { what: &'static str },
}

impl<'a> Walk<'a> {
    /// Starts at `offset`, or behind the header.
    pub(crate) fn new(number: u32, bytes: &'a [u8], offset: usize) -> Walk<'a> {
        Walk { number, bytes, used: used(bytes), offset: offset.max(SEGMENT_HEADER_BYTES) }
    }

    /// The next step; stays where it is at the end and at bad bytes.
    pub(crate) fn step(&mut self) -> Step<'a> {
        if self.offset >= self.used {
            return Step::End;
        }
        let rest = &self.bytes[self.offset..];
        let place = Place::new(self.number, self.offset as u64);
        match self.look(place, rest) {
            Looked::Frame { len, crc, flags, body } => {
                self.offset += len;
                Step::Frame { place, crc, flags, body }
            }
            Looked::Bad(what) => Step::Bad { what },
        }
    }

    fn look(&self, place: Place, rest: &'a [u8]) -> Looked<'a> {
        match frame::look(place, rest) {
            Found::Frame { len, flags, body } => match frame::parse(body) {
                Some(body) => Looked::Frame { len, crc: frame::crc(rest), flags, body },
                None => Looked::Bad("its checksum holds but its contents make no sense"),
            },
            Found::Blank => Looked::Bad("blank, with something behind it"),
            Found::Bad(what) => Looked::Bad(what),
        }
    }

    /// Where the next frame behind the bad bytes starts; with `first`, one that proves that what is before it
    /// was durable. Does not move.
    pub(crate) fn resync(&self, first: bool) -> Option<usize> {
        let mut checked = 0;
        for offset in self.offset + 1..self.used {
            let rest = &self.bytes[offset..];
            let Some(header) = rest.get(..FRAME_HEADER_BYTES) else { break };
            let Some(len) = frame::body_len(header).filter(|len| FRAME_HEADER_BYTES + len <= rest.len())
            else {
                continue;
            };
            if first && header[7] & FIRST == 0 {
                continue;
            }
            // Many bytes of records look like a header. What follows one seldom looks like a body, and only then is it worth a checksum.
            if frame::parse(&rest[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + len]).is_none() {
                continue;
            }
            checked += len;
            let place = Place::new(self.number, offset as u64);
            if checked > RESYNC_BYTES_MAX || matches!(self.look(place, rest), Looked::Frame { .. }) {
                return Some(offset);
            }
        }
        None
    }

    /// Bytes from here to the last one that is not blank.
    pub(crate) fn left(&self) -> usize {
        self.used.saturating_sub(self.offset)
    }

    /// Bytes from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset..).unwrap_or(&[])
    }
}

enum Looked<'a> {
    Frame { len: usize, crc: u32, flags: u8, body: Body<'a> },
    Bad(&'static str),
}

/// Whether nothing was ever written here.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    used(bytes) == 0
}

/// Length of `bytes` without the blank ones at its end.
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
        assert_eq!(previous(7, &header(7, 5)), Some(5));
        assert_eq!(previous(8, &header(7, 5)), None);
        assert_eq!(previous(7, &header(7, 5)[..63]), None);
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
