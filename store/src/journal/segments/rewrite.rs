//! Writing a journal anew without some of its records: what is left is packed, order and numbers stay.
//!
//! A segment that loses nothing stays as it is. What is left of the others goes into as few segments as it fits in, each named
//! after the last one that it holds records of: so places only ever move to the front of their segment or to a later one that
//! holds nothing earlier, and their order stays. The header of each segment names the one before it, so a whole
//! journal needs no list of its segments. Accounts are written down as they stand, in a segment of its own at the end, since
//! the records that they come from may be among those that go; a number is thus never given out twice either.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use ostler_kernel::port::{AccountRow, StreamId};

use super::files::Files;
use super::frame::{self, FIRST, FRAME_BYTES_MAX, Place, Section};
use super::segment::{self, SEAL_BYTES_MAX, SEGMENT_HEADER_BYTES, Step, Walk};
use super::swap::{SPARE, Swap};
use crate::codec;
use crate::index::Head;

/// Most segments whose room is kept for later ones: one for so many that there were, so that little stays of a small journal.
const SPARES_MAX: usize = 4;

const SEGMENTS_PER_SPARE: usize = 4;

/// See [`Rewrite::anew`].
pub(crate) type Anew<'a> = &'a dyn Fn(&Section<'_>) -> io::Result<Option<(Vec<u8>, u64)>>;

/// What a journal is to hold when it is written anew.
pub(crate) struct Rewrite<'a> {
    /// Streams whose records go.
    pub(crate) gone: &'a HashSet<StreamId>,
    /// Streams whose records are numbered anew, since some are lost, or go.
    pub(crate) renumbered: &'a HashSet<StreamId>,
    /// The records of a section as they are to be, and how many; `None`: as they are. Its stream is to be among those that are
    /// numbered anew, since its chain is another.
    pub(crate) anew: Anew<'a>,
    /// Logs of pipelines that are to begin later: sections with no event from this one on go, the others keep their numbers.
    pub(crate) logs: &'a HashMap<StreamId, u64>,
    /// Frames that go.
    pub(crate) misfits: &'a BTreeSet<Place>,
    /// Segments that are kept beside the new ones, and under which name.
    pub(crate) kept: &'a BTreeMap<u32, String>,
    /// How the accounts stand.
    pub(crate) accounts: Vec<AccountRow>,
    /// Epoch of the checkpoint: above all before it.
    pub(crate) epoch: u64,
}

/// What writing it anew came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rewritten {
    /// Bytes of records before.
    pub(crate) bytes_before: u64,
    /// Bytes of records after.
    pub(crate) bytes_after: u64,
    /// Events that went because logs begin later.
    pub(crate) events: u64,
}

/// Prepares the files of the new journal in `swap`; without one, only measures. `see` is shown every section that can be
/// read, and whether it goes.
pub(crate) fn rewrite(
    files: &Files,
    segments: &[u32],
    what: &Rewrite<'_>,
    swap: Option<&mut Swap<'_>>,
    see: &mut dyn FnMut(Place, &Section<'_>, bool) -> io::Result<()>,
) -> io::Result<Rewritten> {
    let last = segments.last().copied().unwrap_or(0);
    let spares = files.disk.list()?.iter().filter(|name| name.ends_with(SPARE)).count();
    let room_for = SPARES_MAX.min(segments.len() / SEGMENTS_PER_SPARE).saturating_sub(spares);
    let mut packer =
        Packer { files, what, swap, previous: 0, pending: None, room_for, done: Rewritten::default() };
    let mut heads = HashMap::new();
    for number in segments {
        let part = read(files, *number, *number == last, what, &mut heads, see)?;
        packer.done.bytes_before += part.bytes;
        packer.done.events += part.events;
        packer.add(*number, part)?;
    }
    packer.flush()?;
    packer.checkpoint(last + 1)?;
    Ok(packer.done)
}

/// What is left of a segment.
struct Part {
    /// Frames with blank headers.
    frames: Vec<Vec<u8>>,
    /// Whether anything of it goes or changes.
    changed: bool,
    /// The segment before it, by its header; `None`: that is damaged.
    previous: Option<u32>,
    bytes: u64,
    /// Events that go because their log begins later.
    events: u64,
}

fn read(
    files: &Files,
    number: u32,
    last: bool,
    what: &Rewrite<'_>,
    heads: &mut HashMap<StreamId, Head>,
    see: &mut dyn FnMut(Place, &Section<'_>, bool) -> io::Result<()>,
) -> io::Result<Part> {
    let bytes = files.read_segment(number)?;
    let previous = segment::previous(number, &bytes);
    let mut walk = Walk::new(number, &bytes, 0);
    let used = (walk.offset + walk.left()) as u64;
    // What ended the last one may not be durable, and may be torn: it is written anew.
    let changed = last || previous.is_none() || what.kept.contains_key(&number);
    let mut part = Part { frames: Vec::new(), changed, previous, bytes: used, events: 0 };
    loop {
        let (place, body) = match walk.step() {
            Step::Frame { place, body, .. } => (place, body),
            Step::End => return Ok(part),
            Step::Bad { .. } => {
                part.changed = true;
                let is_torn = last && walk.resync(true).is_none();
                match walk.resync(false) {
                    Some(next) if !is_torn => walk.offset = next,
                    _ => return Ok(part),
                }
                continue;
            }
        };
        if what.misfits.contains(&place) || !body.accounts.is_empty() {
            part.changed = true;
            continue;
        }
        let anew: io::Result<Vec<_>> = body.sections.iter().map(what.anew).collect();
        let anew = anew?;
        let mut sections = Vec::with_capacity(body.sections.len());
        for (section, anew) in body.sections.into_iter().zip(&anew) {
            let mut section: Section<'_> = section;
            if let Some((records, count)) = anew {
                (section.records, section.count) = (records, *count);
                part.changed = true;
            }
            let oldest = what.logs.get(&section.stream);
            let is_over = oldest.is_some_and(|oldest| section.last() < *oldest);
            let gone = is_over || section.count == 0 || what.gone.contains(&section.stream);
            part.events += if is_over { section.count } else { 0 };
            see(place, &section, gone)?;
            if gone {
                part.changed = true;
                continue;
            }
            if oldest.is_some() || what.renumbered.contains(&section.stream) {
                let head = heads.entry(section.stream).or_default();
                part.changed |= chain_anew(&mut section, head, oldest.is_some());
            }
            sections.push(section);
        }
        if !sections.is_empty() {
            part.frames.push(frame::reassemble(body.epoch, &sections));
        }
    }
}

/// Lets a section follow what is left of its stream, which ends at `head`; `is_log`: under the numbers that it has. Tells whether
/// that changes it.
fn chain_anew(section: &mut Section<'_>, head: &mut Head, is_log: bool) -> bool {
    let before = (section.first, section.prev);
    if !is_log {
        section.first = head.seq + 1;
    }
    let begins = is_log && *head == Head::default();
    section.prev = if begins { frame::beginning(&section.stream, section.first) } else { head.chain };
    *head = section.head();
    (section.first, section.prev) != before
}

struct Packer<'a, 's, 'd> {
    files: &'a Files,
    what: &'a Rewrite<'a>,
    swap: Option<&'s mut Swap<'d>>,
    /// The segment before the next one.
    previous: u32,
    pending: Option<Pending>,
    /// Segments whose room may still be kept.
    room_for: usize,
    done: Rewritten,
}

/// A segment that is being filled.
struct Pending {
    numbers: Vec<u32>,
    frames: Vec<Vec<u8>>,
    len: usize,
    /// It is one that can stay as it is, and the one before that by its header.
    untouched: Option<u32>,
    bytes: u64,
}

impl Packer<'_, '_, '_> {
    fn add(&mut self, number: u32, part: Part) -> io::Result<()> {
        let len: usize = part.frames.iter().map(Vec::len).sum();
        let room = self.files.segment_bytes as usize - SEAL_BYTES_MAX;
        let fits = |pending: &Pending| {
            // A segment that is mostly full and can stay is not moved for what is left of another.
            let stays = !part.changed && 2 * len > room;
            !stays && pending.len + len <= room
        };
        match &mut self.pending {
            Some(pending) if fits(pending) => {
                pending.numbers.push(number);
                pending.frames.extend(part.frames);
                pending.len += len;
                pending.untouched = None;
            }
            _ => {
                self.flush()?;
                let untouched = part.previous.filter(|_| !part.changed);
                let (numbers, frames, bytes) = (vec![number], part.frames, part.bytes);
                let len = SEGMENT_HEADER_BYTES + len;
                self.pending = Some(Pending { numbers, frames, len, untouched, bytes });
            }
        }
        Ok(())
    }

    /// Writes what was packed so far.
    fn flush(&mut self) -> io::Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let number = *pending.numbers.last().expect("a segment that is filled holds one");
        if pending.untouched == Some(self.previous) {
            self.done.bytes_after += pending.bytes;
            self.previous = number;
            return Ok(());
        }
        let is_empty = pending.frames.is_empty();
        if !is_empty {
            self.write(number, pending.frames)?;
        }
        let old = if is_empty { &pending.numbers[..] } else { &pending.numbers[..pending.numbers.len() - 1] };
        old.iter().for_each(|number| self.drop_segment(*number));
        Ok(())
    }

    fn write(&mut self, number: u32, frames: Vec<Vec<u8>>) -> io::Result<()> {
        let mut bytes = segment::header(number, self.previous).to_vec();
        for mut frame in frames {
            frame::finish(&mut frame, Place::new(number, bytes.len() as u64), FIRST);
            bytes.extend_from_slice(&frame);
        }
        self.done.bytes_after += bytes.len() as u64;
        self.previous = number;
        let kept = self.what.kept.get(&number).cloned();
        self.swap.as_mut().map_or(Ok(()), |swap| swap.replace(&segment::name(number), &bytes, kept))
    }

    fn drop_segment(&mut self, number: u32) {
        let Some(swap) = &mut self.swap else { return };
        let name = segment::name(number);
        match self.what.kept.get(&number) {
            Some(kept) => swap.keep(&name, kept.clone()),
            None if self.room_for > 0 => {
                self.room_for -= 1;
                swap.recycle(&name);
            }
            None => swap.remove(&name),
        }
    }

    /// Writes how the accounts stand.
    fn checkpoint(&mut self, mut number: u32) -> io::Result<()> {
        let room = (self.files.segment_bytes as usize - SEGMENT_HEADER_BYTES - SEAL_BYTES_MAX) / 2;
        let room = room.min(FRAME_BYTES_MAX / 2);
        let (mut frames, mut accounts, mut len) = (Vec::new(), Vec::new(), 0);
        for account in &self.what.accounts {
            let bytes = codec::encode_row(account).map_err(io::Error::other)?;
            if len + bytes.len() > room {
                frames.push(frame::checkpoint(self.what.epoch, &std::mem::take(&mut accounts)));
                len = 0;
            }
            len += bytes.len() + 8;
            accounts.push(bytes);
        }
        let last = frame::checkpoint(self.what.epoch, &accounts);
        for frame in frames {
            self.write(number, vec![frame])?;
            number += 1;
        }
        // Sealed as at the end of a process: what is damaged of it later is no torn end.
        self.write(number, vec![last, frame::assemble(self.what.epoch, &[], &[])])
    }
}
