//! Catching up: adding the frames behind the mark to the index and moving the mark.

use std::collections::HashMap;

use super::replay::{ReplayError, replay};
use super::tail_index::TailIndex;
use super::{Index, Mark};
use crate::format::damage::Damage;
use crate::format::lsn::Lsn;
use crate::format::segment;
use crate::format::segment_files::SegmentFiles;

/// Most segments per commit while the index is rebuilt: bounds the memory of the tail index.
const SEGMENTS_PER_COMMIT: usize = 64;

/// Adds everything before `upto` to the index. All of that must be durable, or the index could name frames a power cut removes.
///
/// `snapshot` is the tail index as of `upto`, taken by the sequencer; without one, the segments are read.
pub(crate) fn catch_up(
    files: &SegmentFiles,
    index: &Index,
    upto: Lsn,
    snapshot: Option<TailIndex>,
) -> Result<(), ReplayError> {
    let mark = index.mark()?;
    if mark.is_some_and(|mark| mark.upto >= upto) {
        return Ok(());
    }
    let tail = match snapshot {
        Some(snapshot) => {
            let tail = since_mark(files, mark, snapshot)?;
            debug_assert!(equals_replayed(&tail, files, index, mark, upto), "before {upto:?}");
            tail
        }
        None => {
            let replayed = replay(files, index, Some(upto))?;
            if replayed.last_segment == 0 {
                return Ok(()); // no segment before `upto`
            }
            replayed.tail
        }
    };
    let (epoch, (last, last_crc), (records, records_crc)) = (tail.epoch, tail.last, tail.records);
    let journal = files.identity()?.unwrap_or_default();
    index.commit(&tail, mark, Mark { upto, last, last_crc, records, records_crc, epoch, journal })?;
    Ok(())
}

/// Catches up in steps of [`SEGMENTS_PER_COMMIT`], to the start of segment `last` or of the last segment before.
pub(crate) fn catch_up_in_steps(files: &SegmentFiles, index: &Index, last: u32) -> Result<(), ReplayError> {
    let indexed = index.mark()?.map_or(0, |mark| mark.upto.segment());
    let is_missing = |number: &u32| *number > indexed && *number <= last;
    let missing: Vec<u32> = files.numbers()?.into_iter().filter(is_missing).collect();
    for step in missing.chunks(SEGMENTS_PER_COMMIT) {
        // To the start of the step's last segment: that segment may be torn, and otherwise the next step begins with it.
        catch_up(files, index, segment::first_lsn(step[step.len() - 1]), None)?;
    }
    Ok(())
}

/// Reduces a snapshot to the part behind the mark. The checksum of the last frame comes from disk: at the time of the snapshot
/// the frame had no header yet.
fn since_mark(
    files: &SegmentFiles,
    mark: Option<Mark>,
    mut snapshot: TailIndex,
) -> Result<TailIndex, ReplayError> {
    let crc = |at: Lsn| -> Result<u32, ReplayError> {
        let missing =
            || Damage::new(at, "the last frame of a full segment is missing".to_owned(), Vec::new());
        files.frame_crc(at)?.ok_or_else(|| ReplayError::Damaged(missing()))
    };
    snapshot.last.1 = crc(snapshot.last.0)?;
    if snapshot.records.1 == 0 && snapshot.records.0 != Lsn::default() {
        snapshot.records.1 = crc(snapshot.records.0)?;
    }
    snapshot.evict_indexed(mark.unwrap_or_default().upto);
    Ok(snapshot)
}

/// Returns whether replaying the segments yields the same tail index. `true` if the segments cannot be read.
fn equals_replayed(
    tail: &TailIndex,
    files: &SegmentFiles,
    index: &Index,
    mark: Option<Mark>,
    upto: Lsn,
) -> bool {
    let Ok(replayed) = replay(files, index, Some(upto)) else { return true };
    let mut replayed = replayed.tail;
    replayed.evict_indexed(mark.unwrap_or_default().upto);
    let written = |tail: &TailIndex| {
        let streams = tail.streams.iter().filter(|(_, tail)| !tail.frames.is_empty());
        streams.map(|(stream, tail)| (*stream, (tail.head, tail.frames.clone()))).collect::<HashMap<_, _>>()
    };
    (tail.epoch, tail.last, tail.records) == (replayed.epoch, replayed.last, replayed.records)
        && written(tail) == written(&replayed)
        && tail.tables.runs == replayed.tables.runs
        && tail.tables.accounts == replayed.tables.accounts
        && tail.tables.records == replayed.tables.records
}
