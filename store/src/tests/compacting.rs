//! Compacting running pipelines, on a disk with faults.

use std::sync::Arc;

use ostler_kernel::event::{Event, PipelineRecord, Published};
use ostler_kernel::json::{canonical, to_canonical};
use ostler_kernel::pipeline::{Keep, Pipeline, PipelineSpec, StageSpec};
use ostler_kernel::port::{Journal, Recorded, Seq, StreamBatch, StreamId};
use serde_json::json;

use super::{Content, append, before, client, content, files, filled, open, repaired, result, run, small};
use crate::disk::{Disk, FaultyDisk};
use crate::format::segment_files::SegmentFiles;
use crate::maintenance::collect::{Collected, collect};
use crate::maintenance::compact::COMPACT_RECORDS_MIN;
use crate::maintenance::verify::verify;
use crate::{RetentionPolicy, SegmentJournal};

fn spec() -> PipelineSpec {
    PipelineSpec::new("long")
        .stage(StageSpec::new("a").publishes(["x"]))
        .stage(StageSpec::new("b").subscribes(["x"]))
        .stage(StageSpec::new("c").subscribes(["x"]))
        .keep(Keep { events: 40, bytes: 1 << 20 })
}

fn stream() -> StreamId {
    StreamId::pipeline(&"long".into())
}

fn event(number: u64) -> Published {
    let data = canonical(&json!(format!("{number} {}", "y".repeat(60)))).unwrap();
    Published { stage: "a".into(), kind: "x".into(), data }
}

fn read(journal: &SegmentJournal, stream: StreamId, after: u64) -> Vec<Recorded> {
    journal.read(stream, Seq(after), usize::MAX).unwrap()
}

/// The pipeline's state by the journal, and the sequence number of the last stage record.
fn recover(journal: &SegmentJournal) -> (Pipeline, u64) {
    let mut pipeline = Pipeline::new(spec().validate().unwrap());
    let records = read(journal, stream(), 0);
    for record in &records[1..] {
        let Event::Pipeline(record) = &record.event else { panic!("{record:?}") };
        pipeline.apply(record).unwrap();
    }
    for record in read(journal, stream().log(), pipeline.chunked_upto()) {
        let Event::Published(event) = &record.event else { panic!("{record:?}") };
        pipeline.publish(event);
    }
    (pipeline, records.last().unwrap().seq.0)
}

/// Publishes `events` more, one or three at a time. Stage `b` acknowledges all and stores a state with every tenth; stage `c`
/// never runs.
fn go_on(journal: &SegmentJournal, events: u64) {
    let (mut pipeline, mut last) = recover(journal);
    let upto = pipeline.head() + events;
    while pipeline.head() < upto {
        let head = pipeline.head();
        let many = if head.is_multiple_of(5) { 3 } else { 1 };
        let events: Vec<Published> = (head + 1..=head + many).map(event).collect();
        let mut records = pipeline.chunk_records(&events);
        events.iter().for_each(|event| pipeline.publish(event));
        let head = pipeline.head();
        let state = head.is_multiple_of(10).then(|| canonical(&json!(head)).unwrap());
        records.push(PipelineRecord::Acked { stage: "b".into(), upto: head, state });
        records.iter().for_each(|record| pipeline.apply(record).unwrap());
        let count = records.len() as u64;
        let batch =
            |stream, expected, events| StreamBatch { stream, expected: Seq(expected), at_ms: 1, events };
        let events: Vec<Event> = events.into_iter().map(Event::Published).collect();
        let records = records.into_iter().map(|record| Event::Pipeline(Box::new(record))).collect();
        let first = head - events.len() as u64;
        let batches = vec![batch(stream().log(), first, events), batch(stream(), last, records)];
        journal.append(batches).unwrap();
        last += count;
        if head.is_multiple_of(20) {
            append(journal, StreamId::run(&client(29), run(29)), 1, vec![result(29, head)]);
        }
    }
}

fn with_long(events: u64) -> FaultyDisk {
    let disk = filled();
    let journal = open(&disk);
    let spec = to_canonical(&spec()).unwrap();
    append(&journal, stream(), 1, vec![Event::Pipeline(Box::new(PipelineRecord::Created { spec }))]);
    go_on(&journal, events);
    drop(journal);
    disk
}

fn gc(disk: &FaultyDisk, retention: RetentionPolicy) -> Collected {
    collect(&files(disk), retention, 0, 4096, Some(&mut || Ok(()))).unwrap()
}

/// The journal's content, the pipeline's state, and the events from the oldest kept one on.
fn all(disk: &FaultyDisk) -> (Content, Pipeline, Vec<(Seq, Event)>) {
    let content = content(disk);
    let journal = open(disk);
    let (pipeline, _) = recover(&journal);
    let events = read(&journal, stream().log(), pipeline.oldest() - 1);
    (content, pipeline, events.into_iter().map(|record| (record.seq, record.event)).collect())
}

#[test]
fn a_pipeline_that_goes_on_stands_as_it_did_without_what_it_does_not_need() {
    let disk = with_long(900);
    let whole = all(&disk);
    assert!(whole.1.oldest() > 800, "{}", whole.1.oldest());
    assert_eq!(whole.1.stage(2).cursor, 0, "who was never there is still to be told of the gap");
    let dry = collect(&files(&disk), RetentionPolicy::default(), 0, 4096, None).unwrap();
    assert_eq!(all(&disk), whole, "a dry run changes nothing");
    let done = gc(&disk, RetentionPolicy::default());
    assert_eq!((done.bytes, done.stage_records), (dry.bytes, dry.stage_records));
    // The oldest kept event may stand in the middle of a section.
    assert!(whole.1.oldest() - done.bytes.events <= 3, "{done:?}");
    assert!(done.stage_records > 400, "{done:?}");
    assert!(4 * done.bytes.bytes_after < 3 * done.bytes.bytes_before, "{done:?}");
    assert_eq!(all(&disk), whole);
    let journal = open(&disk);
    let first = read(&journal, stream().log(), 0)[0].seq.0;
    assert_eq!(
        first,
        done.bytes.events + 1,
        "whoever reads from the beginning begins with the first that is left"
    );
    assert!(read(&journal, stream(), 0).len() < 20, "its stream does not grow with its turns");
    drop(journal);
    // A second pass changes nothing.
    let (changes, names) = (disk.changes(), disk.list().unwrap());
    let again = gc(&disk, RetentionPolicy::default());
    assert_eq!((again.bytes.events, again.stage_records), (0, 0));
    assert_eq!((disk.changes(), disk.list().unwrap()), (changes, names));
    assert_eq!(gc(&disk, before(15)).runs.len(), 15);
    assert_eq!(read(&open(&disk), stream().log(), 0)[0].seq.0, first);
    assert_eq!((all(&disk).1, all(&disk).2), (whole.1, whole.2));
}

#[test]
fn a_pipeline_goes_on_under_the_numbers_that_it_had_and_is_cut_again() {
    let disk = with_long(900);
    let mut gone = 0;
    for round in 1..=3 {
        gone += gc(&disk, RetentionPolicy::default()).bytes.events;
        let journal = open(&disk);
        let (pipeline, _) = recover(&journal);
        let head = pipeline.head();
        go_on(&journal, 900);
        drop(journal);
        // `all` opens with an empty index.
        let (_, pipeline, events) = all(&disk);
        assert!(pipeline.head() >= head + 900, "round {round}");
        let numbers: Vec<u64> = events.iter().map(|(seq, _)| seq.0).collect();
        assert_eq!(numbers, (pipeline.oldest()..=pipeline.head()).collect::<Vec<_>>(), "round {round}");
        assert!(events.iter().all(|(seq, told)| *told == Event::Published(event(seq.0))), "round {round}");
        assert_eq!(read(&open(&disk), stream().log(), 0)[0].seq.0, gone + 1);
    }
}

#[test]
fn little_goes_only_with_what_goes_anyway_and_events_only_once_they_are_as_many_as_stay() {
    let disk = with_long(COMPACT_RECORDS_MIN / 3);
    let whole = all(&disk);
    let used = disk.used();
    let done = gc(&disk, RetentionPolicy::default());
    assert_eq!((done.bytes.events, done.stage_records, disk.used()), (0, 0, used));
    let done = gc(&disk, before(1));
    assert!(done.runs.len() == 1 && done.bytes.events > 200 && done.stage_records > 100, "{done:?}");
    assert_eq!((all(&disk).1, all(&disk).2), (whole.1, whole.2));
    for events in 70..100 {
        let disk = with_long(events);
        let whole = all(&disk);
        let (head, gone) = (whole.1.head(), whole.1.oldest() - 1);
        let done = gc(&disk, before(1));
        assert_eq!(
            done.bytes.events > 0,
            gone >= head - gone,
            "{gone} of {head} are over the quota: {done:?}"
        );
        assert!(done.stage_records > 20, "{done:?}");
        assert_eq!((all(&disk).1, all(&disk).2), (whole.1, whole.2));
    }
}

#[test]
fn a_power_cut_at_any_step_of_cutting_a_log_leaves_all_or_nothing_done() {
    let fresh = || with_long(200);
    let disk = fresh();
    let whole = all(&disk);
    let log = |disk: &FaultyDisk| read(&open(disk), stream().log(), 0).len();
    let (start, before_it) = (disk.changes(), log(&disk));
    gc(&disk, before(15));
    let (steps, after, after_it) = (disk.changes() - start, all(&disk), log(&disk));
    assert!(after_it < before_it);
    let (mut undone, mut done) = (0, 0);
    for cut in 0..steps {
        let mut disk = fresh();
        let files = files(&disk);
        disk.die_after(cut);
        let _ = collect(&files, before(15), 0, 4096, Some(&mut || Ok(())));
        disk = disk.cut_power(10 * cut);
        let found = (all(&disk), log(&disk));
        undone += u32::from(found == (whole.clone(), before_it));
        done += u32::from(found == (after.clone(), after_it));
        assert_eq!(u64::from(undone + done), cut + 1, "cut {cut}");
        gc(&disk, before(15));
        assert_eq!((all(&disk), log(&disk)), (after.clone(), after_it), "again after cut {cut}");
    }
    assert!(undone > 5 && done > 5, "{undone} {done}");
}

fn place(disk: &FaultyDisk, seq: u64) -> (String, usize) {
    let found = read(&open(disk), stream().log(), seq - 1)[0].position.0;
    (format!("{:010}.seg", found >> 32), (found & 0xffff_ffff) as usize)
}

#[test]
fn a_log_that_begins_later_and_lost_its_beginning_is_damaged() {
    let fresh = || {
        let disk = with_long(900);
        gc(&disk, RetentionPolicy::default());
        disk
    };
    let disk = fresh();
    let whole = all(&disk);
    let first = read(&open(&disk), stream().log(), 0)[0].seq.0;
    for seq in [first, first + 20, whole.1.head()] {
        let disk = fresh();
        let (name, offset) = place(&disk, seq);
        disk.flip(&name, offset + 30, 1);
        let damages = verify(&files(&disk), None).unwrap();
        assert!(!damages.is_empty(), "event {seq}");
        let findings = repaired(&disk).unwrap();
        let pipelines: Vec<_> = findings.pipelines.iter().map(|loss| loss.pipeline.as_deref()).collect();
        assert_eq!(pipelines, [Some("long")], "event {seq}");
        assert_eq!(verify(&files(&disk), None).unwrap(), []);
        let journal = open(&disk);
        assert!(read(&journal, stream(), 0).is_empty() && read(&journal, stream().log(), 0).is_empty());
    }
    // Damage of a run leaves the pipeline unchanged.
    let disk = fresh();
    let journal = open(&disk);
    let at = journal.read(StreamId::run(&client(20), run(20)), Seq(0), 1).unwrap()[0].position.0;
    drop(journal);
    disk.flip(&format!("{:010}.seg", at >> 32), (at & 0xffff_ffff) as usize + 30, 1);
    let findings = repaired(&disk).unwrap();
    assert!(!findings.runs.is_empty() && findings.pipelines.is_empty(), "{findings:?}");
    assert_eq!((all(&disk).1, all(&disk).2), (whole.1, whole.2));
    assert!(repaired(&disk).unwrap().is_empty());
}

#[test]
fn only_a_log_may_begin_later_and_only_where_it_says_so() {
    use crate::format::frame_body::Section;
    use crate::format::stream::{StreamHead, truncated_log_chain};
    let log = stream().log();
    let own = |first| truncated_log_chain(&log, first);
    let pinned = "f3d9428ab7491c9afca988328d870954";
    assert_eq!(format!("{:032x}", u128::from_be_bytes(own(5))), pinned, "what stands on disks already");
    let head = StreamHead { seq: 4, chain: [7; 16] };
    for (stream, first, prev, head, follows) in [
        (log, 1, [0; 16], StreamHead::default(), true),
        (log, 5, own(5), StreamHead::default(), true),
        (log, 5, own(6), StreamHead::default(), false),
        (log, 5, [0; 16], StreamHead::default(), false),
        (log, 5, [7; 16], StreamHead::default(), false),
        (log, 1, own(1), StreamHead::default(), false),
        (log, 5, own(5), head, false),
        (log, 5, [7; 16], head, true),
        (stream(), 5, truncated_log_chain(&stream(), 5), StreamHead::default(), false),
    ] {
        let section = Section { stream, first, at_ms: 0, prev, count: 1, records: b"\x01x" };
        assert_eq!(section.follows(&head), follows, "{first} {prev:?} {head:?}");
    }
}

#[test]
fn a_journal_whose_pipeline_was_cut_opens_without_an_index_and_reads_from_any_number() {
    let disk = with_long(900);
    gc(&disk, RetentionPolicy::default());
    let files = SegmentFiles::new(Arc::new(disk.clone()), small().segment_bytes);
    assert_eq!(verify(&files, None).unwrap(), []);
    let journal = open(&disk);
    let log = read(&journal, stream().log(), 0);
    let first = log[0].seq.0;
    for after in [0, 1, first - 2, first - 1, first, first + 7] {
        let page = journal.read(stream().log(), Seq(after), 2).unwrap();
        let expected = after.max(first - 1) + 1;
        let numbers: Vec<u64> = page.iter().map(|record| record.seq.0).collect();
        assert_eq!(numbers, [expected, expected + 1], "after {after}");
    }
}

#[test]
fn a_pipeline_one_of_whose_streams_is_lost_whole_is_moved_out() {
    let told = |record| vec![Event::Pipeline(Box::new(record))];
    for lost in [stream(), stream().log()] {
        let disk = filled();
        let journal = open(&disk);
        append(&journal, stream(), 1, told(PipelineRecord::Created { spec: to_canonical(&spec()).unwrap() }));
        append(&journal, stream().log(), 1, vec![Event::Published(event(1))]);
        match lost == stream() {
            true => append(&journal, stream().log(), 1, vec![Event::Published(event(2))]),
            false => append(&journal, stream(), 1, told(PipelineRecord::Ended { stage: "a".into() })),
        }
        let at = read(&journal, lost, 0)[0].position.0;
        drop(journal);
        disk.flip(&format!("{:010}.seg", at >> 32), (at & 0xffff_ffff) as usize + 30, 1);
        assert_eq!(repaired(&disk).unwrap().pipelines.len(), 1, "{lost:?}");
        let journal = open(&disk);
        assert!(read(&journal, stream(), 0).is_empty() && read(&journal, stream().log(), 0).is_empty());
    }
}
