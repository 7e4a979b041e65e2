//! Encoding of index entries. Each value stands behind a CRC-32C of key and value.

use ostler_kernel::id::RunId;
use ostler_kernel::port::{RunPlace, StreamId};
use uuid::Uuid;

use super::tables::AccountKey;
use super::tail_index::FrameAddress;
use super::{IndexError, Mark, index_error};
use crate::format::bytes::{Cursor, put_u64};
use crate::format::codec;
use crate::format::lsn::Lsn;
use crate::format::stream::{STREAM_KEY_BYTES, stream_key};

pub(super) const AGE_KEY_BYTES: usize = 25;

/// Version of the tables. An index of another version is rebuilt.
const FORMAT: u64 = 9;

pub(super) fn put(table: &mut redb::Table<&[u8], &[u8]>, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
    let mut bytes = Vec::with_capacity(4 + value.len());
    bytes.extend_from_slice(&checksum(key, value).to_le_bytes());
    bytes.extend_from_slice(value);
    table.insert(key, bytes.as_slice()).map_err(index_error).map(drop)
}

/// The value of an entry with a valid checksum.
pub(super) fn checked<'a>(key: &[u8], bytes: &'a [u8]) -> Result<&'a [u8], IndexError> {
    let (crc, value) = bytes.split_at_checked(4).ok_or_else(|| index_error("a truncated entry"))?;
    if crc == checksum(key, value).to_le_bytes() { Ok(value) } else { Err(index_error("checksum mismatch")) }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

pub(super) fn mark_of(bytes: &[u8]) -> Result<Mark, IndexError> {
    let mut cursor = Cursor(bytes);
    let mut next = || cursor.u64().ok_or_else(|| index_error("a truncated mark"));
    if next()? != FORMAT {
        return Err(index_error("another format version"));
    }
    let (upto, last, last_crc) = (Lsn(next()?), Lsn(next()?), next()? as u32);
    let (records, records_crc) = (Lsn(next()?), next()? as u32);
    Ok(Mark { upto, last, last_crc, records, records_crc, epoch: next()?, journal: next()? })
}

pub(super) fn mark_bytes(mark: Mark) -> Vec<u8> {
    let Mark { upto, last, last_crc, records, records_crc, epoch, journal } = mark;
    let mut bytes = Vec::new();
    let crcs = [last_crc, records_crc].map(u64::from);
    for number in [FORMAT, upto.0, last.0, crcs[0], records.0, crcs[1], epoch, journal] {
        put_u64(&mut bytes, number);
    }
    bytes
}

pub(super) fn frames_key(stream: &StreamId, first: u64) -> Vec<u8> {
    [&stream_key(stream)[..], &first.to_be_bytes()].concat()
}

pub(super) fn first_of(key: &[u8]) -> Result<u64, IndexError> {
    let first = key.get(STREAM_KEY_BYTES..).and_then(|bytes| bytes.try_into().ok());
    first.map(u64::from_be_bytes).ok_or_else(|| index_error("a truncated key"))
}

/// Encodes frame addresses as differences. The first record number is in the key; the first address counts from zero.
pub(super) fn entry_bytes(frames: &[FrameAddress]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frames.len() * 4 + 8);
    let mut before = FrameAddress { first: frames[0].first, lsn: Lsn(0) };
    for frame in frames {
        put_u64(&mut bytes, frame.first - before.first);
        put_u64(&mut bytes, frame.lsn.0 - before.lsn.0);
        before = *frame;
    }
    bytes
}

pub(super) fn account_key(key: &AccountKey) -> Result<Vec<u8>, IndexError> {
    codec::encode_row(key).map_err(index_error)
}

/// Key of a run's row. Rows of open runs sort first.
pub(super) fn run_key(over: bool, run: RunId) -> [u8; 17] {
    let mut key = [u8::from(over); 17];
    key[1..].copy_from_slice(run.0.as_bytes());
    key
}

/// Key of a run in the list by age: keys of one list sort by place.
pub(super) fn age_key(over: bool, (opened_ms, run): RunPlace) -> [u8; AGE_KEY_BYTES] {
    let mut key = [u8::from(over); AGE_KEY_BYTES];
    // With the sign bit flipped, big-endian bytes sort as the numbers do.
    key[1..9].copy_from_slice(&(opened_ms ^ i64::MIN).to_be_bytes());
    key[9..].copy_from_slice(run.0.as_bytes());
    key
}

/// The place in a key of the list by age.
pub(super) fn place_of(key: &[u8]) -> Result<RunPlace, IndexError> {
    let key: [u8; AGE_KEY_BYTES] = key.try_into().map_err(|_| index_error("a truncated key"))?;
    let (opened_ms, run) = key[1..].split_first_chunk().expect("the key is longer");
    let run = run.try_into().expect("the key ends with 16 bytes");
    Ok((i64::from_be_bytes(*opened_ms) ^ i64::MIN, RunId(Uuid::from_bytes(run))))
}

pub(super) fn is_over(key: &[u8]) -> bool {
    key.first() != Some(&0)
}
