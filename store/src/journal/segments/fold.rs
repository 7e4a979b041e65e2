//! What the frames behind the index's mark come to: the same whether they were just ordered or read back.

use std::collections::HashMap;

use ostler_kernel::id::RunId;
use ostler_kernel::port::StreamId;

use super::frame::{Body, Place, Section};
use crate::codec;
use crate::index::{Broken, Head, Index, Mark};
use crate::journal::rows::{self, AccountKey, Change, Lines, Reader};

/// Where the frame is whose first record of a stream is `first`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameAt {
    pub(crate) first: u64,
    pub(crate) place: Place,
}

/// The end of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamTail {
    pub(crate) head: Head,
    /// Frames that the index does not have, ascending.
    pub(crate) frames: Vec<FrameAt>,
    /// Nobody wrote to it since the index last caught up.
    idle: bool,
}

/// Everything that frames behind the mark changed. Bounded, since the index catches up once a segment is full.
#[derive(Default)]
pub(crate) struct Fold {
    pub(crate) streams: HashMap<StreamId, StreamTail>,
    /// Lines of the tables; each says which frame changed it last.
    pub(crate) lines: Lines,
    reader: Reader,
    /// Highest epoch so far.
    pub(crate) epoch: u64,
    /// The last frame and its checksum, which is zero where the frame was ordered and not read back.
    pub(crate) last: (Place, u32),
}

/// Why a frame cannot follow the ones before it.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// The index failed; the frame may be fine.
    Index(Broken),
    /// The stream is elsewhere, or the frame is from a process that had lost the store.
    Frame(Option<StreamId>, String),
}

impl From<Broken> for Misfit {
    fn from(broken: Broken) -> Misfit {
        Misfit::Index(broken)
    }
}

impl Fold {
    /// The fold of nothing behind `mark`.
    pub(crate) fn after(mark: Option<Mark>) -> Fold {
        mark.map_or_else(Fold::default, |mark| Fold {
            epoch: mark.epoch,
            last: (mark.last, mark.last_crc),
            ..Fold::default()
        })
    }

    /// What it comes to now, whatever comes behind it.
    pub(crate) fn as_it_is(&self) -> Fold {
        let (streams, lines) = (self.streams.clone(), self.lines.clone());
        Fold { streams, lines, reader: Reader::default(), epoch: self.epoch, last: self.last }
    }

    /// The end of a stream, to be changed.
    pub(crate) fn tail(&mut self, stream: StreamId, index: &Index) -> Result<&mut StreamTail, Broken> {
        use std::collections::hash_map::Entry;
        match self.streams.entry(stream) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let head = index.head(&stream)?.unwrap_or_default();
                Ok(entry.insert(StreamTail { head, ..StreamTail::default() }))
            }
        }
    }

    /// Adds a frame of a stream that ends at `head`.
    pub(crate) fn extend(&mut self, stream: StreamId, head: Head, frame: FrameAt) {
        let tail = self.streams.entry(stream).or_default();
        tail.head = head;
        tail.frames.push(frame);
        tail.idle = false;
    }

    /// Makes sure that the lines that a change of a run is about are here, if there are any.
    pub(crate) fn fetch(&mut self, run: RunId, change: &Change, index: &Index) -> Result<(), Broken> {
        if let Change::Begin(row) = change {
            return self.fetch_account(rows::account_of(row), index);
        }
        if !self.lines.rows.contains_key(&run)
            && let Some(row) = index.row(run)?
        {
            self.lines.rows.insert(run, row);
        }
        match (change, self.lines.rows.get(&run)) {
            (Change::Charge(..) | Change::Evaluate(_), Some(row)) => {
                self.fetch_account(rows::account_of(row), index)
            }
            _ => Ok(()),
        }
    }

    fn fetch_account(&mut self, key: AccountKey, index: &Index) -> Result<(), Broken> {
        if !self.lines.accounts.contains_key(&key)
            && let Some(row) = index.account(&key)?
        {
            self.lines.accounts.insert(key, row);
        }
        Ok(())
    }

    /// Adds a frame that was read back.
    pub(crate) fn frame(
        &mut self,
        place: Place,
        crc: u32,
        body: &Body<'_>,
        index: &Index,
    ) -> Result<(), Misfit> {
        if body.epoch < self.epoch {
            let what = format!("written in epoch {}, after epoch {} had begun", body.epoch, self.epoch);
            return Err(Misfit::Frame(None, what));
        }
        for section in &body.sections {
            let head = self.tail(section.stream, index)?.head;
            if !section.follows(&head) {
                let what = format!(
                    "it holds records from {} of {:?}, which ends at {}, or another history of it",
                    section.first, section.stream, head.seq
                );
                return Err(Misfit::Frame(Some(section.stream), what));
            }
        }
        for section in &body.sections {
            self.lines_of(place, section, index)?;
            self.extend(section.stream, section.head(), FrameAt { first: section.first, place });
        }
        for account in &body.accounts {
            let row = rows::checkpointed(account, place.position());
            let row = row.map_err(|error| Misfit::Frame(None, format!("its accounts: {error}")))?;
            self.lines.accounts.insert(rows::key_of(&row), row);
        }
        self.epoch = body.epoch;
        self.last = (place, crc);
        Ok(())
    }

    fn lines_of(&mut self, place: Place, section: &Section<'_>, index: &Index) -> Result<(), Misfit> {
        let misfit = |what: String| Misfit::Frame(Some(section.stream), what);
        let records = section.records().ok_or_else(|| misfit("its records do not add up".into()))?;
        for record in records {
            if codec::touches_tables(record).map_err(|error| misfit(error.to_string()))? {
                let event = codec::decode(record).map_err(|error| misfit(error.to_string()))?;
                let Some(run) = rows::subject_of(&section.stream, &event) else { continue };
                if let Some(change) = self.reader.change(&event, section.at_ms) {
                    self.fetch(run, &change, index)?;
                    self.lines.apply(run, change, place.position());
                }
            }
        }
        Ok(())
    }

    /// Forgets what the index knows, now that it has everything before `upto`. A stream's end stays for one
    /// more round, as it is likely to be written to again.
    pub(crate) fn forget(&mut self, upto: Place) {
        self.streams.retain(|_, tail| {
            let known = tail.frames.partition_point(|frame| frame.place < upto);
            tail.frames.drain(..known);
            tail.frames.shrink_to_fit();
            !(tail.frames.is_empty() && std::mem::replace(&mut tail.idle, true))
        });
        let upto = upto.position();
        self.lines.rows.retain(|_, row| row.position >= upto);
        self.lines.accounts.retain(|_, row| row.position >= upto.0);
    }
}
