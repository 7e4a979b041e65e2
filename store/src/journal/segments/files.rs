//! The segment files of a journal, open as long as they are in use.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::frame::{self, FRAME_HEADER_BYTES, Found, Place};
use super::segment;
use super::swap::SPARE;
use crate::disk::{Disk, DiskFile, Extent};

/// Most segment files open at a time.
const FILES_OPEN_MAX: usize = 64;

/// What a frame usually fits in, in bytes: one read then gets it.
const READ_BYTES: usize = 4096;

/// All of a file.
pub(crate) fn read_whole(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(name, false)?;
    let (mut bytes, mut read) = (Vec::new(), 0);
    while read == bytes.len() {
        bytes.resize(2 * read + READ_BYTES, 0);
        read += file.read_at(&mut bytes[read..], read as u64)?;
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// What stands before the checksum of a text.
const SEAL: &str = "crc32c ";

/// A text of lines, behind one that says what it is and before one with a checksum.
pub(crate) fn sealed(magic: &str, lines: &str) -> String {
    let text = format!("{magic}\n{lines}");
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text}{SEAL}{crc:08x}\n")
}

/// The lines of such a text; `None`: it is damaged, or another one.
pub(crate) fn unsealed<'a>(magic: &str, bytes: &'a [u8]) -> Option<&'a str> {
    let (text, crc) = std::str::from_utf8(bytes).ok()?.rsplit_once(SEAL)?;
    let is_whole = crc.trim_end() == format!("{:08x}", crc32c::crc32c(text.as_bytes()));
    text.strip_prefix(magic)?.strip_prefix('\n').filter(|_| is_whole)
}

/// The segment files of a journal.
pub(crate) struct Files {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    open: Mutex<BTreeMap<u32, Arc<dyn DiskFile>>>,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u64) -> Files {
        Files { disk, segment_bytes, open: Mutex::default() }
    }

    /// Numbers of the segments there are, ascending.
    pub(crate) fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut numbers: Vec<u32> =
            self.disk.list()?.iter().filter_map(|name| segment::number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The file of a segment.
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

    /// Makes a segment of room that was kept for one; false if there is none.
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

    /// Removes a segment.
    pub(crate) fn remove(&self, number: u32) -> io::Result<()> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        self.disk.remove(&segment::name(number))
    }

    /// A whole segment, however long segments were when it was made.
    pub(crate) fn read_segment(&self, number: u32) -> io::Result<Vec<u8>> {
        let file = self.file(number)?;
        let Extent { len, used } = file.extent()?;
        // No place is farther than that. The hole behind what was written is not read: zeros cost nothing until somebody looks.
        let [len, used] = [len, used].map(|bytes| bytes.min(u32::MAX.into()) as usize);
        let mut bytes = vec![0; len];
        let read = file.read_at(&mut bytes[..used], 0)?;
        if read < used {
            bytes.truncate(read);
        }
        Ok(bytes)
    }

    /// The checksum of the frame at `place`; `None`: what is there is none, or not whole.
    pub(crate) fn frame_crc(&self, place: Place) -> io::Result<Option<u32>> {
        let found = self.read_frame(place)?;
        let is_whole = matches!(frame::look(place, &found), Found::Frame { .. });
        Ok(is_whole.then(|| frame::crc(&found)))
    }

    /// The bytes from `place` on that the frame there should take; fewer if it claims nonsense.
    pub(crate) fn read_frame(&self, place: Place) -> io::Result<Vec<u8>> {
        let file = self.file(place.segment())?;
        let mut bytes = vec![0; READ_BYTES];
        let read = file.read_at(&mut bytes, place.offset())?;
        bytes.truncate(read);
        let Some(len) = bytes.get(..FRAME_HEADER_BYTES).and_then(frame::body_len) else { return Ok(bytes) };
        let len = FRAME_HEADER_BYTES + len;
        if len > read && read == READ_BYTES {
            bytes.resize(len, 0);
            let more = file.read_at(&mut bytes[read..], place.offset() + read as u64)?;
            bytes.truncate(read + more);
        }
        Ok(bytes)
    }
}
