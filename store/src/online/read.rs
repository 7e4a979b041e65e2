//! Reading a stream: addresses from the index and the tail index, frames from the segments and the writer's queue.

use std::sync::Arc;

use ostler_kernel::port::{JournalError, Recorded, Seq, StreamId};

use super::sequencer::SequencedFrame;
use super::shared::Shared;
use crate::format::codec;
use crate::format::frame::{self, Found};
use crate::format::frame_body::{self, Section};
use crate::format::lsn::Lsn;
use crate::index::tail_index::FrameAddress;

const CAPACITY_MAX: usize = 1024;

/// Decoded bytes that end a page. A page is larger by at most one record.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Reads up to `limit` records of a stream behind sequence number `after`, ending earlier at [`PAGE_BYTES`].
pub(super) fn read(
    shared: &Shared,
    stream: StreamId,
    after: u64,
    limit: usize,
) -> Result<Vec<Recorded>, JournalError> {
    let Some(from) = after.checked_add(1).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let frames = shared.query(|index| {
        // The tail index first: a frame indexed meanwhile is found twice, never missed.
        let Some(recent) = recent(shared, &stream, from, limit) else { return Ok(Vec::new()) };
        let before = recent.first().map_or(u64::MAX, |(frame, _)| frame.first);
        let mut frames = Vec::new();
        if before > from {
            let indexed = index.frames(&stream, from, before, limit)?;
            frames.extend(indexed.into_iter().map(|frame| (frame, None)));
        }
        frames.extend(recent);
        Ok(frames)
    })?;
    let records = Vec::with_capacity(limit.min(CAPACITY_MAX).min(frames.len()));
    let mut reader = Reader { records, bytes: 0, from, limit, last: None };
    for (address, pending) in frames {
        if reader.is_full() {
            break;
        }
        match pending {
            Some(frame) => reader.read_body(&stream, address, frame.body())?,
            None => {
                let bytes = shared
                    .files
                    .read_frame(address.lsn)
                    .map_err(|error| damaged(address.lsn, error.to_string()))?;
                match frame::read(address.lsn, &bytes) {
                    Found::Frame { body, .. } => reader.read_body(&stream, address, body)?,
                    Found::Blank => return Err(damaged(address.lsn, "a frame is missing".into())),
                    Found::Bad(what) => return Err(damaged(address.lsn, what.into())),
                }
            }
        }
    }
    Ok(reader.records)
}

/// Frames of the tail index from the frame with record `from` on, with the content of those not yet durable. `None`: the stream
/// ends before `from`.
fn recent(
    shared: &Shared,
    stream: &StreamId,
    from: u64,
    limit: usize,
) -> Option<Vec<(FrameAddress, Option<Arc<SequencedFrame>>)>> {
    let sequencer = shared.sequencer();
    let Some(tail) = sequencer.tail.streams.get(stream) else { return Some(Vec::new()) };
    if tail.head.seq < from {
        return None;
    }
    let start = tail.frames.partition_point(|frame| frame.first <= from).saturating_sub(1);
    let frames = tail.frames[start..].iter().take(limit);
    Some(frames.map(|frame| (*frame, sequencer.pending(frame.lsn))).collect())
}

fn damaged(lsn: Lsn, what: String) -> JournalError {
    JournalError::Damaged { place: lsn.to_string(), what }
}

struct Reader {
    records: Vec<Recorded>,
    bytes: usize,
    from: u64,
    limit: usize,
    last: Option<u64>,
}

impl Reader {
    fn is_full(&self) -> bool {
        self.records.len() == self.limit || self.bytes >= PAGE_BYTES
    }

    fn read_body(
        &mut self,
        stream: &StreamId,
        address: FrameAddress,
        body: &[u8],
    ) -> Result<(), JournalError> {
        let body =
            frame_body::parse(body).ok_or_else(|| damaged(address.lsn, "an unreadable frame".into()))?;
        let section = body.sections.iter().find(|section| section.stream == *stream);
        let section = section
            .filter(|section| section.first == address.first)
            .filter(|section| self.last.is_none_or(|last| last + 1 == section.first))
            .ok_or_else(|| damaged(address.lsn, "a frame does not continue its stream".into()))?;
        self.last = Some(section.last());
        self.read_section(address.lsn, section)
    }

    fn read_section(&mut self, lsn: Lsn, section: &Section<'_>) -> Result<(), JournalError> {
        let records = section
            .records()
            .ok_or_else(|| damaged(lsn, "record lengths do not match the section".into()))?;
        for (record, seq) in records.into_iter().zip(section.first..) {
            if seq < self.from || self.is_full() {
                continue;
            }
            self.bytes += codec::decompressed_len(record);
            let event = codec::decode(record).map_err(|error| damaged(lsn, error.to_string()))?;
            let position = lsn.position();
            self.records.push(Recorded { seq: Seq(seq), position, at_ms: section.at_ms, event });
        }
        Ok(())
    }
}
