//! Golden bytes of a segment in every released format. `events-1.hex` has the records.
//!
//! A changed line makes existing journals unreadable: introduce a new format and another golden file instead.

#![allow(clippy::unwrap_used)] // shared test functions

mod common;

use std::sync::Arc;

use common::{batch, events, numbered, on, opened, result, small, stream, wait};
use expect_test::expect_file;
use ostler_kernel::event::Event;
use ostler_kernel::port::Journal;
use ostler_store::SegmentJournal;
use ostler_store::disk::{Disk, FaultyDisk};

const SEGMENT: &str = "0000000001.seg";

/// The content: an append to two streams, a compressed record, and the seal.
fn written() -> [(u64, Vec<Event>); 2] {
    [(1, vec![opened(1), numbered(7), result(6_000)]), (2, vec![opened(2)])]
}

fn bytes_of(disk: &FaultyDisk) -> Vec<u8> {
    let mut bytes = vec![0; small().segment_bytes as usize];
    let read = disk.open(SEGMENT, false).unwrap().read_at(&mut bytes, 0).unwrap();
    let used = bytes[..read].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(used);
    bytes
}

#[test]
fn a_segment_has_the_bytes_of_the_released_format() {
    let disk = FaultyDisk::new();
    let journal = on(&disk);
    let [(first, mut events), (second, others)] = written();
    let late = events.split_off(1);
    // One write per append, so the flags do not depend on timing.
    for batches in [
        vec![batch(stream(first), 0, events), batch(stream(second), 0, others)],
        vec![batch(stream(first), 1, late)],
    ] {
        wait(&journal, journal.append(batches).unwrap()).unwrap();
    }
    drop(journal);
    let mut bytes = bytes_of(&disk);
    // The random identity of the journal and its checksum, all zero in formats up to 3.
    assert_ne!(bytes[24..32], [0; 8]);
    bytes[24..36].fill(0);
    let lines: Vec<String> =
        bytes.chunks(64).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    expect_file!["golden/segment-1.hex"].assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn a_segment_of_the_released_format_is_read() {
    let digits: String = include_str!("golden/segment-1.hex").split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let disk = FaultyDisk::new();
    let segment = disk.open(SEGMENT, true).unwrap();
    segment.write_at(&bytes, 0).unwrap();
    // Zeros follow.
    segment.set_len(small().segment_bytes).unwrap();
    disk.sync().unwrap();
    let (journal, report) = SegmentJournal::on_disk(Arc::new(disk), small()).unwrap();
    assert_eq!((report.epoch, report.torn), (2, None));
    for (number, expected) in written() {
        assert_eq!(events(&journal, stream(number)), expected);
    }
    assert_eq!(journal.verify().unwrap(), []);
}
