//! The tail index: everything the frames behind the index's mark changed, in memory.
//!
//! `index` plus `tail index` equals the journal. Three paths fill a tail index with the same code: appending, opening, and
//! rebuilding after a rollback. [`TailIndex::evict_indexed`] drops the part the index has caught up with.

use std::collections::HashMap;

use ostler_kernel::event::RecordPlace;
use ostler_kernel::id::RunId;
use ostler_kernel::port::StreamId;

use super::tables::{self, AccountKey, Change, ChangeReader, Tables};
use super::{Index, IndexError, Mark};
use crate::format::codec;
use crate::format::frame_body::{Body, Section};
use crate::format::lsn::Lsn;
use crate::format::stream::StreamHead;

/// Address of a frame, with the sequence number of the first record of a stream in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameAddress {
    pub(crate) first: u64,
    pub(crate) lsn: Lsn,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StreamTail {
    pub(crate) head: StreamHead,
    pub(crate) frames: Vec<FrameAddress>,
    idle: bool,
}

/// State of the frames behind the index's mark. Bounded: the index catches up with each full segment.
#[derive(Default)]
pub(crate) struct TailIndex {
    pub(crate) streams: HashMap<StreamId, StreamTail>,
    /// Changed rows; each row's position names the last frame to change the row.
    pub(crate) tables: Tables,
    change_reader: ChangeReader,
    pub(crate) epoch: u64,
    /// The last frame and the frame's checksum; 0 for a frame not read back from disk.
    pub(crate) last: (Lsn, u32),
    /// The last frame with records, likewise.
    pub(crate) records: (Lsn, u32),
}

/// Why a frame cannot follow the frames before.
#[derive(Debug)]
pub(crate) enum ApplyError {
    Index(IndexError),
    /// The frame does not continue its stream, or comes from a process that had lost the folder.
    Frame(Option<StreamId>, String),
}

impl From<IndexError> for ApplyError {
    fn from(error: IndexError) -> ApplyError {
        ApplyError::Index(error)
    }
}

impl TailIndex {
    pub(crate) fn after(mark: Option<Mark>) -> TailIndex {
        mark.map_or_else(TailIndex::default, |mark| TailIndex {
            epoch: mark.epoch,
            last: (mark.last, mark.last_crc),
            records: (mark.records, mark.records_crc),
            ..TailIndex::default()
        })
    }

    pub(crate) fn snapshot(&self) -> TailIndex {
        let (streams, tables) = (self.streams.clone(), self.tables.clone());
        let change_reader = ChangeReader::default();
        TailIndex {
            streams,
            tables,
            change_reader,
            epoch: self.epoch,
            last: self.last,
            records: self.records,
        }
    }

    /// The tail of a stream; a stream without one starts at the index's head.
    pub(crate) fn stream_mut(
        &mut self,
        stream: StreamId,
        index: &Index,
    ) -> Result<&mut StreamTail, IndexError> {
        use std::collections::hash_map::Entry;
        match self.streams.entry(stream) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let head = index.head(&stream)?.unwrap_or_default();
                Ok(entry.insert(StreamTail { head, ..StreamTail::default() }))
            }
        }
    }

    pub(crate) fn add_frame(&mut self, stream: StreamId, head: StreamHead, frame: FrameAddress) {
        let tail = self.streams.entry(stream).or_default();
        tail.head = head;
        tail.frames.push(frame);
        tail.idle = false;
    }

    /// Copies the rows a change needs from the index, unless they are in memory already.
    pub(crate) fn load_rows(&mut self, run: RunId, change: &Change, index: &Index) -> Result<(), IndexError> {
        if let Change::Open(row) = change {
            return self.load_account(tables::paying_account(row), index);
        }
        if !self.tables.runs.contains_key(&run)
            && let Some(row) = index.run(run)?
        {
            self.tables.runs.insert(run, row);
        }
        match self.tables.runs.get(&run).filter(|_| change.is_of_account()) {
            Some(row) => self.load_account(tables::paying_account(row), index),
            None => Ok(()),
        }
    }

    fn load_account(&mut self, key: AccountKey, index: &Index) -> Result<(), IndexError> {
        if !self.tables.accounts.contains_key(&key)
            && let Some(row) = index.account(&key)?
        {
            self.tables.accounts.insert(key, row);
        }
        Ok(())
    }

    /// Applies a frame read back from disk or still waiting for the writer.
    pub(crate) fn apply_frame(
        &mut self,
        lsn: Lsn,
        crc: u32,
        body: &Body<'_>,
        index: &Index,
    ) -> Result<(), ApplyError> {
        if body.epoch < self.epoch {
            let what = format!("a frame of epoch {} behind epoch {}", body.epoch, self.epoch);
            return Err(ApplyError::Frame(None, what));
        }
        for section in &body.sections {
            let head = self.stream_mut(section.stream, index)?.head;
            if !section.follows(&head) {
                let what = format!(
                    "a frame with records from {} of {:?}; the stream ends at {}, or has another history",
                    section.first, section.stream, head.seq
                );
                return Err(ApplyError::Frame(Some(section.stream), what));
            }
        }
        for section in &body.sections {
            self.apply_section(lsn, section, index)?;
            self.add_frame(section.stream, section.head(), FrameAddress { first: section.first, lsn });
        }
        for account in &body.accounts {
            let row = tables::decode_checkpointed(account, lsn.position());
            let row =
                row.map_err(|error| ApplyError::Frame(None, format!("checkpointed accounts: {error}")))?;
            self.tables.accounts.insert(tables::key_of(&row), row);
        }
        self.epoch = body.epoch;
        self.last = (lsn, crc);
        if !body.sections.is_empty() {
            self.records = (lsn, crc);
        }
        Ok(())
    }

    fn apply_section(&mut self, lsn: Lsn, section: &Section<'_>, index: &Index) -> Result<(), ApplyError> {
        let invalid = |what: String| ApplyError::Frame(Some(section.stream), what);
        let records =
            section.records().ok_or_else(|| invalid("record lengths do not match the section".into()))?;
        for (seq, record) in (section.first..).zip(records) {
            if codec::touches_tables(record).map_err(|error| invalid(error.to_string()))? {
                let event = codec::decode(record).map_err(|error| invalid(error.to_string()))?;
                let Some(run) = tables::affected_run(&section.stream, &event) else { continue };
                if let Some(change) =
                    self.change_reader.change(&event, RecordPlace { run, seq }, section.at_ms)
                {
                    self.load_rows(run, &change, index)?;
                    self.tables.apply(run, change, lsn.position());
                }
            }
        }
        Ok(())
    }

    /// Drops everything the index holds after catching up with `upto`. The head of a stream stays for one more round, as the
    /// stream is likely to be written to again.
    pub(crate) fn evict_indexed(&mut self, upto: Lsn) {
        self.streams.retain(|_, tail| {
            let indexed = tail.frames.partition_point(|frame| frame.lsn < upto);
            tail.frames.drain(..indexed);
            tail.frames.shrink_to_fit();
            !(tail.frames.is_empty() && std::mem::replace(&mut tail.idle, true))
        });
        let upto = upto.position();
        self.tables.runs.retain(|_, row| row.position >= upto);
        self.tables.accounts.retain(|_, row| row.position >= upto.0);
        self.tables.records.retain(|_, row| row.position >= upto.0);
    }
}
