//! The frame: what one append looks like on disk, all of it or none.
//!
//! ```text
//! crc32c    u32   over the frame's place in the journal, then everything after this field
//! length    u24   of the body
//! flags     u8    1: everything before this frame was synced before it was written
//! body            version u8, epoch, number of sections, sections
//! checkpoint      version 2, epoch, number of accounts, accounts, each behind its length: how they stand here,
//!                 whatever the records before this say, some of which may be gone
//! section         kind u8, partition u16, key 16 bytes, first sequence number, time, chain of the stream's
//!                 previous frame (16 bytes), number of records, bytes of records, records, each behind its length
//! ```
//!
//! Integers without a width are variable. The checksum covers the place, so a frame that was left over from
//! another life of its segment, or written to the wrong place, is no frame.

use ostler_kernel::lineage;
use ostler_kernel::port::{PARTITIONS, Position, StreamId, StreamKind};

use crate::bytes::{Cursor, put_block, put_i64, put_u64};
use crate::index::Head;

/// Bytes before the body.
pub(crate) const FRAME_HEADER_BYTES: usize = 8;

/// Largest frame, in bytes, header included: what one `append` may take.
pub const FRAME_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Flag: the frame is the first of its write, so everything before it was durable when it was written. A bad
/// frame with such a frame after it was lost by the disk; one without may just be torn.
pub(crate) const FIRST: u8 = 1;

/// Version of the body's layout.
const VERSION: u8 = 1;

/// Version of the body of a checkpoint.
const CHECKPOINT: u8 = 2;

/// Stands for a stream's records up to and including a frame: 16 bytes of BLAKE3.
pub(crate) type Chain = [u8; 16];

/// Where a frame starts: the number of its segment above, the offset in it below. Doubles as the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Place(pub(crate) u64);

impl Place {
    pub(crate) fn new(segment: u32, offset: u64) -> Place {
        debug_assert!(offset <= u64::from(u32::MAX), "offsets fit in the lower half");
        Place(u64::from(segment) << 32 | offset)
    }

    pub(crate) fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    pub(crate) fn position(self) -> Position {
        Position(self.0)
    }
}

/// Records of one stream, encoded, before they have a place.
pub(crate) struct Draft {
    pub(crate) stream: StreamId,
    pub(crate) expected: u64,
    pub(crate) at_ms: i64,
    pub(crate) count: u64,
    /// Each behind its length.
    pub(crate) records: Vec<u8>,
    /// Of `records`; computed before the order is known, as it takes longest.
    pub(crate) digest: [u8; 32],
}

/// Digest of the records of a section.
pub(crate) fn digest(records: &[u8]) -> [u8; 32] {
    lineage::hash("aos/records/1", &[records]).0
}

/// What stands for the events of a log of a pipeline before `first`, all of which are gone because nobody needs them.
pub(crate) fn beginning(stream: &StreamId, first: u64) -> Chain {
    let parts: [&[u8]; 2] = [&stream_bytes(stream), &first.to_le_bytes()];
    let mut chain = [0; 16];
    chain.copy_from_slice(&lineage::hash("aos/beginning/1", &parts).0[..16]);
    chain
}

/// The chain after a section.
fn chain(prev: &Chain, stream: &StreamId, first: u64, at_ms: i64, digest: &[u8; 32]) -> Chain {
    let parts: [&[u8]; 5] = [prev, &stream_bytes(stream), &first.to_le_bytes(), &at_ms.to_le_bytes(), digest];
    let mut chain = [0; 16];
    chain.copy_from_slice(&lineage::hash("aos/chain/1", &parts).0[..16]);
    chain
}

impl Draft {
    /// The chain after these records, when `prev` is the one before.
    pub(crate) fn chain(&self, prev: &Chain) -> Chain {
        chain(prev, &self.stream, self.expected + 1, self.at_ms, &self.digest)
    }

    /// No more bytes than this will be in the frame for it.
    pub(crate) fn bytes_max(&self) -> usize {
        self.records.len() + 80
    }
}

/// The beginning of a frame, with its header still blank: [`finish`] fills it in.
fn begun(version: u8, epoch: u64, parts: usize, room: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + 24 + room);
    frame.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    frame.push(version);
    put_u64(&mut frame, epoch);
    put_u64(&mut frame, parts as u64);
    frame
}

fn put_section(frame: &mut Vec<u8>, section: &Section<'_>) {
    frame.extend_from_slice(&stream_bytes(&section.stream));
    put_u64(frame, section.first);
    put_i64(frame, section.at_ms);
    frame.extend_from_slice(&section.prev);
    put_u64(frame, section.count);
    put_block(frame, section.records);
}

/// A frame of these drafts, with its header still blank. `prev` gives the chain of each draft's stream.
pub(crate) fn assemble(epoch: u64, drafts: &[Draft], prev: &[Chain]) -> Vec<u8> {
    let room = drafts.iter().map(Draft::bytes_max).sum();
    let mut frame = begun(VERSION, epoch, drafts.len(), room);
    for (draft, prev) in drafts.iter().zip(prev) {
        let Draft { stream, expected, at_ms, count, records, .. } = draft;
        let (stream, first, at_ms, prev, count) = (*stream, expected + 1, *at_ms, *prev, *count);
        put_section(&mut frame, &Section { stream, first, at_ms, prev, count, records });
    }
    frame
}

/// A frame of these sections, as they are, with its header still blank.
pub(crate) fn reassemble(epoch: u64, sections: &[Section<'_>]) -> Vec<u8> {
    let mut frame = begun(VERSION, epoch, sections.len(), 0);
    sections.iter().for_each(|section| put_section(&mut frame, section));
    frame
}

/// A frame that says how these accounts stand, with its header still blank.
pub(crate) fn checkpoint(epoch: u64, accounts: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = begun(CHECKPOINT, epoch, accounts.len(), 0);
    accounts.iter().for_each(|account| put_block(&mut frame, account));
    frame
}

/// Fills in the header of a frame that is about to be written at `place`.
pub(crate) fn finish(frame: &mut [u8], place: Place, flags: u8) {
    let len = (frame.len() - FRAME_HEADER_BYTES) as u32;
    frame[4..8].copy_from_slice(&(len | u32::from(flags) << 24).to_le_bytes());
    let crc = checksum(place, &frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(place: Place, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&place.0.to_le_bytes()), bytes)
}

/// What stands at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A frame: its checksum holds.
    Frame {
        /// Bytes it takes, header included.
        len: usize,
        flags: u8,
        body: &'a [u8],
    },
    /// Nothing was ever written here.
    Blank,
    /// Something that is no frame, and why not.
    Bad(&'static str),
}

/// Looks at the frame that starts with `bytes`, which may go on behind it.
pub(crate) fn look(place: Place, bytes: &[u8]) -> Found<'_> {
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER_BYTES) else {
        return if bytes.iter().all(|byte| *byte == 0) { Found::Blank } else { Found::Bad("half a header") };
    };
    if header == [0; FRAME_HEADER_BYTES] {
        return Found::Blank;
    }
    let Some(len) = body_len(header) else { return Found::Bad("an impossible length") };
    let Some(body) = rest.get(..len) else { return Found::Bad("it goes on past the end of its segment") };
    if crc(header) != checksum(place, &bytes[4..FRAME_HEADER_BYTES + len]) {
        return Found::Bad("its checksum does not hold");
    }
    Found::Frame { len: FRAME_HEADER_BYTES + len, flags: header[7], body }
}

/// The checksum that a frame's header (8 bytes) tells.
pub(crate) fn crc(header: &[u8]) -> u32 {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]])
}

/// Length of the body by a frame's header (8 bytes), if it can be one.
pub(crate) fn body_len(header: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes([header[4], header[5], header[6], 0]) as usize;
    let possible = header[7] <= FIRST && (3..=FRAME_BYTES_MAX - FRAME_HEADER_BYTES).contains(&len);
    possible.then_some(len)
}

/// A frame's body, taken apart.
pub(crate) struct Body<'a> {
    pub(crate) epoch: u64,
    pub(crate) sections: Vec<Section<'a>>,
    /// Of a checkpoint: accounts, each as bytes.
    pub(crate) accounts: Vec<&'a [u8]>,
}

impl Body<'_> {
    /// Whether it only says that nothing was under way.
    pub(crate) fn is_seal(&self) -> bool {
        self.sections.is_empty() && self.accounts.is_empty()
    }
}

/// The records of one stream in a frame.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) stream: StreamId,
    pub(crate) first: u64,
    pub(crate) at_ms: i64,
    pub(crate) prev: Chain,
    pub(crate) count: u64,
    pub(crate) records: &'a [u8],
}

impl<'a> Section<'a> {
    /// The chain after it.
    pub(crate) fn chain(&self) -> Chain {
        chain(&self.prev, &self.stream, self.first, self.at_ms, &digest(self.records))
    }

    /// Where its stream ends with it.
    pub(crate) fn head(&self) -> Head {
        Head { seq: self.last(), chain: self.chain() }
    }

    /// Whether it follows the records of its stream up to `head`. The log of a pipeline may begin later, once it says so itself: one
    /// that lost what is before it to damage names the chain of that.
    pub(crate) fn follows(&self, head: &Head) -> bool {
        let is_next = self.first == head.seq + 1 && self.prev == head.chain;
        let is_log = self.stream.kind == StreamKind::PipelineLog;
        let begins = is_log && *head == Head::default() && self.first > 1;
        is_next || (begins && self.prev == beginning(&self.stream, self.first))
    }

    /// Sequence number of its last record.
    pub(crate) fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Its records in their order; `None` where they are not as many as it says, or not what they should be.
    pub(crate) fn records(&self) -> Option<Vec<&'a [u8]>> {
        let mut cursor = Cursor(self.records);
        let mut records = Vec::new();
        while !cursor.0.is_empty() {
            records.push(cursor.block()?);
        }
        (records.len() as u64 == self.count).then_some(records)
    }
}

/// Takes a body apart; `None` if it is none, which with a checksum that holds only a bug can bring about.
pub(crate) fn parse(body: &[u8]) -> Option<Body<'_>> {
    let mut cursor = Cursor(body);
    let version = Some(cursor.array::<1>()?[0]).filter(|version| [VERSION, CHECKPOINT].contains(version))?;
    let epoch = cursor.u64()?;
    let count = cursor.u64()?;
    let (mut sections, mut accounts) = (Vec::new(), Vec::new());
    for _ in 0..count {
        if version == VERSION {
            sections.push(section(&mut cursor)?);
        } else {
            accounts.push(cursor.block()?);
        }
    }
    cursor.0.is_empty().then_some(Body { epoch, sections, accounts })
}

fn section<'a>(cursor: &mut Cursor<'a>) -> Option<Section<'a>> {
    let section = Section {
        stream: stream_from(cursor.take(STREAM_BYTES)?)?,
        first: cursor.u64()?,
        at_ms: cursor.i64()?,
        prev: cursor.array()?,
        count: cursor.u64()?,
        records: cursor.block()?,
    };
    let fits = section.first > 0 && section.count > 0 && section.count <= section.records.len() as u64;
    (fits && section.first.checked_add(section.count).is_some()).then_some(section)
}

/// Streams that a damaged body still seems to name. A guess, for people.
pub(crate) fn guess_streams(body: &[u8]) -> Vec<StreamId> {
    let mut cursor = Cursor(body);
    let mut streams = Vec::new();
    let start = (cursor.take(1), cursor.u64(), cursor.u64());
    if let (Some(_), Some(_), Some(count)) = start {
        for _ in 0..count {
            let Some(bytes) = cursor.0.get(..STREAM_BYTES) else { break };
            streams.extend(stream_from(bytes));
            if section(&mut cursor).is_none() {
                break;
            }
        }
    }
    streams
}

/// Bytes of a stream's name.
pub(crate) const STREAM_BYTES: usize = 19;

/// A stream's name in bytes; streams of one kind sort together.
pub(crate) fn stream_bytes(stream: &StreamId) -> [u8; STREAM_BYTES] {
    let mut bytes = [0; STREAM_BYTES];
    bytes[0] = stream.kind as u8;
    bytes[1..3].copy_from_slice(&stream.partition.to_be_bytes());
    bytes[3..].copy_from_slice(&stream.key);
    bytes
}

/// The stream that [`stream_bytes`] named.
pub(crate) fn stream_from(bytes: &[u8]) -> Option<StreamId> {
    let mut cursor = Cursor(bytes);
    let kind = match cursor.array::<1>()?[0] {
        kind if kind == StreamKind::Run as u8 => StreamKind::Run,
        kind if kind == StreamKind::Client as u8 => StreamKind::Client,
        kind if kind == StreamKind::Attempts as u8 => StreamKind::Attempts,
        kind if kind == StreamKind::Pipeline as u8 => StreamKind::Pipeline,
        kind if kind == StreamKind::PipelineLog as u8 => StreamKind::PipelineLog,
        _ => return None,
    };
    let partition = u16::from_be_bytes(cursor.array()?);
    let key = cursor.array()?;
    (partition < PARTITIONS && cursor.0.is_empty()).then_some(StreamId { partition, kind, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(place: Place, flags: u8) -> Vec<u8> {
        let stream = StreamId { partition: 7, kind: StreamKind::Run, key: [3; 16] };
        let mut records = Vec::new();
        put_block(&mut records, b"one");
        put_block(&mut records, b"two");
        let digest = digest(&records);
        let draft = Draft { stream, expected: 4, at_ms: -5, count: 2, records, digest };
        let mut frame = assemble(9, std::slice::from_ref(&draft), &[[1; 16]]);
        finish(&mut frame, place, flags);
        frame
    }

    #[test]
    fn a_frame_reads_back_with_its_sections() {
        let place = Place::new(2, 64);
        let frame = sample(place, FIRST);
        let Found::Frame { len, flags, body } = look(place, &frame) else { panic!("no frame") };
        assert_eq!((len, flags), (frame.len(), FIRST));
        let body = parse(body).unwrap();
        let section = &body.sections[0];
        assert_eq!((body.epoch, section.first, section.last(), section.at_ms), (9, 5, 6, -5));
        assert_eq!(section.records().unwrap(), [b"one", b"two"]);
    }

    #[test]
    fn no_flipped_bit_and_no_other_place_passes() {
        let place = Place::new(2, 64);
        let frame = sample(place, 0);
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(look(place, &flipped), Found::Frame { .. }), "bit {bit}");
        }
        assert!(matches!(look(Place::new(3, 64), &frame), Found::Bad(_)));
    }

    #[test]
    fn the_chain_depends_on_everything_before_it() {
        let draft = |expected, text: &[u8]| {
            let stream = StreamId { partition: 0, kind: StreamKind::Run, key: [0; 16] };
            let records = text.to_vec();
            Draft { stream, expected, at_ms: 0, count: 1, digest: digest(&records), records }
        };
        let base = draft(0, b"x").chain(&[0; 16]);
        assert_ne!(base, draft(1, b"x").chain(&[0; 16]));
        assert_ne!(base, draft(0, b"y").chain(&[0; 16]));
        assert_ne!(base, draft(0, b"x").chain(&[1; 16]));
    }
}
