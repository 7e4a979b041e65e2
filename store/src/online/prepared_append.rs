//! Encoding an append, before the sequencer's lock.

use std::time::Instant;

use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{JournalError, StreamBatch};

use crate::format::bytes::put_block;
use crate::format::codec;
use crate::format::frame::{EncodedBatch, FRAME_BYTES_MAX};
use crate::format::segment::{SEAL_BYTES_MAX, SEGMENT_HEADER_BYTES};
use crate::format::stream::records_digest;
use crate::index::tables::{Change, ChangeReader};

const FRAME_OVERHEAD_BYTES: usize = 32;

pub(super) struct PreparedAppend {
    pub(super) batches: Vec<EncodedBatch>,
    pub(super) changes: Vec<(RunId, Change)>,
    pub(super) bytes: usize,
    /// True if an operator's record is included, which may use the reserve.
    pub(super) urgent: bool,
    pub(super) since: Option<Instant>,
}

impl PreparedAppend {
    /// Encodes `batches`.
    ///
    /// # Errors
    ///
    /// [`JournalError::Refused`] for a record or an append over the limits.
    pub(super) fn new(
        batches: &[StreamBatch],
        reader: &ChangeReader,
        segment_bytes: u64,
        since: Option<Instant>,
    ) -> Result<PreparedAppend, JournalError> {
        let mut prepared = PreparedAppend {
            batches: Vec::new(),
            changes: Vec::new(),
            bytes: FRAME_OVERHEAD_BYTES,
            urgent: false,
            since,
        };
        for batch in batches {
            let encoded = encode(batch)?;
            prepared.bytes += encoded.bytes_max();
            prepared.batches.push(encoded);
            prepared.urgent |= batch.events.iter().any(|event| matches!(event, Event::Operator(_)));
            prepared.changes.extend(reader.changes(
                &batch.stream,
                batch.expected.0 + 1,
                &batch.events,
                batch.at_ms,
            ));
        }
        let max = frame_bytes_max(segment_bytes);
        if prepared.bytes > max {
            let bytes = prepared.bytes;
            return Err(JournalError::Refused(format!(
                "an append of {bytes} bytes, FRAME_BYTES_MAX allows {max}"
            )));
        }
        Ok(prepared)
    }
}

fn frame_bytes_max(segment_bytes: u64) -> usize {
    FRAME_BYTES_MAX.min(segment_bytes as usize - SEGMENT_HEADER_BYTES - SEAL_BYTES_MAX)
}

fn encode(batch: &StreamBatch) -> Result<EncodedBatch, JournalError> {
    let mut records = Vec::with_capacity(batch.events.len() * 64);
    let mut record = Vec::with_capacity(256);
    for event in &batch.events {
        record.clear();
        codec::encode(event, &mut record).map_err(|error| JournalError::Refused(error.to_string()))?;
        put_block(&mut records, &record);
    }
    Ok(EncodedBatch {
        stream: batch.stream,
        expected: batch.expected.0,
        at_ms: batch.at_ms,
        count: batch.events.len() as u64,
        digest: records_digest(&records),
        records,
    })
}
