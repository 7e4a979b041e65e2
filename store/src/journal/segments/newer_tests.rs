//! Records that a later version of this program wrote: they are no damage.

use std::sync::Arc;

use ostler_kernel::event::Event;
use ostler_kernel::port::{Journal, Seq, StreamBatch};

use super::SegmentJournal;
use super::care_tests::{append, before, files, filled, mend, open, small, stream};
use super::collect::collect;
use super::frame::{FRAME_HEADER_BYTES, Place, finish};
use super::open::OpenJournalError;
use crate::codec::KINDS;
use crate::disk::{Disk, FaultyDisk};

/// A journal whose last record is of another kind, its checksum as if that had been written.
fn newer(event: Event, change: impl Fn(&mut Vec<u8>, usize)) -> FaultyDisk {
    let disk = filled();
    let journal = open(&disk);
    append(&journal, stream(900), 9, vec![event]);
    let place = journal.read(stream(900), Seq(0), usize::MAX).unwrap().last().unwrap().position;
    journal
        .append(vec![StreamBatch { stream: stream(901), expected: Seq(0), at_ms: 9, events: vec![parked()] }])
        .unwrap();
    drop(journal);
    let place = Place(place.0);
    let segment = files(&disk).read_segment(place.segment()).unwrap();
    let from = place.offset() as usize;
    let header = &segment[from..from + FRAME_HEADER_BYTES];
    let len = u32::from_le_bytes([header[4], header[5], header[6], 0]) as usize;
    let mut frame = segment[from..from + FRAME_HEADER_BYTES + len].to_vec();
    let needle = frame.windows(6).position(|bytes| bytes == b"needle").unwrap();
    change(&mut frame, needle);
    finish(&mut frame, place, segment[from + 7]);
    let name = format!("{:010}.seg", place.segment());
    disk.open(&name, false).unwrap().write_at(&frame, place.offset()).unwrap();
    disk
}

fn parked() -> Event {
    Event::Parked { reason: "needle".into() }
}

#[test]
fn records_of_a_newer_program_are_told_and_nothing_is_set_aside_for_them() {
    // The kind stands before the length of the text: a byte, six and the seven zeros behind it.
    let disk = newer(parked(), |frame, needle| frame[needle - 4] = KINDS);
    let all = |disk: &FaultyDisk| {
        let files = files(disk);
        files
            .numbers()
            .unwrap()
            .into_iter()
            .map(|number| files.read_segment(number).unwrap())
            .collect::<Vec<_>>()
    };
    let whole = all(&disk);
    let told = |what: String| {
        assert!(what.contains("a kind in it that this program does not know: kind 42"), "{what}");
        assert_eq!(all(&disk), whole, "nothing was changed");
    };
    let opened = SegmentJournal::on_disk(Arc::new(disk.clone()), small()).map(drop);
    let Err(OpenJournalError::Newer(newer)) = opened else { panic!("{opened:?}") };
    told(newer.to_string());
    told(mend(&disk).unwrap_err().to_string());
    let collected = collect(&files(&disk), before(1), 0, 0, Some(&mut || Ok(())));
    told(collected.unwrap_err().to_string());
}
