//! Packing the remaining frames of a rewrite into segments.

use std::io;

use super::atomic_replace::AtomicReplace;
use super::rewrite::{RemainingSegment, Rewrite, Rewritten};
use crate::format::codec;
use crate::format::frame::{self, FIRST_OF_WRITE, FRAME_BYTES_MAX};
use crate::format::lsn::Lsn;
use crate::format::segment::{self, SEAL_BYTES_MAX, SEGMENT_HEADER_BYTES, SPARE};
use crate::format::segment_files::SegmentFiles;

const SPARES_MAX: usize = 4;

/// Segments of the old journal per spare, so that a small journal keeps little unused room.
const SEGMENTS_PER_SPARE: usize = 4;

pub(super) struct Packer<'a, 's, 'd> {
    files: &'a SegmentFiles,
    what: &'a Rewrite<'a>,
    change: Option<&'s mut AtomicReplace<'d>>,
    /// Number of the last segment of the new journal so far; 0 without one.
    previous: u32,
    filling: Option<FillingSegment>,
    spares_left: usize,
    rewritten: Rewritten,
}

struct FillingSegment {
    numbers: Vec<u32>,
    frames: Vec<Vec<u8>>,
    len: usize,
    /// Predecessor of an old segment that can stay as it is.
    untouched: Option<u32>,
    bytes: u64,
}

impl<'a, 's, 'd> Packer<'a, 's, 'd> {
    pub(super) fn new(
        files: &'a SegmentFiles,
        what: &'a Rewrite<'a>,
        segments: usize,
        change: Option<&'s mut AtomicReplace<'d>>,
    ) -> io::Result<Packer<'a, 's, 'd>> {
        let spares = files.disk.list()?.iter().filter(|name| name.ends_with(SPARE)).count();
        let spares_left = SPARES_MAX.min(segments / SEGMENTS_PER_SPARE).saturating_sub(spares);
        let rewritten = Rewritten::default();
        Ok(Packer { files, what, change, previous: 0, filling: None, spares_left, rewritten })
    }

    pub(super) fn add(&mut self, number: u32, rest: RemainingSegment) -> io::Result<()> {
        self.rewritten.bytes_before += rest.bytes;
        self.rewritten.events += rest.events;
        let len: usize = rest.frames.iter().map(Vec::len).sum();
        let room = self.files.segment_bytes as usize - SEAL_BYTES_MAX;
        let fits = |filling: &FillingSegment| {
            // An unchanged segment, more than half full, is not moved for the remains of another.
            let stays = !rest.changed && 2 * len > room;
            !stays && filling.len + len <= room
        };
        match &mut self.filling {
            Some(filling) if fits(filling) => {
                filling.numbers.push(number);
                filling.frames.extend(rest.frames);
                filling.len += len;
                filling.untouched = None;
            }
            _ => {
                self.flush()?;
                let untouched = rest.previous.filter(|_| !rest.changed);
                let (numbers, frames, bytes) = (vec![number], rest.frames, rest.bytes);
                let len = SEGMENT_HEADER_BYTES + len;
                self.filling = Some(FillingSegment { numbers, frames, len, untouched, bytes });
            }
        }
        Ok(())
    }

    /// Writes the last segments, the checkpoint from segment `number` on.
    pub(super) fn finish(mut self, number: u32) -> io::Result<Rewritten> {
        self.flush()?;
        self.write_checkpoint(number)?;
        Ok(self.rewritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(filling) = self.filling.take() else { return Ok(()) };
        let number = *filling.numbers.last().expect("a segment being filled has a number");
        if filling.untouched == Some(self.previous) {
            self.rewritten.bytes_after += filling.bytes;
            self.previous = number;
            return Ok(());
        }
        let is_empty = filling.frames.is_empty();
        if !is_empty {
            self.write(number, filling.frames)?;
        }
        let old = if is_empty { &filling.numbers[..] } else { &filling.numbers[..filling.numbers.len() - 1] };
        old.iter().for_each(|number| self.drop_segment(*number));
        Ok(())
    }

    fn write(&mut self, number: u32, frames: Vec<Vec<u8>>) -> io::Result<()> {
        let mut bytes = segment::header(number, self.previous, self.what.journal).to_vec();
        for mut frame in frames {
            frame::fill_header(&mut frame, Lsn::new(number, bytes.len() as u64), FIRST_OF_WRITE);
            bytes.extend_from_slice(&frame);
        }
        self.rewritten.bytes_after += bytes.len() as u64;
        self.previous = number;
        let kept = self.what.kept_copies.get(&number).cloned();
        self.change.as_mut().map_or(Ok(()), |change| change.replace(&segment::name(number), &bytes, kept))
    }

    fn drop_segment(&mut self, number: u32) {
        let Some(change) = &mut self.change else { return };
        let name = segment::name(number);
        match self.what.kept_copies.get(&number) {
            Some(kept) => change.keep(&name, kept.clone()),
            None if self.spares_left > 0 => {
                self.spares_left -= 1;
                change.recycle(&name);
            }
            None => change.remove(&name),
        }
    }

    /// Writes the accounts, and a seal: later damage of the checkpoint is not taken for a torn write.
    fn write_checkpoint(&mut self, mut number: u32) -> io::Result<()> {
        let room = (self.files.segment_bytes as usize - SEGMENT_HEADER_BYTES - SEAL_BYTES_MAX) / 2;
        let room = room.min(FRAME_BYTES_MAX / 2);
        let epoch = self.what.epoch;
        let (mut frames, mut accounts, mut len) = (Vec::new(), Vec::new(), 0);
        for account in &self.what.accounts {
            let bytes = codec::encode_row(account).map_err(io::Error::other)?;
            if len + bytes.len() > room {
                frames.push(frame::encode_checkpoint(epoch, &std::mem::take(&mut accounts)));
                len = 0;
            }
            len += bytes.len() + 8;
            accounts.push(bytes);
        }
        let last = frame::encode_checkpoint(epoch, &accounts);
        for frame in frames {
            self.write(number, vec![frame])?;
            number += 1;
        }
        self.write(number, vec![last, frame::encode_seal(epoch)])
    }
}
