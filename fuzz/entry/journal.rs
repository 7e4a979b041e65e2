//! Opens a journal with arbitrary bytes: it either opens or reports the damage, and returns only records that were written.

use std::sync::Arc;

use ostler_kernel::port::{Journal, JournalError, Seq, StreamId};
use ostler_store::disk::{Disk, FaultyDisk};
use ostler_store::{OpenJournalError, Options, SegmentJournal};

/// Result of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// Opened; number of records read.
    Read(usize),
    /// Refused with the place of the damage.
    Refused,
}

/// Opens a journal with `bytes` as first segment and reads the given streams.
pub(crate) fn journal(bytes: &[u8], options: Options, streams: &[StreamId]) -> Came {
    let disk = FaultyDisk::new();
    let segment = disk.open("0000000001.seg", true).expect("an empty disk takes a file");
    segment.write_at(bytes, 0).expect("an empty disk has room");
    let journal = match SegmentJournal::on_disk(Arc::new(disk), options) {
        Ok((journal, _)) => journal,
        Err(OpenJournalError::Damaged(damages)) => {
            assert!(!damages.is_empty() && damages.iter().all(|damage| damage.segment == 1), "{damages:?}");
            return Came::Refused;
        }
        Err(error) => panic!("neither opened nor damaged: {error}"),
    };
    let mut read = 0;
    for stream in streams {
        match journal.read(*stream, Seq(0), usize::MAX) {
            Ok(records) => {
                assert!(records.iter().map(|record| record.seq.0).eq(1..=records.len() as u64));
                read += records.len();
            }
            Err(JournalError::Damaged { place, .. }) => {
                assert!(!place.is_empty());
                return Came::Refused;
            }
            Err(error) => panic!("neither read nor damaged: {error}"),
        }
    }
    Came::Read(read)
}
