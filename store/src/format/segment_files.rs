//! The segment files of a journal, with a cache of open files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::lineage;

use super::frame::{self, FRAME_HEADER_BYTES, Found};
use super::frame_body;
use super::lsn::Lsn;
use super::segment::{self, SPARE};
use crate::disk::{Disk, DiskFile, Extent};

const FILES_OPEN_MAX: usize = 64;

const FRAME_READ_BYTES: usize = 4096;

pub(crate) struct SegmentFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    open: Mutex<BTreeMap<u32, Arc<dyn DiskFile>>>,
}

impl SegmentFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u64) -> SegmentFiles {
        SegmentFiles { disk, segment_bytes, open: Mutex::default() }
    }

    pub(crate) fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut numbers: Vec<u32> =
            self.disk.list()?.iter().filter_map(|name| segment::number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Numbers of the segments with bytes before `until`, ascending.
    pub(crate) fn numbers_before(&self, until: Lsn) -> io::Result<Vec<u32>> {
        let mut numbers = self.numbers()?;
        // A segment without a frame before `until` may lack even a header.
        let has_frames = segment::has_frames_before(until);
        numbers.retain(|number| *number < until.segment() || (has_frames && *number == until.segment()));
        Ok(numbers)
    }

    pub(crate) fn file(&self, number: u32) -> io::Result<Arc<dyn DiskFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&number) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&segment::name(number), false)?;
        if open.len() >= FILES_OPEN_MAX {
            open.pop_first();
        }
        open.insert(number, file.clone());
        Ok(file)
    }

    /// Renames a spare file to segment `number`; `false` without a usable spare.
    pub(crate) fn take_spare(&self, number: u32) -> io::Result<bool> {
        for spare in self.disk.list()?.iter().filter(|name| name.ends_with(SPARE)) {
            let file = self.disk.open(spare, false)?;
            let fits = file.read_at(&mut [0; 2], self.segment_bytes - 1)? == 1;
            drop(file);
            if fits {
                self.disk.rename(spare, &segment::name(number))?;
                return Ok(true);
            }
            self.disk.remove(spare)?;
        }
        Ok(false)
    }

    pub(crate) fn remove(&self, number: u32) -> io::Result<()> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        self.disk.remove(&segment::name(number))
    }

    pub(crate) fn read_segment(&self, number: u32) -> io::Result<Vec<u8>> {
        let file = self.file(number)?;
        let Extent { len, used } = file.extent()?;
        // No address is beyond u32::MAX. Skipping the trailing hole leaves fresh zero pages untouched, at no cost.
        let [len, used] = [len, used].map(|bytes| bytes.min(u32::MAX.into()) as usize);
        let mut bytes = vec![0; len];
        let read = file.read_at(&mut bytes[..used], 0)?;
        if read < used {
            bytes.truncate(read);
        }
        Ok(bytes)
    }

    /// Identity of the journal: of the last segment below `number` with a known one. 0 without such a segment.
    pub(crate) fn journal_before(&self, number: u32) -> io::Result<u64> {
        let numbers = self.numbers()?;
        for number in numbers.into_iter().rev().skip_while(|other| *other >= number) {
            let mut header = [0; segment::SEGMENT_HEADER_BYTES];
            let read = self.file(number)?.read_at(&mut header, 0)?;
            let journal = segment::journal(&header[..read]);
            if journal != 0 {
                return Ok(journal);
            }
        }
        Ok(0)
    }

    /// Returns whether segment `number`, which starts with `bytes`, is of another journal than the segments before.
    pub(crate) fn is_foreign(&self, number: u32, bytes: &[u8]) -> io::Result<bool> {
        let journal = segment::journal(bytes);
        Ok(journal != 0 && segment::differ(journal, self.journal_before(number)?))
    }

    /// Reads the part of a segment before `until`; all of a segment other than `until`'s.
    pub(crate) fn read_segment_before(&self, number: u32, until: Option<Lsn>) -> io::Result<Vec<u8>> {
        let mut bytes = self.read_segment(number)?;
        if let Some(until) = until.filter(|until| until.segment() == number) {
            bytes.truncate(until.offset() as usize);
        }
        Ok(bytes)
    }

    /// The checksum of the frame at `lsn`; `None` without a valid frame.
    pub(crate) fn frame_crc(&self, lsn: Lsn) -> io::Result<Option<u32>> {
        let bytes = self.read_frame(lsn)?;
        let is_whole = matches!(frame::read(lsn, &bytes), Found::Frame { .. });
        Ok(is_whole.then(|| frame::stored_crc(&bytes)))
    }

    /// Identity of the journal: a digest of its first frame with records, which holds random ids and a time. `None` without such a
    /// frame, or if the first segment is missing or damaged before it.
    pub(crate) fn identity(&self) -> io::Result<Option<u64>> {
        let Some(&number) = self.numbers()?.first() else { return Ok(None) };
        let mut header = [0; segment::SEGMENT_HEADER_BYTES];
        let read = self.file(number)?.read_at(&mut header, 0)?;
        if segment::previous(number, &header[..read]) != Some(0) {
            return Ok(None);
        }
        let mut lsn = segment::first_lsn(number);
        loop {
            let bytes = self.read_frame(lsn)?;
            let Found::Frame { len, body, .. } = frame::read(lsn, &bytes) else { return Ok(None) };
            let Some(body) = frame_body::parse(body) else { return Ok(None) };
            if !body.sections.is_empty() {
                let digest = lineage::hash("aos/journal/1", &[&bytes[..len]]);
                let (start, _) = digest.0.split_first_chunk().expect("a digest is longer");
                // 0 stands for no identity.
                return Ok(Some(u64::from_le_bytes(*start).max(1)));
            }
            lsn = Lsn::new(number, lsn.offset() + len as u64);
        }
    }

    /// Reads the bytes at `lsn` up to the end of the frame, or a few kilobytes if the header is invalid.
    pub(crate) fn read_frame(&self, lsn: Lsn) -> io::Result<Vec<u8>> {
        let file = self.file(lsn.segment())?;
        let mut bytes = vec![0; FRAME_READ_BYTES];
        let read = file.read_at(&mut bytes, lsn.offset())?;
        bytes.truncate(read);
        let Some(len) = bytes.get(..FRAME_HEADER_BYTES).and_then(frame::body_len) else { return Ok(bytes) };
        let len = FRAME_HEADER_BYTES + len;
        if len > read && read == FRAME_READ_BYTES {
            bytes.resize(len, 0);
            let more = file.read_at(&mut bytes[read..], lsn.offset() + read as u64)?;
            bytes.truncate(read + more);
        }
        Ok(bytes)
    }
}
