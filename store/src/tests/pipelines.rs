//! Repairing and collecting a journal with a pipeline.

use ostler_kernel::event::{PipelineRecord, Published};
use ostler_kernel::port::StreamKind;

use super::*;

fn with_pipeline() -> FaultyDisk {
    let disk = filled();
    let journal = open(&disk);
    let id = ostler_kernel::id::PipelineId::from("web");
    let stream = StreamId::pipeline(&id);
    let spec = canonical(&json!({"id": "web", "stages": [
        {"name": "a", "publishes": ["x"]}, {"name": "b", "subscribes": ["x"]},
    ]}))
    .unwrap();
    let told = |record| Event::Pipeline(Box::new(record));
    append(&journal, stream, 1, vec![told(PipelineRecord::Created { spec })]);
    for upto in 1..=20 {
        let data = canonical(&json!("y".repeat(200))).unwrap();
        let event = Published { stage: "a".into(), kind: "x".into(), data };
        append(&journal, stream.log(), 1, vec![Event::Published(event)]);
        let acked = PipelineRecord::Acked { stage: "b".into(), upto, state: None };
        append(&journal, stream, 1, vec![told(acked)]);
        append(&journal, StreamId::run(&client(29), run(29)), 1, vec![result(29, upto)]);
    }
    drop(journal);
    disk
}

#[test]
fn a_pipeline_that_lost_a_record_is_moved_out_and_begins_anew_and_one_that_lost_none_stays() {
    let stream = StreamId::pipeline(&"web".into());
    let read = |disk: &FaultyDisk, stream| {
        let journal = open(disk);
        journal.read(stream, Seq(0), usize::MAX).unwrap()
    };
    let whole = [stream, stream.log()].map(|stream| read(&with_pipeline(), stream).len());
    assert_eq!(whole, [21, 20]);
    let segments = SegmentFiles::new(Arc::new(with_pipeline()), small().segment_bytes).numbers().unwrap();
    let (mut moved, mut stayed) = (0, 0);
    for flip in 0..60 {
        let disk = with_pipeline();
        let number = segments[flip % segments.len()];
        let offset = (flip * 7919) % small().segment_bytes as usize;
        disk.flip(&format!("{number:010}.seg"), offset, 1 << (flip % 8));
        let findings = repaired(&disk).unwrap();
        let left = [stream, stream.log()].map(|stream| read(&disk, stream).len());
        match &findings.pipelines[..] {
            [] => {
                assert_eq!(left, whole);
                stayed += 1;
            }
            [loss] => {
                assert_eq!(left, [0, 0]);
                assert!(
                    loss.moved <= 41 && loss.pipeline.as_deref().is_none_or(|name| name == "web"),
                    "{loss:?}"
                );
                let names = disk.list().unwrap();
                assert_eq!(names.contains(&loss.remains), loss.moved > 0, "{names:?}");
                // The pipeline can be declared again.
                let spec = canonical(&json!({})).unwrap();
                let created = Event::Pipeline(Box::new(PipelineRecord::Created { spec }));
                append(&open(&disk), stream, 1, vec![created]);
                moved += 1;
            }
            several => panic!("{several:?}"),
        }
        assert!(repaired(&disk).unwrap().is_empty());
    }
    assert!(moved > 0 && stayed > 0, "{moved} moved, {stayed} stayed");
}

#[test]
fn collecting_runs_leaves_pipelines_as_they_are_but_for_what_they_do_not_need() {
    let disk = with_pipeline();
    let stream = StreamId::pipeline(&"web".into());
    let found = collect(&files(&disk), before(20), 0, 4096, Some(&mut || Ok(()))).unwrap();
    assert_eq!((found.runs.len(), found.bytes.events, found.stage_records), (20, 0, 19));
    let journal = open(&disk);
    assert_eq!(journal.streams(StreamKind::Pipeline).unwrap(), [stream]);
    assert_eq!(journal.streams(StreamKind::PipelineLog).unwrap(), [stream.log()]);
    let events = journal.read(stream.log(), Seq(5), 100).unwrap();
    assert_eq!((events.len(), events[0].seq), (15, Seq(6)));
    let acks = journal.read(stream, Seq(0), 100).unwrap();
    let last = PipelineRecord::Acked { stage: "b".into(), upto: 20, state: None };
    assert_eq!((acks.len(), &acks[1].event), (2, &Event::Pipeline(Box::new(last))));
}
