use std::cell::Cell;

use ostler_kernel::event::Event;

use super::super::integrity::NoChecks;
use super::super::opening::open;
use super::super::sequencer::Sequencer;
use super::*;
use crate::disk::FaultyDisk;
use crate::format::segment;
use crate::index::Index;
use crate::options::{Options, SEGMENT_BYTES_MIN};

fn indexed(stream: StreamId, path: &std::path::Path) -> SegmentJournal {
    let open = |disk: FaultyDisk| {
        let index = Index::open(Some(path));
        open(Arc::new(disk), index, Options::default(), 0, &NoChecks, |_| Ok(None)).unwrap().0
    };
    let disk = FaultyDisk::new();
    let journal = open(disk.clone());
    let events = vec![Event::ClientSet { client: "acme".into(), weight: 5, contracted: true }];
    journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 1, events }]).unwrap();
    drop(journal);
    open(disk)
}

#[test]
fn a_failed_index_is_reopened_first_and_cleared_only_then() {
    let stream = StreamId::client(&"acme".into());
    let folder = tempfile::tempdir().unwrap();
    let journal = indexed(stream, &folder.path().join("index.redb"));
    let shared = &journal.shared;
    for knows_of_it in [true, false, false, false] {
        shared.recover_index(&mut shared.sequencer()).expect("the journal is whole");
        assert_eq!((shared.index.mark().unwrap().is_some(), journal.seq(&stream)), (knows_of_it, 1));
    }
}

#[test]
fn a_query_runs_again_if_the_index_is_cleared_meanwhile() {
    let stream = StreamId::client(&"acme".into());
    let folder = tempfile::tempdir().unwrap();
    let journal = indexed(stream, &folder.path().join("index.redb"));
    let shared = &journal.shared;
    assert_eq!(shared.sequencer().seq(&stream), None, "only the index knows the stream");
    let runs = Cell::new(0);
    let seq = shared.query(|index| {
        let recent = shared.sequencer().seq(&stream);
        runs.set(runs.get() + 1);
        if runs.get() == 1 {
            shared.recover_index(&mut shared.sequencer()).expect("the journal is whole");
        }
        recent.map_or_else(|| Ok(index.head(&stream)?.unwrap_or_default().seq), Ok)
    });
    assert_eq!((seq.unwrap(), runs.get()), (1, 2));
}

fn small(disk: &FaultyDisk) -> (SegmentJournal, impl Fn(&mut Sequencer, u32) + use<>) {
    let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::default() };
    let opened = open(Arc::new(disk.clone()), Index::open(None), options, 0, &NoChecks, |_| Ok(None));
    let journal = opened.unwrap().0;
    let shared = journal.shared.clone();
    let fill = move |sequencer: &mut Sequencer, upto: u32| {
        while sequencer.end.segment() < upto {
            let batch = parked(sequencer.seq(&STREAM).unwrap_or(0));
            let prepared = PreparedAppend::new(&[batch], &shared.change_reader, SEGMENT_BYTES_MIN, None);
            assert!(sequencer.append(&mut prepared.unwrap(), &shared.index).is_ok());
        }
    };
    (journal, fill)
}

const STREAM: StreamId = StreamId { partition: 0, kind: StreamKind::Client, key: [1; 16] };

fn parked(after: u64) -> StreamBatch {
    let events = vec![Event::Parked { reason: "x".repeat(1_000) }];
    StreamBatch { stream: STREAM, expected: Seq(after), at_ms: 1, events }
}

fn kept(sequencer: &Sequencer) -> Vec<Lsn> {
    sequencer.snapshots.iter().map(|(lsn, _)| *lsn).collect()
}

#[test]
fn snapshots_of_at_most_two_full_segments_are_kept_and_dropped_when_the_tail_is_rebuilt() {
    let (journal, fill) = small(&FaultyDisk::new());
    // Held throughout, so that the indexer cannot catch up.
    let mut sequencer = journal.shared.sequencer();
    fill(&mut sequencer, 4);
    assert_eq!(kept(&sequencer), [segment::first_lsn(2), segment::first_lsn(3)], "and not that of a third");
    let seq = sequencer.take_snapshot(segment::first_lsn(2)).unwrap().streams[&STREAM].head.seq;
    assert_eq!(Some(seq), sequencer.seq(&STREAM).map(|last| last / 3), "three segments are full");
    assert!(
        sequencer.take_snapshot(segment::first_lsn(4)).is_none() && kept(&sequencer).is_empty(),
        "older snapshots are dropped"
    );
    fill(&mut sequencer, 5);
    assert_eq!(kept(&sequencer), [segment::first_lsn(5)]);
    journal.shared.recover_index(&mut sequencer).expect("the journal is whole");
    assert!(kept(&sequencer).is_empty());
}

#[test]
fn a_failed_rebuild_of_the_tail_drops_the_snapshots() {
    let disk = FaultyDisk::new();
    let (journal, fill) = small(&disk);
    let first = journal.append(vec![parked(0)]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(journal.durable(first)).unwrap();
    let mut sequencer = journal.shared.sequencer();
    fill(&mut sequencer, 2);
    assert_eq!(kept(&sequencer), [segment::first_lsn(2)]);
    disk.flip(&segment::name(1), segment::SEGMENT_HEADER_BYTES + 100, 1);
    journal.shared.recover_index(&mut sequencer).expect_err("a byte is wrong");
    assert!(kept(&sequencer).is_empty(), "the index is empty, and a snapshot starts behind the lost mark");
}
