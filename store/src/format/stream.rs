//! Streams as bytes and as text, and the hash chain through the records of a stream.

use ostler_kernel::id::RunId;
use ostler_kernel::lineage;
use ostler_kernel::port::{PARTITIONS, StreamId, StreamKind};

use super::bytes::Cursor;

/// Hash over all records of a stream up to and including a frame: 16 bytes of BLAKE3.
pub(crate) type ChainHash = [u8; 16];

/// End of a stream: the sequence number of the last record and the hash over everything up to and including that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamHead {
    pub(crate) seq: u64,
    pub(crate) chain: ChainHash,
}

pub(crate) const STREAM_KEY_BYTES: usize = 19;

/// Encodes a stream id; streams of one kind sort together.
pub(crate) fn stream_key(stream: &StreamId) -> [u8; STREAM_KEY_BYTES] {
    let mut bytes = [0; STREAM_KEY_BYTES];
    bytes[0] = stream.kind as u8;
    bytes[1..3].copy_from_slice(&stream.partition.to_be_bytes());
    bytes[3..].copy_from_slice(&stream.key);
    bytes
}

pub(crate) fn stream_from_key(bytes: &[u8]) -> Option<StreamId> {
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

/// The run owning a stream; `None` for streams of clients and pipelines.
pub(crate) fn run_of(stream: &StreamId) -> Option<RunId> {
    match stream.kind {
        StreamKind::Run | StreamKind::Attempts => Some(RunId(uuid::Uuid::from_bytes(stream.key))),
        StreamKind::Client | StreamKind::Pipeline | StreamKind::PipelineLog => None,
    }
}

/// Names a stream in messages. Client and pipeline streams are keyed by a digest, so their names are not available here.
pub(crate) fn describe(stream: &StreamId) -> String {
    let key = u128::from_be_bytes(stream.key);
    match (stream.kind, run_of(stream)) {
        (_, Some(run)) => format!("run {run}"),
        (StreamKind::Pipeline | StreamKind::PipelineLog, _) => format!("pipeline {key:032x}"),
        _ => format!("client {key:032x}"),
    }
}

pub(crate) fn records_digest(records: &[u8]) -> [u8; 32] {
    lineage::hash("aos/records/1", &[records]).0
}

/// Chain hash after a section, from the hash before the section and the section's content.
pub(crate) fn next_chain(
    prev: &ChainHash,
    stream: &StreamId,
    first: u64,
    at_ms: i64,
    digest: &[u8; 32],
) -> ChainHash {
    let parts: [&[u8]; 5] = [prev, &stream_key(stream), &first.to_le_bytes(), &at_ms.to_le_bytes(), digest];
    truncated(&lineage::hash("aos/chain/1", &parts).0)
}

/// Chain hash in front of a truncated pipeline log, standing for the dropped events before `first`.
pub(crate) fn truncated_log_chain(stream: &StreamId, first: u64) -> ChainHash {
    let parts: [&[u8]; 2] = [&stream_key(stream), &first.to_le_bytes()];
    truncated(&lineage::hash("aos/beginning/1", &parts).0)
}

fn truncated(digest: &[u8; 32]) -> ChainHash {
    let mut chain = [0; 16];
    chain.copy_from_slice(&digest[..16]);
    chain
}
