//! Stages that panic, fail and stop: the position after each, dead letters, and their release.

use std::sync::atomic::AtomicU64;

use ostler_kernel::pipeline::DEAD_LETTERS_KEPT_MAX;

use super::*;

/// Receives numbers and panics on command, after publishing and keeping state.
struct Fragile {
    sum: u64,
    panics: Arc<AtomicU64>,
}

impl Stage for Fragile {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        self.sum += event.read::<u64>()?;
        out.publish("doubled", &self.sum)?;
        out.keep(&self.sum)?;
        let left = self.panics.load(Ordering::SeqCst);
        if event.read::<u64>()? == 3 && left > 0 {
            self.panics.store(left - 1, Ordering::SeqCst);
            panic!("three is too much");
        }
        Ok(())
    }
}

fn fragile(pipeline: &PipelineHandle, panics: u64) -> Arc<AtomicU64> {
    let made = Arc::new(AtomicU64::new(0));
    let (panics, told) = (Arc::new(AtomicU64::new(panics)), made.clone());
    let make = move |kept: Option<Value>| {
        made.fetch_add(1, Ordering::SeqCst);
        let sum = kept.and_then(|kept| kept.as_u64()).unwrap_or(0);
        Fragile { sum, panics: panics.clone() }
    };
    pipeline.attach("double", make).unwrap();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_panics_goes_on_at_its_cursor_and_nothing_comes_out_twice() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let made = fragile(&pipeline, 2);
    for at in 1..=5 {
        number(&pipeline, at).await;
    }
    until(async || row(&pipeline, "double").lag == 0).await;
    let told = told(&pipeline).await;
    let sums: Vec<&Value> = told.iter().filter(|(kind, _)| kind == "doubled").map(|(_, data)| data).collect();
    assert_eq!(sums, [&json!(1), &json!(3), &json!(6), &json!(10), &json!(15)]);
    assert_eq!(made.load(Ordering::SeqCst), 3);
    assert_eq!(row(&pipeline, "double").parked_total, 0);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_much_is_parked_and_the_rest_goes_on_where_that_is_the_policy() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    fragile(&pipeline, u64::MAX);
    for at in 1..=5 {
        number(&pipeline, at).await;
    }
    until(async || row(&pipeline, "double").lag == 0).await;
    let stage = row(&pipeline, "double");
    assert_eq!((stage.parked_total, &*stage.state), (1, "live"));
    let seq = stage.parked[0].seq;
    assert_eq!(stage.parked[0].reason, "it panicked: three is too much");
    let told = told(&pipeline).await;
    assert_eq!(told[seq as usize - 1], ("number".to_owned(), json!(3)));
    let parked = pipeline.event(seq).unwrap().unwrap();
    assert_eq!((parked.seq, parked.kind.as_str(), parked.value()), (seq, "number", json!(3)));
    assert_eq!(told.iter().rfind(|(kind, _)| kind == "doubled").unwrap().1, json!(12));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_which_too_much_comes_is_parked_like_any_other_that_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open_with(folder.path(), Options::default()).unwrap();
    let system = system(store.journal.clone(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let called = calls.clone();
    let code = move |event: Arc<PipelineEvent>, out: Outbox| {
        called.fetch_add(1, Ordering::SeqCst);
        async move {
            for _ in 0..event.read::<u64>()? {
                out.publish("doubled", &"x".repeat(250 * 1_024))?;
            }
            Ok(())
        }
    };
    pipeline.on("double", code).unwrap();
    for events in [1, 30, 16] {
        number(&pipeline, events).await;
    }
    until(async || row(&pipeline, "double").lag == 0).await;
    let stage = row(&pipeline, "double");
    assert_eq!(
        (stage.parked_total, stage.state.clone(), calls.load(Ordering::SeqCst)),
        (1, "live".into(), 5)
    );
    assert!(stage.parked[0].reason.contains("at once, expected at most 4194304"), "{stage:?}");
    assert_eq!(count(&told(&pipeline).await, "doubled"), 17);
    // Outside publishers have the same limit.
    let large = vec![("number".to_owned(), canonical(&"x".repeat(250 * 1_024).into()).unwrap()); 17];
    let refused = pipeline.publisher("source").unwrap().publish_all(large).await;
    assert!(matches!(refused, Err(PublishError::Refused(PublishRefusal::TooMuch { .. }))), "{refused:?}");
    system.shutdown().await;
}

#[tokio::test]
async fn failures_are_counted_across_processes() {
    let (journal, tries) = (journal(), Arc::new(AtomicU64::new(0)));
    let process = async || {
        let system = system(journal.clone(), Vec::new()).await;
        let pipeline = system.create_pipeline(&three()).await.unwrap();
        let tries = Arc::clone(&tries);
        let code = move |_, _| {
            let tries = Arc::clone(&tries);
            async move {
                // The third try does not end in the process in which it begins.
                if tries.fetch_add(1, Ordering::Relaxed) == 2 {
                    std::future::pending::<()>().await;
                }
                Err(StageError::new("it is too much"))
            }
        };
        pipeline.on("double", code).unwrap();
        (system, pipeline)
    };
    let (system, pipeline) = process().await;
    number(&pipeline, 1).await;
    until(async || tries.load(Ordering::Relaxed) == 3).await;
    assert_eq!(row(&pipeline, "double").parked_total, 0);
    system.shutdown().await;
    let (system, pipeline) = process().await;
    until(async || row(&pipeline, "double").parked_total == 1).await;
    assert_eq!((tries.load(Ordering::Relaxed), row(&pipeline, "double").cursor), (4, 1));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_stops_at_an_event_waits_for_a_person() {
    let journal = journal();
    let first = system(journal.clone(), Vec::new()).await;
    let pipeline = first.create_pipeline(&stopping()).await.unwrap();
    fragile(&pipeline, u64::MAX);
    for at in 1..=5 {
        number(&pipeline, at).await;
    }
    let PipelineEnd::Stuck { stage, reason } = pipeline.ended().await.unwrap() else { panic!("ended") };
    assert_eq!((&*stage, &*reason), ("double", "it panicked: three is too much"));
    assert_eq!(
        (row(&pipeline, "double").lag, row(&pipeline, "double").cursor),
        (3, row(&pipeline, "double").parked[0].seq - 1)
    );
    first.shutdown().await;

    // The next process finds the same state; a release leaves the event out.
    let second = system(journal.clone(), Vec::new()).await;
    let pipeline = second.pipeline("sums").unwrap();
    fragile(&pipeline, u64::MAX);
    assert_eq!(row(&pipeline, "double").state, "stopped");
    pipeline.release("double").await.unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    assert_eq!(told(&pipeline).await.iter().rfind(|(kind, _)| kind == "doubled").unwrap().1, json!(12));
    second.shutdown().await;

    // After a repair the stage may handle the event again.
    let third = system(journal, Vec::new()).await;
    let pipeline = third.pipeline("sums").unwrap();
    fragile(&pipeline, 0);
    pipeline.catch_up("double", 0, false).await.unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    assert_eq!(told(&pipeline).await.iter().rfind(|(kind, _)| kind == "doubled").unwrap().1, json!(15));
    third.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_somebody_got_past_before_the_stage_was_released_is_not_left_out_twice() {
    let journal = journal();
    let before = system(journal.clone(), Vec::new()).await;
    let pipeline = before.create_pipeline(&stopping()).await.unwrap();
    fragile(&pipeline, u64::MAX);
    for at in [3, 1, 2] {
        number(&pipeline, at).await;
    }
    assert!(matches!(pipeline.ended().await.unwrap(), PipelineEnd::Stuck { .. }));
    before.shutdown().await;

    let system = system(journal.clone(), Vec::new()).await;
    let pipeline = system.pipeline("sums").unwrap();
    pipeline.end("source").await.unwrap();
    for upto in [1, 2] {
        pipeline.ack("double", upto - 1, upto, None, Vec::new()).await.unwrap();
    }
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("stopped".into(), 1));
    pipeline.release("double").await.unwrap();
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("external".into(), 1));
    assert!(matches!(pipeline.end("double").await, Err(PipelineError::NotThrough(_))));
    assert_eq!(pipeline.heard("double", 9).await.unwrap().events.len(), 1);
    system.shutdown().await;
}

fn stopping() -> PipelineSpec {
    let mut spec = three();
    spec.stages[1].on_failure = OnFailure::Stop;
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_parked_events_the_newest_are_listed_and_all_are_counted() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let many = DEAD_LETTERS_KEPT_MAX as u64 + 3;
    for at in 0..many {
        number(&pipeline, at).await;
    }
    pipeline.on("double", |_, _| async { Err(StageError::new("never")) }).unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    let stage = row(&pipeline, "double");
    assert_eq!((stage.parked_total, stage.parked.len()), (many, DEAD_LETTERS_KEPT_MAX));
    assert_eq!((stage.parked[0].seq, &*stage.parked[0].reason), (4, "never"));
    assert_eq!(stage.state, "live", "however many there are, its actor is not given up");
    system.shutdown().await;
}
