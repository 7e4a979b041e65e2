//! Rewriting the journal without some of its records.
//!
//! The remaining records are packed into fewer segments; order and sequence numbers stay. A segment losing nothing stays as it
//! is. The remains of several others share one segment, named after the last of them. Addresses therefore only move to
//! the front of their segment, or to a later segment that held no earlier record, and their order is preserved. The header of each
//! segment names its predecessor, so a complete journal needs no list of segments.
//!
//! The accounts are written as they stand into a checkpoint, in a segment of its own behind all others: the records they result
//! from may be among the dropped ones. The new segment also keeps the highest segment number, hence every address, unique.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use ostler_kernel::port::{AccountRow, StreamId};

use super::atomic_replace::AtomicReplace;
use super::packer::Packer;
use crate::format::frame;
use crate::format::frame_body::{Body, Section};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, Scanner, Step};
use crate::format::segment_files::SegmentFiles;
use crate::format::stream::{StreamHead, truncated_log_chain};

/// New records of a section with their number; `None` leaves the section as it is.
pub(super) type Replacement<'a> = &'a dyn Fn(&Section<'_>) -> io::Result<Option<(Vec<u8>, u64)>>;

/// Receives every readable section, and whether the section is dropped.
pub(super) type Visitor<'a> = &'a mut dyn FnMut(&Section<'_>, bool) -> io::Result<()>;

pub(super) struct Rewrite<'a> {
    pub(super) dropped_streams: &'a HashSet<StreamId>,
    /// Streams numbered and chained again from 1, as records of them are dropped, changed or lost.
    pub(super) renumbered_streams: &'a HashSet<StreamId>,
    /// Replaces the records of sections. Their streams must be renumbered, as the chain hash changes.
    pub(super) replacement: Replacement<'a>,
    /// New first events of truncated pipeline logs. Sections entirely before are dropped; the others keep their numbers.
    pub(super) log_starts: &'a HashMap<StreamId, u64>,
    pub(super) dropped_frames: &'a BTreeSet<Lsn>,
    /// Segments to keep unchanged beside the journal, with their new names.
    pub(super) kept_copies: &'a BTreeMap<u32, String>,
    pub(super) accounts: Vec<AccountRow>,
    pub(super) epoch: u64,
    /// Identity of the journal, for the headers of new segments.
    pub(super) journal: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rewritten {
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    pub(crate) events: u64,
}

/// Prepares the files of the rewritten journal in `change`; without one, only measures.
pub(super) fn rewrite(
    files: &SegmentFiles,
    segments: &[u32],
    what: &Rewrite<'_>,
    change: Option<&mut AtomicReplace<'_>>,
    visit: Visitor<'_>,
) -> io::Result<Rewritten> {
    let last = segments.last().copied().unwrap_or(0);
    let mut packer = Packer::new(files, what, segments.len(), change)?;
    let mut reader = SegmentReader { files, what, heads: HashMap::new(), visit };
    for number in segments {
        packer.add(*number, reader.read(*number, *number == last)?)?;
    }
    packer.finish(last + 1)
}

pub(super) struct RemainingSegment {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) changed: bool,
    /// Predecessor by the header; `None` for a damaged header.
    pub(super) previous: Option<u32>,
    pub(super) bytes: u64,
    pub(super) events: u64,
}

struct SegmentReader<'a, 'v> {
    files: &'a SegmentFiles,
    what: &'a Rewrite<'a>,
    heads: HashMap<StreamId, StreamHead>,
    visit: Visitor<'v>,
}

impl SegmentReader<'_, '_> {
    fn read(&mut self, number: u32, last: bool) -> io::Result<RemainingSegment> {
        let bytes = self.files.read_segment(number)?;
        let previous = segment::previous(number, &bytes);
        let mut scanner = Scanner::new(number, &bytes, 0);
        let used = (scanner.offset + scanner.remaining_len()) as u64;
        // The last segment's end may be torn, or not durable: the segment is always written again.
        let changed = last || previous.is_none() || self.what.kept_copies.contains_key(&number);
        let mut rest = RemainingSegment { frames: Vec::new(), changed, previous, bytes: used, events: 0 };
        loop {
            match scanner.step() {
                Step::Frame { lsn, body, .. } => self.add_frame(&mut rest, lsn, body)?,
                Step::End => return Ok(rest),
                Step::Bad { .. } => {
                    rest.changed = true;
                    let torn = last && scanner.may_be_torn();
                    match scanner.resync(false) {
                        Some(next) if !torn => scanner.offset = next,
                        _ => return Ok(rest),
                    }
                }
            }
        }
    }

    fn add_frame(&mut self, rest: &mut RemainingSegment, lsn: Lsn, body: Body<'_>) -> io::Result<()> {
        if self.what.dropped_frames.contains(&lsn) || !body.accounts.is_empty() {
            rest.changed = true;
            return Ok(());
        }
        let replaced: io::Result<Vec<_>> = body.sections.iter().map(self.what.replacement).collect();
        let replaced = replaced?;
        let mut sections = Vec::with_capacity(body.sections.len());
        for (section, replaced) in body.sections.into_iter().zip(&replaced) {
            let mut section: Section<'_> = section;
            if let Some((records, count)) = replaced {
                (section.records, section.count) = (records, *count);
                rest.changed = true;
            }
            let log_start = self.what.log_starts.get(&section.stream);
            let is_truncated = log_start.is_some_and(|start| section.last() < *start);
            let dropped =
                is_truncated || section.count == 0 || self.what.dropped_streams.contains(&section.stream);
            rest.events += if is_truncated { section.count } else { 0 };
            (self.visit)(&section, dropped)?;
            if dropped {
                rest.changed = true;
                continue;
            }
            if log_start.is_some() || self.what.renumbered_streams.contains(&section.stream) {
                let head = self.heads.entry(section.stream).or_default();
                rest.changed |= rechain(&mut section, head, log_start.is_some());
            }
            sections.push(section);
        }
        if !sections.is_empty() {
            rest.frames.push(frame::encode_sections(body.epoch, &sections));
        }
        Ok(())
    }
}

/// Makes a section follow `head`, the new end of its stream. A pipeline log keeps its sequence numbers. Returns whether the
/// section has changed.
fn rechain(section: &mut Section<'_>, head: &mut StreamHead, is_log: bool) -> bool {
    let before = (section.first, section.prev);
    if !is_log {
        section.first = head.seq + 1;
    }
    let starts_log = is_log && *head == StreamHead::default();
    section.prev = if starts_log { truncated_log_chain(&section.stream, section.first) } else { head.chain };
    *head = section.head();
    (section.first, section.prev) != before
}
