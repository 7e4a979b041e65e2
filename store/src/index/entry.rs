//! How an entry of the index looks as bytes.

use ostler_kernel::id::RunId;
use ostler_kernel::port::StreamId;

use super::{Broken, Mark, broken};
use crate::bytes::{Cursor, put_u64};
use crate::codec;
use crate::journal::rows::AccountKey;
use crate::journal::segments::{FrameAt, Place, STREAM_BYTES, stream_bytes};

/// Changes whenever the tables do; another one found means building the index again.
const FORMAT: u64 = 4;

/// Writes an entry, behind a checksum of its key and value.
pub(super) fn put(table: &mut redb::Table<&[u8], &[u8]>, key: &[u8], value: &[u8]) -> Result<(), Broken> {
    let mut bytes = Vec::with_capacity(4 + value.len());
    bytes.extend_from_slice(&checksum(key, value).to_le_bytes());
    bytes.extend_from_slice(value);
    table.insert(key, bytes.as_slice()).map_err(broken).map(drop)
}

/// The value of an entry that was read, if its checksum is right.
pub(super) fn checked<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], Broken> {
    let (crc, value) = bytes.split_at_checked(4).ok_or_else(|| broken("half an entry"))?;
    if crc == checksum(key, value).to_le_bytes() { Ok(value) } else { Err(broken("a wrong checksum")) }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

pub(super) fn mark_of(bytes: &[u8]) -> Result<Mark, Broken> {
    let mut cursor = Cursor(bytes);
    let mut next = || cursor.u64().ok_or_else(|| broken("half a mark"));
    if next()? != FORMAT {
        return Err(broken("another format"));
    }
    let (upto, last, crc, epoch) = (next()?, next()?, next()?, next()?);
    Ok(Mark { upto: Place(upto), last: Place(last), last_crc: crc as u32, epoch })
}

pub(super) fn mark_bytes(mark: Mark) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [FORMAT, mark.upto.0, mark.last.0, u64::from(mark.last_crc), mark.epoch] {
        put_u64(&mut bytes, number);
    }
    bytes
}

/// Where the places of a stream's frames stand, from the one on that starts with record `first`.
pub(super) fn frames_key(stream: &StreamId, first: u64) -> Vec<u8> {
    [&stream_bytes(stream)[..], &first.to_be_bytes()].concat()
}

/// The record that a key of [`frames_key`] is about.
pub(super) fn first_of(key: &[u8]) -> Result<u64, Broken> {
    let first = key.get(STREAM_BYTES..).and_then(|bytes| bytes.try_into().ok());
    first.map(u64::from_be_bytes).ok_or_else(|| broken("half a key"))
}

/// Frames as steps from one to the next, the first from its key and from nothing.
pub(super) fn entry_bytes(frames: &[FrameAt]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frames.len() * 4 + 8);
    let mut before = FrameAt { first: frames[0].first, place: Place(0) };
    for frame in frames {
        put_u64(&mut bytes, frame.first - before.first);
        put_u64(&mut bytes, frame.place.0 - before.place.0);
        before = *frame;
    }
    bytes
}

/// Where the line of an account stands.
pub(super) fn account_key(key: &AccountKey) -> Result<Vec<u8>, Broken> {
    codec::encode_row(key).map_err(broken)
}

/// Where the line of a run stands.
pub(super) fn row_key(over: bool, run: RunId) -> [u8; 17] {
    let mut key = [u8::from(over); 17];
    key[1..].copy_from_slice(run.0.as_bytes());
    key
}

/// Whether the line at this key is of a run that is over or set aside.
pub(super) fn is_over(key: &[u8]) -> bool {
    key.first() != Some(&0)
}
