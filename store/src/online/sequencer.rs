//! The sequencer: assigns every append its address, under one short lock and without touching the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crossbeam::channel::Sender;
use ostler_kernel::port::{JournalError, Seq, StreamId};

use super::prepared_append::PreparedAppend;
use crate::format::damage::Damage;
use crate::format::frame::{self, FRAME_HEADER_BYTES};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, SEAL_BYTES_MAX};
use crate::format::stream::StreamHead;
use crate::index::tail_index::{FrameAddress, TailIndex};
use crate::index::{Index, IndexError};

pub(super) enum WriterMessage {
    Write(Arc<SequencedFrame>),
    Close,
}

/// A frame with an address, not yet durable.
pub(super) struct SequencedFrame {
    pub(super) lsn: Lsn,
    pub(super) bytes: Vec<u8>,
    pub(super) since: Option<Instant>,
}

impl SequencedFrame {
    pub(super) fn end(&self) -> Lsn {
        Lsn::new(self.lsn.segment(), self.lsn.offset() + self.bytes.len() as u64)
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[FRAME_HEADER_BYTES..]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AppendState {
    Accepting,
    /// Only operators' records are accepted, up to `urgent_bytes`.
    DiskFull {
        why: String,
        urgent_bytes: usize,
    },
    /// No append is accepted until the journal is reopened.
    Poisoned(String),
    /// No append is accepted, as the journal's end is missing. The index alone knows the missing records and stays unchanged.
    EndLost(Damage),
}

/// Most snapshots of the tail index kept for the indexer. For further segments the indexer reads the files.
const SNAPSHOTS_MAX: usize = 2;

pub(super) struct Sequencer {
    pub(super) tail: TailIndex,
    /// Tail index as of the end of each full segment, with the first address of the next: the indexer's input once the full
    /// segment is durable.
    pub(super) snapshots: VecDeque<(Lsn, TailIndex)>,
    pub(super) epoch: u64,
    pub(super) end: Lsn,
    pub(super) pending: VecDeque<Arc<SequencedFrame>>,
    pub(super) pending_bytes: usize,
    pub(super) state: AppendState,
    pub(super) segment_bytes: u64,
    pub(super) writer: Sender<WriterMessage>,
}

pub(super) enum SequenceError {
    /// The index failed; the append may succeed once the index is rebuilt.
    Index(IndexError),
    Append(JournalError),
}

impl From<IndexError> for SequenceError {
    fn from(error: IndexError) -> SequenceError {
        SequenceError::Index(error)
    }
}

impl Sequencer {
    /// Assigns an address, updates the tail index and sends the frame to the writer. Changes nothing on an error.
    ///
    /// The frame is sent under the lock, so the writer receives frames in address order.
    pub(super) fn append(
        &mut self,
        prepared: &mut PreparedAppend,
        index: &Index,
    ) -> Result<Lsn, SequenceError> {
        let mut chains = Vec::with_capacity(prepared.batches.len());
        for batch in &prepared.batches {
            let head = self.tail.stream_mut(batch.stream, index)?.head;
            if head.seq != batch.expected {
                return Err(SequenceError::Append(JournalError::Conflict {
                    stream: batch.stream,
                    expected: Seq(batch.expected),
                    actual: Seq(head.seq),
                }));
            }
            if batch.count > 0 {
                chains.push(head.chain);
            }
        }
        // Reading the index can fail, so all rows are loaded before anything changes.
        for (run, change) in &prepared.changes {
            self.tail.load_rows(*run, change, index)?;
        }
        if chains.is_empty() {
            return Ok(self.tail.last.0);
        }
        prepared.batches.retain(|batch| batch.count > 0);
        let bytes = frame::encode_batches(self.epoch, &prepared.batches, &chains);
        let lsn = self.next_lsn(bytes.len());
        if lsn.segment() != self.end.segment() && self.snapshots.len() < SNAPSHOTS_MAX {
            self.snapshots.push_back((lsn, self.tail.snapshot()));
        }
        for (batch, chain) in prepared.batches.iter().zip(&chains) {
            let head = StreamHead { seq: batch.expected + batch.count, chain: batch.chain(chain) };
            self.tail.add_frame(batch.stream, head, FrameAddress { first: batch.expected + 1, lsn });
        }
        for (run, change) in prepared.changes.drain(..) {
            self.tail.tables.apply(run, change, lsn.position());
        }
        (self.tail.epoch, self.tail.last, self.tail.records) = (self.epoch, (lsn, 0), (lsn, 0));
        let frame = Arc::new(SequencedFrame { lsn, bytes, since: prepared.since });
        self.end = frame.end();
        self.pending_bytes += frame.bytes.len();
        self.pending.push_back(frame.clone());
        // The writer lives as long as the journal. After a panic of the writer no append is acknowledged.
        let _ = self.writer.send(WriterMessage::Write(frame));
        Ok(lsn)
    }

    fn next_lsn(&self, len: usize) -> Lsn {
        if self.end.offset() + (len + SEAL_BYTES_MAX) as u64 <= self.segment_bytes {
            self.end
        } else {
            segment::first_lsn(self.end.segment() + 1)
        }
    }

    /// Takes the snapshot as of `upto`, if kept. Drops older snapshots, which have become useless.
    pub(super) fn take_snapshot(&mut self, upto: Lsn) -> Option<TailIndex> {
        let count = self.snapshots.partition_point(|(lsn, _)| *lsn <= upto);
        self.snapshots.drain(..count).next_back().filter(|(lsn, _)| *lsn == upto).map(|(_, tail)| tail)
    }

    pub(super) fn pending(&self, lsn: Lsn) -> Option<Arc<SequencedFrame>> {
        let at = self.pending.binary_search_by_key(&lsn, |frame| frame.lsn).ok()?;
        Some(self.pending[at].clone())
    }

    /// Sequence number of the stream's last record; `None` if only the index knows.
    pub(super) fn seq(&self, stream: &StreamId) -> Option<u64> {
        self.tail.streams.get(stream).map(|tail| tail.head.seq)
    }
}
