//! Giving every append its place: under one short lock, without touching the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crossbeam::channel::Sender;
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::port::{JournalError, StreamBatch, StreamId};

use super::fold::{Fold, FrameAt};
use super::frame::{self, Draft, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Place};
use super::segment::{SEAL_BYTES_MAX, SEGMENT_HEADER_BYTES};
use super::verify::Damage;
use crate::bytes::put_block;
use crate::codec;
use crate::index::{Broken, Head, Index};
use crate::journal::rows::{self, Change};

/// What the writer thread is told.
pub(crate) enum Message {
    /// Write this.
    Frame(Arc<Ordered>),
    /// Write nothing more.
    Close,
}

/// A frame that has its place and is not durable yet.
pub(crate) struct Ordered {
    pub(crate) place: Place,
    /// With a blank header.
    pub(crate) bytes: Vec<u8>,
    /// When it was appended, if that is measured.
    pub(crate) since: Option<Instant>,
}

impl Ordered {
    /// Where the next one may start.
    pub(crate) fn end(&self) -> Place {
        Place::new(self.place.segment(), self.place.offset() + self.bytes.len() as u64)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[FRAME_HEADER_BYTES..]
    }
}

/// Whether the journal takes appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Yes.
    Writing,
    /// Only what an operator asks for, and only so many bytes of it.
    Full { why: String, urgent_bytes: usize },
    /// No more.
    Poisoned(String),
    /// No: its end is gone. The index alone knows of that, so it stays as it is.
    Cut(Damage),
}

/// Folds of full segments that are kept for the index, at most; what it is told of others it reads.
const FULL_MAX: usize = 2;

/// What is ordered.
pub(crate) struct Order {
    pub(crate) fold: Fold,
    /// The fold as it was when a segment was full, and where the next begins: what the index takes in once all of that is durable.
    pub(crate) full: VecDeque<(Place, Fold)>,
    pub(crate) epoch: u64,
    /// Where the next frame goes.
    pub(crate) end: Place,
    /// Ordered and not durable, ascending.
    pub(crate) pending: VecDeque<Arc<Ordered>>,
    pub(crate) pending_bytes: usize,
    pub(crate) standing: Standing,
    pub(crate) segment_bytes: u64,
    pub(crate) writer: Sender<Message>,
}

/// An append before it has a place: everything that can be done without the lock is done.
pub(crate) struct Prepared {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) changes: Vec<(RunId, Change)>,
    /// No more bytes than the frame will take.
    pub(crate) bytes: usize,
    /// Whether an operator asked for it: it may use the reserve.
    pub(crate) urgent: bool,
    /// When it was begun, if that is measured.
    since: Option<Instant>,
}

impl Prepared {
    pub(crate) fn new(
        batches: &[StreamBatch],
        reader: &rows::Reader,
        segment_bytes: u64,
        since: Option<Instant>,
    ) -> Result<Prepared, JournalError> {
        let mut prepared =
            Prepared { drafts: Vec::new(), changes: Vec::new(), bytes: 32, urgent: false, since };
        for batch in batches {
            let draft = draft(batch)?;
            prepared.bytes += draft.bytes_max();
            prepared.drafts.push(draft);
            prepared.urgent |= batch.events.iter().any(|event| matches!(event, Event::Operator(_)));
            prepared.changes.extend(reader.changes(&batch.stream, &batch.events, batch.at_ms));
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

/// Largest frame that a segment of this length can hold.
fn frame_bytes_max(segment_bytes: u64) -> usize {
    FRAME_BYTES_MAX.min(segment_bytes as usize - SEGMENT_HEADER_BYTES - SEAL_BYTES_MAX)
}

fn draft(batch: &StreamBatch) -> Result<Draft, JournalError> {
    let mut records = Vec::with_capacity(batch.events.len() * 64);
    let mut record = Vec::with_capacity(256);
    for event in &batch.events {
        record.clear();
        codec::encode(event, &mut record).map_err(|error| JournalError::Refused(error.to_string()))?;
        put_block(&mut records, &record);
    }
    Ok(Draft {
        stream: batch.stream,
        expected: batch.expected.0,
        at_ms: batch.at_ms,
        count: batch.events.len() as u64,
        digest: frame::digest(&records),
        records,
    })
}

/// Why an append got no place.
pub(crate) enum NotOrdered {
    /// The index failed: build it again, then try again.
    Index(Broken),
    Error(JournalError),
}

impl From<Broken> for NotOrdered {
    fn from(broken: Broken) -> NotOrdered {
        NotOrdered::Index(broken)
    }
}

impl Order {
    /// Gives the append its place and hands it to the writer, or changes nothing.
    pub(crate) fn append(&mut self, prepared: &mut Prepared, index: &Index) -> Result<Place, NotOrdered> {
        let mut chains = Vec::with_capacity(prepared.drafts.len());
        for draft in &prepared.drafts {
            let head = self.fold.tail(draft.stream, index)?.head;
            if head.seq != draft.expected {
                return Err(NotOrdered::Error(JournalError::Conflict {
                    stream: draft.stream,
                    expected: ostler_kernel::port::Seq(draft.expected),
                    actual: ostler_kernel::port::Seq(head.seq),
                }));
            }
            if draft.count > 0 {
                chains.push(head.chain);
            }
        }
        // Lines are looked up before anything changes, since looking up can fail.
        for (run, change) in &prepared.changes {
            self.fold.fetch(*run, change, index)?;
        }
        if chains.is_empty() {
            return Ok(self.fold.last.0);
        }
        prepared.drafts.retain(|draft| draft.count > 0);
        let bytes = frame::assemble(self.epoch, &prepared.drafts, &chains);
        let place = self.place_for(bytes.len());
        if place.segment() != self.end.segment() && self.full.len() < FULL_MAX {
            self.full.push_back((place, self.fold.as_it_is()));
        }
        for (draft, chain) in prepared.drafts.iter().zip(&chains) {
            let head = Head { seq: draft.expected + draft.count, chain: draft.chain(chain) };
            self.fold.extend(draft.stream, head, FrameAt { first: draft.expected + 1, place });
        }
        for (run, change) in prepared.changes.drain(..) {
            self.fold.lines.apply(run, change, place.position());
        }
        (self.fold.epoch, self.fold.last) = (self.epoch, (place, 0));
        let ordered = Arc::new(Ordered { place, bytes, since: prepared.since });
        self.end = ordered.end();
        self.pending_bytes += ordered.bytes.len();
        self.pending.push_back(ordered.clone());
        // The writer lives as long as the journal; if it panicked, nobody ever gets an acknowledgement.
        let _ = self.writer.send(Message::Frame(ordered));
        Ok(place)
    }

    fn place_for(&self, len: usize) -> Place {
        if self.end.offset() + (len + SEAL_BYTES_MAX) as u64 <= self.segment_bytes {
            self.end
        } else {
            Place::new(self.end.segment() + 1, SEGMENT_HEADER_BYTES as u64)
        }
    }

    /// The fold of everything before `upto`, where a segment begins, if it was kept. Those of segments before it are of no more use.
    pub(crate) fn take_full(&mut self, upto: Place) -> Option<Fold> {
        let behind = self.full.partition_point(|(place, _)| *place <= upto);
        self.full.drain(..behind).next_back().filter(|(place, _)| *place == upto).map(|(_, fold)| fold)
    }

    /// The frame at `place`, if it is not durable yet.
    pub(crate) fn pending(&self, place: Place) -> Option<Arc<Ordered>> {
        let at = self.pending.binary_search_by_key(&place, |ordered| ordered.place).ok()?;
        Some(self.pending[at].clone())
    }

    /// Number of the stream's last record, if it can be told without the index.
    pub(crate) fn seq(&self, stream: &StreamId) -> Option<u64> {
        self.fold.streams.get(stream).map(|tail| tail.head.seq)
    }
}
