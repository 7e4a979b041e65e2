//! Frame bodies, decoded: sections of records, or a checkpoint of accounts.

use ostler_kernel::event::Event;
use ostler_kernel::port::{StreamId, StreamKind};

use super::bytes::Cursor;
use super::codec;
use super::frame::{CHECKPOINT, VERSION};
use super::stream::{
    ChainHash, STREAM_KEY_BYTES, StreamHead, next_chain, records_digest, stream_from_key, truncated_log_chain,
};

pub(crate) struct Body<'a> {
    pub(crate) epoch: u64,
    pub(crate) sections: Vec<Section<'a>>,
    pub(crate) accounts: Vec<&'a [u8]>,
}

impl Body<'_> {
    /// Returns whether the frame is a seal, written when a process closes the journal.
    pub(crate) fn is_seal(&self) -> bool {
        self.sections.is_empty() && self.accounts.is_empty()
    }
}

#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) stream: StreamId,
    pub(crate) first: u64,
    pub(crate) at_ms: i64,
    pub(crate) prev: ChainHash,
    pub(crate) count: u64,
    pub(crate) records: &'a [u8],
}

impl<'a> Section<'a> {
    fn chain(&self) -> ChainHash {
        next_chain(&self.prev, &self.stream, self.first, self.at_ms, &records_digest(self.records))
    }

    pub(crate) fn head(&self) -> StreamHead {
        StreamHead { seq: self.last(), chain: self.chain() }
    }

    /// Returns whether the section continues a stream ending at `head`, by sequence number and chain hash.
    ///
    /// A truncated pipeline log starts above 1. Such a log names [`truncated_log_chain`] as its predecessor, so compaction is
    /// distinguishable from damage: a log with lost records names the chain hash of those records instead.
    pub(crate) fn follows(&self, head: &StreamHead) -> bool {
        let is_next = self.first == head.seq + 1 && self.prev == head.chain;
        let is_log = self.stream.kind == StreamKind::PipelineLog;
        let starts_log = is_log && *head == StreamHead::default() && self.first > 1;
        is_next || (starts_log && self.prev == truncated_log_chain(&self.stream, self.first))
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Splits the section into records; `None` if lengths or the count do not match.
    pub(crate) fn records(&self) -> Option<Vec<&'a [u8]>> {
        let mut cursor = Cursor(self.records);
        let mut records = Vec::new();
        while !cursor.0.is_empty() {
            records.push(cursor.block()?);
        }
        (records.len() as u64 == self.count).then_some(records)
    }

    /// Decodes all records.
    ///
    /// # Errors
    ///
    /// The first record, in words, that cannot be split off or decoded.
    pub(crate) fn events(&self) -> Result<Vec<Event>, String> {
        let records = self.records().ok_or_else(|| "record lengths do not match the section".to_owned())?;
        let events =
            records.into_iter().map(|record| codec::decode(record).map_err(|error| error.to_string()));
        events.collect()
    }
}

/// Decodes a body. Behind a valid checksum only a bug yields `None`.
pub(crate) fn parse(body: &[u8]) -> Option<Body<'_>> {
    let mut cursor = Cursor(body);
    let version = Some(cursor.array::<1>()?[0]).filter(|version| [VERSION, CHECKPOINT].contains(version))?;
    let epoch = cursor.u64()?;
    let count = cursor.u64()?;
    let (mut sections, mut accounts) = (Vec::new(), Vec::new());
    for _ in 0..count {
        if version == VERSION {
            sections.push(parse_section(&mut cursor)?);
        } else {
            accounts.push(cursor.block()?);
        }
    }
    cursor.0.is_empty().then_some(Body { epoch, sections, accounts })
}

fn parse_section<'a>(cursor: &mut Cursor<'a>) -> Option<Section<'a>> {
    let section = Section {
        stream: stream_from_key(cursor.take(STREAM_KEY_BYTES)?)?,
        first: cursor.u64()?,
        at_ms: cursor.i64()?,
        prev: cursor.array()?,
        count: cursor.u64()?,
        records: cursor.block()?,
    };
    let fits = section.first > 0 && section.count > 0 && section.count <= section.records.len() as u64;
    (fits && section.first.checked_add(section.count).is_some()).then_some(section)
}

/// Guesses the streams named in a body with a wrong checksum. For messages only.
pub(crate) fn guess_streams(body: &[u8]) -> Vec<StreamId> {
    let mut cursor = Cursor(body);
    let mut streams = Vec::new();
    let start = (cursor.take(1), cursor.u64(), cursor.u64());
    if let (Some(_), Some(_), Some(count)) = start {
        for _ in 0..count {
            let Some(bytes) = cursor.0.get(..STREAM_KEY_BYTES) else { break };
            streams.extend(stream_from_key(bytes));
            if parse_section(&mut cursor).is_none() {
                break;
            }
        }
    }
    streams
}
