//! Frame headers and encoding: one append on disk, complete or absent.
//!
//! ```text
//! crc32c    u32   over the frame's address in the journal, then everything after this field
//! length    u24   of the body
//! flags     u8    1: everything before this frame was synced before the frame was written
//! body            version u8, epoch, number of sections, sections
//! checkpoint      version 2, epoch, number of accounts, accounts, each behind its length: absolute values that
//!                 override all earlier records, some of which may have been removed
//! section         kind u8, partition u16, key 16 bytes, first sequence number, time, chain hash of the stream's
//!                 previous frame (16 bytes), number of records, bytes of records, records, each behind its length
//! ```
//!
//! Integers without a width are varints. The checksum covers the address, so bytes left over from an earlier use of the
//! segment's blocks, or written to the wrong offset, are no frame.

use ostler_kernel::port::StreamId;

use super::bytes::{put_block, put_i64, put_u64};
use super::frame_body::Section;
use super::lsn::Lsn;
use super::stream::{ChainHash, next_chain, stream_key};

pub(crate) const FRAME_HEADER_BYTES: usize = 8;

/// Largest frame in bytes, header included: the limit of one `append`.
pub const FRAME_BYTES_MAX: usize = 7 * 1024 * 1024;

/// Flag of the first frame of a write: everything before this frame was durable before the frame was written.
///
/// Recovery relies on the flag to tell damage from a torn write. A bad frame followed by a flagged frame was durable once,
/// so the disk lost data; a bad frame without a flagged successor may be an unfinished write.
pub(crate) const FIRST_OF_WRITE: u8 = 1;

pub(crate) const VERSION: u8 = 1;

pub(crate) const CHECKPOINT: u8 = 2;

/// Encoded records of one batch, before the sequencer assigns an address.
pub(crate) struct EncodedBatch {
    pub(crate) stream: StreamId,
    pub(crate) expected: u64,
    pub(crate) at_ms: i64,
    pub(crate) count: u64,
    pub(crate) records: Vec<u8>,
    /// Digest of `records`, computed outside the sequencer's lock because hashing is the slowest part of an append.
    pub(crate) digest: [u8; 32],
}

impl EncodedBatch {
    pub(crate) fn chain(&self, prev: &ChainHash) -> ChainHash {
        next_chain(prev, &self.stream, self.expected + 1, self.at_ms, &self.digest)
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.records.len() + 80
    }
}

/// Starts a frame; [`fill_header`] replaces the zeroed header later.
fn new_frame(version: u8, epoch: u64, parts: usize, capacity: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + 24 + capacity);
    frame.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    frame.push(version);
    put_u64(&mut frame, epoch);
    put_u64(&mut frame, parts as u64);
    frame
}

fn put_section(frame: &mut Vec<u8>, section: &Section<'_>) {
    frame.extend_from_slice(&stream_key(&section.stream));
    put_u64(frame, section.first);
    put_i64(frame, section.at_ms);
    frame.extend_from_slice(&section.prev);
    put_u64(frame, section.count);
    put_block(frame, section.records);
}

/// Encodes batches as a frame with a zeroed header. `prev` holds the chain hash of each batch's stream.
pub(crate) fn encode_batches(epoch: u64, batches: &[EncodedBatch], prev: &[ChainHash]) -> Vec<u8> {
    let capacity = batches.iter().map(EncodedBatch::bytes_max).sum();
    let mut frame = new_frame(VERSION, epoch, batches.len(), capacity);
    for (batch, prev) in batches.iter().zip(prev) {
        let EncodedBatch { stream, expected, at_ms, count, records, .. } = batch;
        let (stream, first, at_ms, prev, count) = (*stream, expected + 1, *at_ms, *prev, *count);
        put_section(&mut frame, &Section { stream, first, at_ms, prev, count, records });
    }
    frame
}

pub(crate) fn encode_sections(epoch: u64, sections: &[Section<'_>]) -> Vec<u8> {
    let mut frame = new_frame(VERSION, epoch, sections.len(), 0);
    sections.iter().for_each(|section| put_section(&mut frame, section));
    frame
}

pub(crate) fn encode_checkpoint(epoch: u64, accounts: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = new_frame(CHECKPOINT, epoch, accounts.len(), 0);
    accounts.iter().for_each(|account| put_block(&mut frame, account));
    frame
}

/// Encodes a seal with a zeroed header: a frame without sections, the last one of a process.
///
/// A seal carries [`FIRST_OF_WRITE`] like every first frame, so damage in front of a seal is never taken for a torn write.
pub(crate) fn encode_seal(epoch: u64) -> Vec<u8> {
    encode_batches(epoch, &[], &[])
}

pub(crate) fn fill_header(frame: &mut [u8], lsn: Lsn, flags: u8) {
    let len = (frame.len() - FRAME_HEADER_BYTES) as u32;
    frame[4..8].copy_from_slice(&(len | u32::from(flags) << 24).to_le_bytes());
    let crc = checksum(lsn, &frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(lsn: Lsn, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&lsn.0.to_le_bytes()), bytes)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A frame with a matching checksum; `len` includes the header.
    Frame {
        len: usize,
        flags: u8,
        body: &'a [u8],
    },
    Blank,
    Bad(&'static str),
}

/// Reads the frame at the start of `bytes`; bytes behind the frame are ignored.
pub(crate) fn read(lsn: Lsn, bytes: &[u8]) -> Found<'_> {
    let Some((header, rest)) = bytes.split_at_checked(FRAME_HEADER_BYTES) else {
        return if bytes.iter().all(|byte| *byte == 0) { Found::Blank } else { Found::Bad("half a header") };
    };
    if header == [0; FRAME_HEADER_BYTES] {
        return Found::Blank;
    }
    let Some(len) = body_len(header) else { return Found::Bad("an impossible length") };
    let Some(body) = rest.get(..len) else { return Found::Bad("the frame exceeds its segment") };
    if stored_crc(header) != checksum(lsn, &bytes[4..FRAME_HEADER_BYTES + len]) {
        return Found::Bad("checksum mismatch");
    }
    Found::Frame { len: FRAME_HEADER_BYTES + len, flags: header[7], body }
}

pub(crate) fn stored_crc(header: &[u8]) -> u32 {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]])
}

/// The body's length stored in a header; `None` if no frame has such a header.
pub(crate) fn body_len(header: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes([header[4], header[5], header[6], 0]) as usize;
    let possible = header[7] <= FIRST_OF_WRITE && (3..=FRAME_BYTES_MAX - FRAME_HEADER_BYTES).contains(&len);
    possible.then_some(len)
}

#[cfg(test)]
mod tests {
    use ostler_kernel::port::StreamKind;

    use super::super::frame_body::parse;
    use super::super::stream::records_digest;
    use super::*;

    fn sample(lsn: Lsn, flags: u8) -> Vec<u8> {
        let stream = StreamId { partition: 7, kind: StreamKind::Run, key: [3; 16] };
        let mut records = Vec::new();
        put_block(&mut records, b"one");
        put_block(&mut records, b"two");
        let digest = records_digest(&records);
        let batch = EncodedBatch { stream, expected: 4, at_ms: -5, count: 2, records, digest };
        let mut frame = encode_batches(9, std::slice::from_ref(&batch), &[[1; 16]]);
        fill_header(&mut frame, lsn, flags);
        frame
    }

    #[test]
    fn a_frame_reads_back_with_its_sections() {
        let lsn = Lsn::new(2, 64);
        let frame = sample(lsn, FIRST_OF_WRITE);
        let Found::Frame { len, flags, body } = read(lsn, &frame) else { panic!("no frame") };
        assert_eq!((len, flags), (frame.len(), FIRST_OF_WRITE));
        let body = parse(body).unwrap();
        let section = &body.sections[0];
        assert_eq!((body.epoch, section.first, section.last(), section.at_ms), (9, 5, 6, -5));
        assert_eq!(section.records().unwrap(), [b"one", b"two"]);
    }

    #[test]
    fn no_flipped_bit_and_no_other_address_passes() {
        let lsn = Lsn::new(2, 64);
        let frame = sample(lsn, 0);
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(read(lsn, &flipped), Found::Frame { .. }), "bit {bit}");
        }
        assert!(matches!(read(Lsn::new(3, 64), &frame), Found::Bad(_)));
    }

    #[test]
    fn the_chain_depends_on_everything_before_it() {
        let batch = |expected, text: &[u8]| {
            let stream = StreamId { partition: 0, kind: StreamKind::Run, key: [0; 16] };
            let records = text.to_vec();
            EncodedBatch { stream, expected, at_ms: 0, count: 1, digest: records_digest(&records), records }
        };
        let base = batch(0, b"x").chain(&[0; 16]);
        assert_ne!(base, batch(1, b"x").chain(&[0; 16]));
        assert_ne!(base, batch(0, b"y").chain(&[0; 16]));
        assert_ne!(base, batch(0, b"x").chain(&[1; 16]));
    }
}
