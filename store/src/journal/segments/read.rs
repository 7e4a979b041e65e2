//! Reading a stream: places from the index and from memory, frames from the files and from the queue.

use std::sync::Arc;

use ostler_kernel::port::{JournalError, Recorded, Seq, StreamId};

use super::Shared;
use super::fold::FrameAt;
use super::frame::{self, Found, Place, Section};
use super::order::Ordered;
use crate::codec;

/// Records for which room is made before they are known to be there.
const ROOM_MAX: usize = 1024;

/// Bytes of records after which no more are read at once: with the last one, and what it takes to hold them, a page may be larger.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Reads up to `limit` records of a stream after number `after`.
pub(crate) fn read(
    shared: &Shared,
    stream: StreamId,
    after: u64,
    limit: usize,
) -> Result<Vec<Recorded>, JournalError> {
    let Some(from) = after.checked_add(1).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let frames = shared.ask(|index| {
        // First what is not in the index yet: if it gets there meanwhile, it is only found twice.
        let Some(recent) = recent(shared, &stream, from, limit) else { return Ok(Vec::new()) };
        let before = recent.first().map_or(u64::MAX, |(frame, _)| frame.first);
        let mut frames = Vec::new();
        if before > from {
            let known = index.frames(&stream, from, before, limit)?;
            frames.extend(known.into_iter().map(|frame| (frame, None)));
        }
        frames.extend(recent);
        Ok(frames)
    })?;
    let records = Vec::with_capacity(limit.min(ROOM_MAX).min(frames.len()));
    let mut reader = Reader { records, bytes: 0, from, limit, last: None };
    for (at, ordered) in frames {
        if reader.is_full() {
            break;
        }
        match ordered {
            Some(ordered) => reader.body(&stream, at, ordered.body())?,
            None => {
                let bytes = shared
                    .files
                    .read_frame(at.place)
                    .map_err(|error| damaged(at.place, error.to_string()))?;
                match frame::look(at.place, &bytes) {
                    Found::Frame { body, .. } => reader.body(&stream, at, body)?,
                    Found::Blank => return Err(damaged(at.place, "a frame is gone".into())),
                    Found::Bad(what) => return Err(damaged(at.place, what.into())),
                }
            }
        }
    }
    Ok(reader.records)
}

/// The frames from the one that holds record `from` on that are not in the index, with those not durable yet. `None`: the stream
/// is known to end before it.
fn recent(
    shared: &Shared,
    stream: &StreamId,
    from: u64,
    limit: usize,
) -> Option<Vec<(FrameAt, Option<Arc<Ordered>>)>> {
    let order = shared.order();
    let Some(tail) = order.fold.streams.get(stream) else { return Some(Vec::new()) };
    if tail.head.seq < from {
        return None;
    }
    let start = tail.frames.partition_point(|frame| frame.first <= from).saturating_sub(1);
    let frames = tail.frames[start..].iter().take(limit);
    Some(frames.map(|frame| (*frame, order.pending(frame.place))).collect())
}

fn damaged(place: Place, what: String) -> JournalError {
    JournalError::Damaged { place: format!("segment {}, offset {}", place.segment(), place.offset()), what }
}

struct Reader {
    records: Vec<Recorded>,
    /// As they are when they are unpacked.
    bytes: usize,
    from: u64,
    limit: usize,
    /// Number of the last record of the frame before.
    last: Option<u64>,
}

impl Reader {
    fn is_full(&self) -> bool {
        self.records.len() == self.limit || self.bytes >= PAGE_BYTES
    }

    fn body(&mut self, stream: &StreamId, at: FrameAt, body: &[u8]) -> Result<(), JournalError> {
        let body = frame::parse(body).ok_or_else(|| damaged(at.place, "a frame makes no sense".into()))?;
        let section = body.sections.iter().find(|section| section.stream == *stream);
        let section = section
            .filter(|section| section.first == at.first)
            .filter(|section| self.last.is_none_or(|last| last + 1 == section.first))
            .ok_or_else(|| damaged(at.place, "a frame does not continue its stream".into()))?;
        self.last = Some(section.last());
        self.section(at.place, section)
    }

    fn section(&mut self, place: Place, section: &Section<'_>) -> Result<(), JournalError> {
        let records = section.records().ok_or_else(|| damaged(place, "records do not add up".into()))?;
        for (record, seq) in records.into_iter().zip(section.first..) {
            if seq < self.from || self.is_full() {
                continue;
            }
            self.bytes += codec::unpacked_len(record);
            let event = codec::decode(record).map_err(|error| damaged(place, error.to_string()))?;
            let position = place.position();
            self.records.push(Recorded { seq: Seq(seq), position, at_ms: section.at_ms, event });
        }
        Ok(())
    }
}
