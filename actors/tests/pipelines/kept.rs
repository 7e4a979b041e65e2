//! Retained state of a pipeline across processes, and its bounds.

use std::collections::BTreeMap;
use std::path::Path;

use ostler_actors::System;
use ostler_store::RetentionPolicy;

use super::*;
use crate::common::late::Late;
use crate::common::once_let_go;

type Lives = Arc<Mutex<BTreeMap<&'static str, Vec<u64>>>>;

async fn live(journal: Arc<dyn Journal>, lives: &Lives, slow: bool) -> (System, PipelineHandle) {
    let system = system(journal, Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let heard = lives.clone();
    pipeline
        .on("double", move |event, out| {
            heard.lock().unwrap().entry("double").or_default().push(event.seq);
            async move {
                out.publish("doubled", &(2 * event.read::<u64>()?))?;
                if slow {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                Ok(())
            }
        })
        .unwrap();
    pipeline.attach("sum", Sum::from).unwrap();
    (system, pipeline)
}

#[tokio::test(flavor = "multi_thread")]
async fn on_disk_a_pipeline_goes_on_where_the_process_before_ended() {
    let folder = tempfile::tempdir().unwrap();
    let lives = Lives::default();
    {
        let store = opened(folder.path()).await;
        let (system, pipeline) = live(store.journal.clone(), &lives, true).await;
        let source = pipeline.publisher("source").unwrap();
        for at in 1..=200u64 {
            source.publish_soon("number", &at).await.unwrap();
        }
        pipeline.durable().await.unwrap();
        until(async || row(&pipeline, "double").cursor > 0).await;
        system.shutdown().await;
    }
    let store = opened(folder.path()).await;
    assert!(store.journal.streams(ostler_kernel::port::StreamKind::Pipeline).unwrap().len() == 1);
    let (system, pipeline) = live(store.journal.clone(), &lives, false).await;
    pipeline.end("source").await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    let told = told(&pipeline).await;
    assert_eq!(count(&told, "doubled"), 200, "what was published with its acknowledgement is published once");
    assert_eq!(told.last().unwrap(), &("total".to_owned(), json!(40_200)));
    system.shutdown().await;
}

async fn opened(folder: &Path) -> Store {
    once_let_go(|| Store::open_with(folder, Options::default())).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pipeline_does_not_need_goes_between_two_processes_and_nobody_notices() {
    const EVENTS: u64 = 1_500;
    let folder = tempfile::tempdir().unwrap();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let sum = |pipeline: &PipelineHandle| row(pipeline, "sum");
    let live = async |journal: Arc<dyn Journal>| {
        let limits = Limits { pipeline_behind: 16, ..Limits::default() };
        let system = within(journal, Vec::new(), limits).await;
        let spec = three().keep(Keep { events: 64, bytes: 1 << 20 });
        let pipeline = system.create_pipeline(&spec).await.unwrap();
        double(&pipeline);
        (system, pipeline)
    };
    let (mut head, mut oldest, mut cursor, mut room) = (0, 1, 0, 0);
    for process in 0..3 {
        let store = opened(folder.path()).await;
        let (system, pipeline) = live(store.journal.clone()).await;
        assert_eq!((pipeline.row().head, pipeline.row().oldest), (head, oldest), "process {process}");
        assert_eq!((row(&pipeline, "double").cursor, row(&pipeline, "double").missed), (cursor, 0));
        let gone = pipeline.events_after(0).err();
        assert_eq!(matches!(gone, Some(PipelineError::Gone { seq: 1, .. })), oldest > 1, "{gone:?}");
        let mut kept = pipeline.events_after(oldest - 1).unwrap();
        if head > 0 {
            assert_eq!(kept.next().await.unwrap().unwrap().seq.0, oldest);
        }
        let gap = (oldest > 1).then(|| Gap { first: 1, last: oldest - 1 });
        assert_eq!((sum(&pipeline).gap, sum(&pipeline).missed), (gap, 0), "process {process}");
        let source = pipeline.publisher("source").unwrap();
        for at in 0..EVENTS {
            let seq = source.publish_soon("number", &at).await.unwrap();
            assert!(seq > head, "{seq}");
        }
        until(async || row(&pipeline, "double").lag == 0).await;
        pipeline.durable().await.unwrap();
        (head, oldest) = (pipeline.row().head, pipeline.row().oldest);
        cursor = row(&pipeline, "double").cursor;
        assert_eq!(head, 2 * EVENTS * (process + 1), "nothing is published twice");
        system.shutdown().await;
        drop((system, source, pipeline, kept, store));
        let collect = || Store::collect(folder.path(), RetentionPolicy::default(), true);
        let garbage = once_let_go(collect).await;
        assert!(garbage.pipeline_events > EVENTS && garbage.stage_records > 0, "{garbage:?}");
        if process > 0 {
            assert!(garbage.journal_bytes_after < 2 * room, "{garbage:?}, {room} before");
        }
        room = garbage.journal_bytes_after;
        let again = collect().unwrap();
        assert_eq!((again.pipeline_events, again.stage_records), (0, 0));
    }
    let store = opened(folder.path()).await;
    let (system, pipeline) = live(store.journal.clone()).await;
    let notes = heard.clone();
    pipeline.attach("sum", move |_| Note { heard: notes.clone() }).unwrap();
    until(async || sum(&pipeline).lag == 0).await;
    assert_eq!(heard.lock().unwrap()[0], format!("gap 1-{}", oldest - 1));
    assert_eq!((sum(&pipeline).missed, sum(&pipeline).gap), (oldest - 1, None));
    assert_eq!(pipeline.publisher("source").unwrap().publish("word", "next").await.unwrap(), head + 1);
    system.shutdown().await;
}

/// `price` receives orders only, and the log keeps three events.
fn shop(keep: u64) -> PipelineSpec {
    PipelineSpec::new("shop")
        .stage(StageSpec::new("orders").publishes(["order", "refund"]))
        .stage(StageSpec::new("price").subscribes(["order"]).publishes(["priced"]))
        .stage(StageSpec::new("ship").subscribes(["priced"]))
        .keep(Keep { events: keep, bytes: 1 << 20 })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_unheard_is_told_as_a_gap_by_whichever_process() {
    let journal = journal();
    let mut missed = Vec::new();
    for (at, kind) in ["order", "refund", "refund", "refund", "refund", "refund"].into_iter().enumerate() {
        let system = system(journal.clone(), Vec::new()).await;
        let pipeline = system.create_pipeline(&shop(3)).await.unwrap();
        let seq = pipeline.publisher("orders").unwrap().publish(kind, &at).await.unwrap();
        assert_eq!(seq, at as u64 + 1);
        missed.push((row(&pipeline, "price").cursor, row(&pipeline, "ship").missed));
        system.shutdown().await;
    }
    assert_eq!(missed, [(0, 0); 6], "nobody heard the order");
    let system = system(journal.clone(), Vec::new()).await;
    let pipeline = system.pipeline("shop").unwrap();
    let oldest = pipeline.row().oldest;
    assert!(oldest > 1, "the order is gone");
    let gap = Some(Gap { first: 1, last: oldest - 1 });
    // An answer may be lost: a repeated question gets the same answer and counts nothing.
    for _ in 0..2 {
        assert_eq!((row(&pipeline, "price").missed, row(&pipeline, "price").gap), (0, gap));
        let heard = pipeline.heard("price", 10).await.unwrap();
        assert_eq!((heard.gap, heard.after, heard.upto), (gap, oldest - 1, 6));
    }
    pipeline.ack("price", oldest - 1, 6, None, Vec::new()).await.unwrap();
    let again = pipeline.ack("price", oldest - 1, 6, None, Vec::new()).await.unwrap_err();
    assert!(matches!(again, PipelineError::Moved { cursor: 6, .. }), "{again:?}");
    let price = row(&pipeline, "price");
    assert_eq!((price.missed, price.gap, price.lag, price.cursor), (oldest - 1, None, 0, 6));
    assert_eq!(pipeline.heard("ship", 10).await.unwrap().gap, None, "nothing of that was for it");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_gap_that_grows_meanwhile_only_what_was_told_is_acknowledged() {
    let journal = journal();
    let before = system(journal.clone(), Vec::new()).await;
    let pipeline = before.create_pipeline(&shop(3)).await.unwrap();
    let orders = pipeline.publisher("orders").unwrap();
    for at in 1..=6 {
        orders.publish("order", &at).await.unwrap();
    }
    let told = pipeline.heard("price", 10).await.unwrap();
    let first = Gap { first: 1, last: pipeline.row().oldest - 1 };
    assert_eq!((told.gap, told.after, told.upto, told.events.len()), (Some(first), first.last, 6, 3));
    for at in 7..=12 {
        orders.publish("order", &at).await.unwrap();
    }
    orders.end().await.unwrap();
    // Acknowledging deleted events counts, in every process.
    let acked = async |pipeline: &PipelineHandle, after: u64, upto: u64| {
        pipeline.ack("price", after, upto, None, Vec::new()).await.unwrap();
        let price = row(pipeline, "price");
        (price.missed, price.gap.map(|gap| (gap.first, gap.last)))
    };
    before.shutdown().await;
    let system = system(journal.clone(), Vec::new()).await;
    let pipeline = system.pipeline("shop").unwrap();
    let last = pipeline.row().oldest - 1;
    assert!(last > 7, "{last}");
    assert_eq!(acked(&pipeline, told.after, told.upto).await, (3, Some((7, last))));
    // A gap can be acknowledged alone; until then the stage has work.
    let told = pipeline.heard("price", 10).await.unwrap();
    assert_eq!((told.after, told.ended), (last, false));
    assert!(matches!(pipeline.end("price").await, Err(PipelineError::NotThrough(_))));
    assert_eq!(acked(&pipeline, last, last).await, (last - 3, None));
    assert_eq!(row(&pipeline, "price").lag, 12 - last);
    assert_eq!(acked(&pipeline, last, 12).await, (last - 3, None));
    assert!(pipeline.heard("price", 10).await.unwrap().ended);
    pipeline.end("price").await.unwrap();
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_heard_before_it_went_does_not_count_for_what_is_kept() {
    let journal = journal();
    let before = system(journal.clone(), Vec::new()).await;
    let pipeline = before.create_pipeline(&shop(3)).await.unwrap();
    let orders = pipeline.publisher("orders").unwrap();
    orders.publish("order", &1).await.unwrap();
    orders.publish("order", &2).await.unwrap();
    assert_eq!(pipeline.heard("price", 10).await.unwrap().upto, 2);
    for at in 3..=5 {
        orders.publish("order", &at).await.unwrap();
    }
    before.shutdown().await;
    let system = system(journal.clone(), Vec::new()).await;
    let pipeline = system.pipeline("shop").unwrap();
    pipeline.ack("price", 0, 2, None, Vec::new()).await.unwrap();
    let kept = 6 - pipeline.row().oldest;
    assert!(kept > 0 && row(&pipeline, "price").lag >= kept, "{:?}", row(&pipeline, "price"));
    pipeline.publisher("orders").unwrap().publish("refund", &0).await.unwrap();
    assert_eq!(row(&pipeline, "price").cursor, 2, "it has yet to hear three orders");
    assert_eq!(row(&pipeline, "price").missed, 0);
    system.shutdown().await;
}

/// True for the last record of a pipeline before its caller is answered.
fn is_late(event: &Event) -> bool {
    let Event::Pipeline(record) = event else { return false };
    match &**record {
        PipelineRecord::Acked { stage, .. } => stage.as_str() == "double",
        PipelineRecord::Ended { .. } => true,
        _ => false,
    }
}

#[tokio::test]
async fn the_end_of_those_before_a_stage_is_told_no_earlier_than_it_is_written_down() {
    let journal = Late::new(is_late);
    let system = system(journal.clone(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    pipeline.publisher("source").unwrap().publish("number", &1).await.unwrap();
    let heard = pipeline.heard("double", 10).await.unwrap();
    let mut acked = Box::pin(pipeline.ack("double", heard.after, heard.upto, None, Vec::new()));
    assert!(futures::poll!(&mut acked).is_pending());
    let mut told = Box::pin(pipeline.heard("double", 10));
    assert!(futures::poll!(&mut told).is_pending(), "the acknowledgement could be lost still");
    journal.go();
    let mut ended = Box::pin(pipeline.end("source"));
    assert!(futures::poll!(&mut ended).is_pending());
    assert!(!told.await.unwrap().ended, "the end could be lost still");
    journal.go();
    acked.await.unwrap();
    ended.await.unwrap();
    assert!(pipeline.heard("double", 10).await.unwrap().ended);
    system.shutdown().await;
}
