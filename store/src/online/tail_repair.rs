//! Repairing the end of the journal on opening.

use std::io;

use super::opening::TornTail;
use crate::format::segment;
use crate::format::segment_files::SegmentFiles;
use crate::index::replay::Replayed;

/// Truncates a torn tail and makes the last write durable.
///
/// The last write of the previous process was read back, and is not proven durable: the process may have died between writing and
/// syncing, or after a failed sync, which leaves clean pages in memory that are not on disk. The seal proves nothing either.
/// The first frame of this process will claim by [`FIRST_OF_WRITE`](crate::format::frame::FIRST_OF_WRITE) that everything
/// before is durable. The last write is therefore written again, from the copy in memory, and synced.
pub(super) fn repair_tail(
    files: &SegmentFiles,
    loaded: &Replayed,
    segment_bytes: u64,
) -> io::Result<Option<TornTail>> {
    if let Some(number) = loaded.incomplete_segment {
        files.remove(number)?;
        files.disk.sync()?;
    }
    if loaded.end.segment() != loaded.last_segment {
        return Ok(None);
    }
    let file = files.file(loaded.end.segment())?;
    if loaded.torn.is_some() {
        file.set_len(loaded.end.offset())?;
        file.set_len(segment_bytes.max(loaded.end.offset()))?;
    }
    // The header goes with the segment's first write.
    let is_first = !segment::has_frames_before(loaded.last_write);
    let from = if is_first { 0 } else { loaded.last_write.offset() };
    let rewrites = from < loaded.end.offset();
    if rewrites {
        let mut bytes = vec![0; (loaded.end.offset() - from) as usize];
        let read = file.read_at(&mut bytes, from)?;
        file.write_at(&bytes[..read], from)?;
    }
    if loaded.torn.is_some() || rewrites {
        file.sync()?;
    }
    Ok(loaded.torn.map(|(bytes, what)| TornTail {
        segment: loaded.end.segment(),
        offset: loaded.end.offset(),
        bytes: bytes as u64,
        what: what.to_owned(),
    }))
}
