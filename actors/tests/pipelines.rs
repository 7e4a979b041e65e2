//! Pipelines in a running system: order, crashes, slow and failing stages, and what is left after a restart.
#![allow(clippy::unwrap_used)] // a test that unwraps in vain fails, which is its purpose

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::{Watched, once_let_go, system, until, within};
use ostler_actors::{
    Gap, Limits, Outbox, PipelineEnd, PipelineError, PipelineEvent, PipelineHandle, PublishError, Stage,
    StageError, StageRow, System,
};
use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::json::{canonical, to_canonical};
use ostler_kernel::pipeline::{
    EVENT_BYTES_MAX, Keep, OnPoison, PARKED_KEPT_MAX, PipelineSpec, PublishRefusal, SpecFault, StageSpec,
};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_store::{MemoryJournal, Options, Store, Unwanted};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

fn journal() -> Arc<MemoryJournal> {
    Arc::new(MemoryJournal::default())
}

/// `source` publishes numbers, `double` doubles them, `sum` hears what comes of it.
fn three() -> PipelineSpec {
    PipelineSpec::new("sums")
        .stage(StageSpec::new("source").publishes(["number", "word"]))
        .stage(
            StageSpec::new("double").subscribes(["number"]).publishes(["doubled"]).on_poison(OnPoison::Park),
        )
        .stage(StageSpec::new("sum").subscribes(["doubled"]).publishes(["total"]))
}

/// Adds up what it hears, counts on after a crash, and tells the total at the end.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn from(kept: Option<Value>) -> Sum {
        Sum(kept.and_then(|kept| kept.as_u64()).unwrap_or(0))
    }
}

impl Stage for Sum {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        self.0 += event.read::<u64>()?;
        Ok(out.keep(&self.0)?)
    }

    async fn ended(&mut self, out: Outbox) -> Result<(), StageError> {
        Ok(out.publish("total", &self.0)?)
    }
}

fn double(pipeline: &PipelineHandle) {
    let code = |event: Arc<PipelineEvent>, out: Outbox| async move {
        out.publish("doubled", &(2 * event.read::<u64>()?))?;
        Ok(())
    };
    pipeline.on("double", code).unwrap();
}

fn row(pipeline: &PipelineHandle, stage: &str) -> StageRow {
    pipeline.row().stages.into_iter().find(|row| row.stage.as_str() == stage).unwrap()
}

/// All its events, as type and data.
async fn told(pipeline: &PipelineHandle) -> Vec<(String, Value)> {
    pipeline.durable().await.unwrap();
    let head = pipeline.row().head;
    let mut cursor = pipeline.events_after(0).unwrap();
    let mut told = Vec::new();
    for seq in 1..=head {
        let record = cursor.next().await.unwrap().unwrap();
        assert_eq!(record.seq.0, seq);
        let Event::Published(event) = record.event else { panic!("no event") };
        told.push((event.kind.to_string(), event.data.value()));
    }
    told
}

fn count(told: &[(String, Value)], kind: &str) -> usize {
    told.iter().filter(|(other, _)| other == kind).count()
}

async fn number(pipeline: &PipelineHandle, number: u64) {
    pipeline.publisher("source").unwrap().publish("number", &number).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_in_at_one_end_comes_out_once_at_the_other() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    double(&pipeline);
    pipeline.attach("sum", Sum::from).unwrap();
    let source = pipeline.publisher("source").unwrap();
    for at in 1..=1_000u64 {
        assert!(source.publish_soon("number", &at).await.unwrap() >= at);
    }
    source.publish("word", "unheard").await.unwrap();
    source.end().await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    let told = told(&pipeline).await;
    assert_eq!(told.last().unwrap(), &("total".to_owned(), json!(1_001_000)));
    assert_eq!((count(&told, "number"), count(&told, "doubled")), (1_000, 1_000));
    for stage in ["double", "sum"] {
        assert_eq!((row(&pipeline, stage).lag, row(&pipeline, stage).state), (0, "ended"));
    }
    let refused = source.publish("number", &1).await;
    assert!(matches!(refused, Err(PublishError::Refused(PublishRefusal::Ended(_)))), "{refused:?}");
    system.shutdown().await;
}

/// Whoever looks for a pipeline between its first record and the answer to who made it has the same one.
#[tokio::test]
async fn a_pipeline_that_is_found_while_it_is_made_is_the_one_that_was_made() {
    let journal = Watched::over(journal());
    let system = system(journal.clone(), Vec::new()).await;
    let found = Arc::new(Mutex::new(None));
    let (looking, sees) = (system.clone(), Arc::clone(&found));
    journal.after_append(move || {
        let pipeline = looking.pipeline("sums");
        sees.lock().unwrap().get_or_insert(pipeline.unwrap());
    });
    let made = system.create_pipeline(&three()).await.unwrap();
    let found = found.lock().unwrap().take().unwrap();
    for (at, pipeline) in [(1, &made), (2, &found), (3, &made)] {
        number(pipeline, at).await;
    }
    assert_eq!(count(&told(&found).await, "number"), 3);
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_refused_in_words_and_changes_nothing() {
    let limits = Limits { pipelines: 1, ..Limits::default() };
    let system = within(journal(), Vec::new(), limits).await;
    let wrong = three().stage(StageSpec::new("late").subscribes(["nothing"])).stage(StageSpec::new("late"));
    let Err(PipelineError::Spec(faults)) = system.create_pipeline(&wrong).await else { panic!("taken") };
    assert_eq!(
        faults.iter().map(|fault| fault.code()).collect::<Vec<_>>(),
        ["invalid_subscription", "idle_stage", "duplicate_stage"]
    );
    assert!(system.pipelines().await.unwrap().is_empty());

    let pipeline = system.create_pipeline(&three()).await.unwrap();
    system.create_pipeline(&three()).await.expect("the same once more is the same");
    let other = three().keep(Keep { events: 9, bytes: 9 });
    assert!(matches!(system.create_pipeline(&other).await, Err(PipelineError::Taken(_))));
    let another = PipelineSpec { id: "another".into(), ..three() };
    assert_eq!(system.create_pipeline(&another).await.unwrap_err(), PipelineError::TooMany(1));
    assert!(matches!(system.pipeline("nobody"), Err(PipelineError::Unknown(_))));

    let source = pipeline.publisher("source").unwrap();
    let refused = source.publish("doubled", &1).await.unwrap_err();
    assert_eq!(refused.to_string(), "stage source does not publish doubled: it declares number, word");
    assert!(matches!(
        source.publish("word", &"x".repeat(300_000)).await,
        Err(PublishError::Refused(PublishRefusal::TooLarge { bytes: 300_002 }))
    ));
    assert!(matches!(pipeline.publisher("sauce"), Err(PipelineError::UnknownStage { .. })));
    assert!(matches!(pipeline.attach("source", Sum::from), Err(PipelineError::Source(_))));
    pipeline.attach("sum", Sum::from).unwrap();
    assert!(matches!(pipeline.attach("sum", Sum::from), Err(PipelineError::Attached(_))));
    assert!(matches!(pipeline.catch_up("sum", 1, false).await, Err(PipelineError::Beyond { head: 0, .. })));
    assert!(matches!(pipeline.release("sum").await, Err(PipelineError::NotStopped(_))));
    assert!(matches!(pipeline.end("sum").await, Err(PipelineError::Attached(_))));
    assert_eq!(pipeline.row().head, 0);
    system.shutdown().await;
}

#[tokio::test]
async fn a_pipeline_whose_events_go_back_is_not_made_and_one_that_there_is_takes_nothing_else_down() {
    let journal = journal();
    let mut back = PipelineSpec { id: "back".into(), ..three() };
    back.stages[2].publishes.push("number".into());
    let created = PipelineRecord::Created { spec: to_canonical(&back).unwrap() };
    let (stream, events) = (StreamId::pipeline(&"back".into()), vec![Event::Pipeline(Box::new(created))]);
    journal.append(vec![StreamBatch { stream, expected: Seq(0), at_ms: 1, events }]).unwrap();

    let system = system(journal, Vec::new()).await;
    let anew = PipelineSpec { id: "anew".into(), ..back.clone() };
    let Err(PipelineError::Spec(faults)) = system.create_pipeline(&anew).await else { panic!("taken") };
    assert_eq!(faults, [SpecFault::InvalidPublication { stage: "sum".into(), types: vec!["number".into()] }]);
    system.create_pipeline(&three()).await.unwrap();
    let rows = system.pipelines().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.pipeline.as_str()).collect::<Vec<_>>(), ["back", "sums"]);
    number(&system.create_pipeline(&back).await.unwrap(), 1).await;
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_behind_start_before_those_before_them_end() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    double(&pipeline);
    let (heard, wait) = (started.clone(), go.clone());
    pipeline
        .on("sum", move |_, _| {
            let (heard, wait) = (heard.clone(), wait.clone());
            async move {
                heard.add_permits(1);
                wait.acquire().await?.forget();
                Ok(())
            }
        })
        .unwrap();
    number(&pipeline, 1).await;
    started.acquire().await.unwrap().forget();
    assert_ne!(row(&pipeline, "source").state, "ended");
    assert_eq!(row(&pipeline, "sum").lag, 1);
    number(&pipeline, 2).await;
    go.add_permits(2);
    pipeline.publisher("source").unwrap().end().await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    system.shutdown().await;
}

/// Hears numbers, and panics when it is told to, after it has published and kept.
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
    assert_eq!((stage.parked_total, stage.state), (1, "live"));
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
    assert_eq!((stage.parked_total, stage.state, calls.load(Ordering::SeqCst)), (1, "live", 5));
    assert!(stage.parked[0].reason.contains("at once, expected at most 4194304"), "{stage:?}");
    assert_eq!(count(&told(&pipeline).await, "doubled"), 17);
    // Nor can anybody else publish more at once.
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
                // Its third try does not come to an end in the process in which it begins.
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

    // It is still so for the next process; who releases it leaves the event out.
    let second = system(journal.clone(), Vec::new()).await;
    let pipeline = second.pipeline("sums").unwrap();
    fragile(&pipeline, u64::MAX);
    assert_eq!(row(&pipeline, "double").state, "stopped");
    pipeline.release("double").await.unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    assert_eq!(told(&pipeline).await.iter().rfind(|(kind, _)| kind == "doubled").unwrap().1, json!(12));
    second.shutdown().await;

    // Who mends it can let it hear the event again.
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
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("stopped", 1));
    pipeline.release("double").await.unwrap();
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("external", 1));
    assert!(matches!(pipeline.end("double").await, Err(PipelineError::NotThrough(_))));
    assert_eq!(pipeline.heard("double", 9).await.unwrap().events.len(), 1);
    system.shutdown().await;
}

fn stopping() -> PipelineSpec {
    let mut spec = three();
    spec.stages[1].on_poison = OnPoison::Stop;
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_hears_all_events_in_order_wherever_it_begins_and_whatever_is_published_meanwhile() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    // More than is held in memory, so that the beginning comes from the journal.
    let old = 20_000u64;
    for from in (0..old).step_by(1_000) {
        let events = (from..from + 1_000).map(|at| ("number".to_owned(), canonical(&at.into()).unwrap()));
        source.publish_all(events.collect()).await.unwrap();
    }
    assert_eq!(row(&pipeline, "double").lag, old);
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let hears = heard.clone();
    pipeline
        .on("double", move |event, _| {
            hears.lock().unwrap().push(event.seq);
            async { Ok(()) }
        })
        .unwrap();
    for at in 0..500u64 {
        match source.publish_soon("number", &at).await {
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    until(async || row(&pipeline, "double").lag == 0).await;
    assert!(heard.lock().unwrap().iter().copied().eq(1..=old + 500));
    // The same from any point, live events included.
    for after in [0, 1, 19_999, 20_400] {
        heard.lock().unwrap().clear();
        pipeline.catch_up("double", after, false).await.unwrap();
        source.publish("number", &0).await.unwrap();
        until(async || row(&pipeline, "double").lag == 0).await;
        let head = pipeline.row().head;
        assert!(heard.lock().unwrap().iter().copied().eq(after + 1..=head), "after {after}");
    }
    system.shutdown().await;
}

/// Hears whatever comes, and of what is gone.
struct Note {
    heard: Arc<Mutex<Vec<String>>>,
}

impl Stage for Note {
    async fn handle(&mut self, event: Arc<PipelineEvent>, _: Outbox) -> Result<(), StageError> {
        self.heard.lock().unwrap().push(event.seq.to_string());
        Ok(())
    }

    async fn lagged(&mut self, gap: Gap, _: Outbox) -> Result<(), StageError> {
        self.heard.lock().unwrap().push(format!("gap {}-{}", gap.first, gap.last));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_farther_behind_than_the_quota_is_told_what_it_missed() {
    let system = system(journal(), Vec::new()).await;
    let spec = three().keep(Keep { events: 16, bytes: 1 << 20 });
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    for at in 0..50 {
        number(&pipeline, at).await;
    }
    let oldest = pipeline.row().oldest;
    assert!((32..=35).contains(&oldest), "{oldest}");
    assert!(matches!(pipeline.catch_up("double", 3, false).await, Err(PipelineError::Gone { seq: 4, .. })));
    assert!(matches!(pipeline.events_after(3), Err(PipelineError::Gone { seq: 4, .. })));
    assert!(pipeline.events_after(oldest - 1).is_ok());
    for (seq, is_kept) in [(0, false), (oldest - 1, false), (oldest, true), (50, true), (51, false)] {
        assert_eq!(pipeline.event(seq).unwrap().map(|event| event.seq), is_kept.then_some(seq));
    }
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = heard.clone();
    pipeline.attach("double", move |_| Note { heard: notes.clone() }).unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    let mut expected = vec![format!("gap 1-{}", oldest - 1)];
    expected.extend((oldest..=50).map(|seq| seq.to_string()));
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!(row(&pipeline, "double").missed, oldest - 1);
    // Who has heard everything misses nothing, though what it heard goes.
    for at in 0..50 {
        number(&pipeline, at).await;
        until(async || row(&pipeline, "double").lag == 0).await;
    }
    assert_eq!(row(&pipeline, "double").missed, oldest - 1);
    // Nor does who would have heard nothing of what goes.
    assert_eq!((row(&pipeline, "sum").lag, row(&pipeline, "sum").missed), (0, 0));
    let heard = pipeline.heard("sum", 10).await.unwrap();
    assert_eq!((heard.gap, heard.events.len(), heard.ended), (None, 0, false));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_idles_while_what_is_not_for_it_goes_has_missed_nothing() {
    let system = system(journal(), Vec::new()).await;
    let spec = three().keep(Keep { events: 16, bytes: 1 << 20 });
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    double(&pipeline);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = heard.clone();
    pipeline.attach("sum", move |_| Note { heard: notes.clone() }).unwrap();
    number(&pipeline, 1).await;
    until(async || row(&pipeline, "sum").cursor == 2).await;
    for _ in 0..50 {
        pipeline.publisher("source").unwrap().publish("word", "nobody hears it").await.unwrap();
    }
    assert!(pipeline.row().oldest > 30, "{}", pipeline.row().oldest);
    number(&pipeline, 2).await;
    until(async || row(&pipeline, "sum").cursor == 54).await;
    assert_eq!(*heard.lock().unwrap(), ["2", "54"]);
    assert_eq!((row(&pipeline, "double").missed, row(&pipeline, "sum").missed), (0, 0));
    system.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn who_publishes_waits_for_a_slow_stage_and_is_told_when_that_takes_too_long() {
    let limits = Limits { pipeline_behind: 3, ..Limits::default() };
    let system = within(journal(), Vec::new(), limits).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let go = Arc::new(Semaphore::new(0));
    let wait = go.clone();
    pipeline
        .on("double", move |_, _| {
            let wait = wait.clone();
            async move {
                wait.acquire().await?.forget();
                Ok(())
            }
        })
        .unwrap();
    for at in 0..3 {
        number(&pipeline, at).await;
    }
    let source = pipeline.publisher("source").unwrap();
    source.publish("word", "nobody hears it").await.unwrap();
    let refused = source.publish("number", &3).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stage double is 3 events behind, which is the most: publish slower, or see what keeps it"
    );
    assert_eq!(pipeline.row().head, 4);
    let publishing = tokio::spawn(async move { source.publish("number", &3).await });
    tokio::task::yield_now().await;
    go.add_permits(1);
    assert_eq!(publishing.await.unwrap(), Ok(5));
    go.add_permits(10);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_waits_for_those_behind_it_and_goes_on_when_they_do() {
    let limits = Limits { pipeline_behind: 10, ..Limits::default() };
    let system = within(journal(), Vec::new(), limits).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    for at in 0..100u64 {
        source.publish("number", &at).await.unwrap();
    }
    let go = Arc::new(Semaphore::new(0));
    let wait = go.clone();
    pipeline
        .on("sum", move |_, _| {
            let wait = wait.clone();
            async move {
                wait.acquire().await?.forget();
                Ok(())
            }
        })
        .unwrap();
    // One event at a time, so that a turn does not carry it far beyond.
    pipeline
        .on("double", |event, out| async move {
            out.publish("doubled", &event.value())?;
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            Ok(())
        })
        .unwrap();
    until(async || row(&pipeline, "sum").lag >= 10).await;
    go.add_permits(1_000);
    until(async || row(&pipeline, "sum").cursor == 200).await;
    assert_eq!((row(&pipeline, "double").lag, row(&pipeline, "sum").lag), (0, 0));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elsewhere_can_deal_with_a_stage_and_nothing_counts_twice() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    for at in 1..=5 {
        number(&pipeline, at).await;
    }
    let heard = pipeline.heard("double", 2).await.unwrap();
    assert_eq!((heard.after, heard.upto, heard.events.len(), heard.ended), (0, 2, 2, false));
    assert_eq!(pipeline.heard("double", 2).await.unwrap(), heard, "it was not acknowledged");
    let state = || Some(canonical(&json!({"heard": 2})).unwrap());
    let output = || vec![("doubled".to_owned(), canonical(&json!(6)).unwrap())];
    pipeline.ack("double", 0, 2, state(), output()).await.unwrap();
    let again = pipeline.ack("double", 0, 2, state(), output()).await.unwrap_err();
    assert!(matches!(again, PipelineError::Moved { cursor: 2, expected: 0, .. }));
    // Of nothing nothing comes: sent twice, it would come twice.
    let nothing = pipeline.ack("double", 2, 2, None, output()).await.unwrap_err();
    assert!(matches!(nothing, PipelineError::NothingAcknowledged { after: 2, .. }), "{nothing:?}");
    pipeline.ack("double", 2, 2, state(), Vec::new()).await.unwrap();
    assert_eq!(pipeline.row().head, 6, "it is published once");
    let undeclared = vec![("number".to_owned(), canonical(&json!(6)).unwrap())];
    assert!(matches!(pipeline.ack("double", 2, 3, None, undeclared).await, Err(PipelineError::Publish(_))));
    assert!(matches!(
        pipeline.ack("double", 2, 99, None, Vec::new()).await,
        Err(PipelineError::Beyond { .. })
    ));
    assert!(matches!(pipeline.end("double").await, Err(PipelineError::NotThrough(_))));
    let heard = pipeline.heard("double", 200).await.unwrap();
    assert_eq!((heard.after, heard.upto, heard.events.len()), (2, 6, 3));
    assert_eq!(heard.state, state());
    pipeline.end("source").await.unwrap();
    pipeline.ack("double", 2, 6, None, Vec::new()).await.unwrap();
    assert!(pipeline.heard("double", 1).await.unwrap().ended);
    pipeline.end("double").await.unwrap();
    assert_eq!((row(&pipeline, "double").state, row(&pipeline, "double").lag), ("ended", 0));
    assert_eq!(row(&pipeline, "sum").lag, 1);
    system.shutdown().await;
}

/// What a stage does not hear is too much to be counted: whether it is through is looked up, and whoever asks is told the same.
#[tokio::test]
async fn a_stage_that_is_told_that_it_has_heard_everything_can_be_ended() {
    let spec = PipelineSpec::new("p")
        .stage(StageSpec::new("a").publishes(["x", "y"]))
        .stage(StageSpec::new("f").subscribes(["x"]).publishes(["z"]))
        .stage(StageSpec::new("b").subscribes(["y"]));
    for (last, asks_first) in [("x", true), ("x", false), ("y", true), ("y", false)] {
        let system = system(journal(), Vec::new()).await;
        let pipeline = system.create_pipeline(&spec).await.unwrap();
        let source = pipeline.publisher("a").unwrap();
        let one = canonical(&json!(1)).unwrap();
        for _ in 0..9 {
            source.publish_all(vec![("x".to_owned(), one.clone()); 1_000]).await.unwrap();
        }
        source.publish(last, &1).await.unwrap();
        assert!(matches!(pipeline.end("b").await, Err(PipelineError::NotThrough(_))), "more may come");
        source.end().await.unwrap();
        pipeline.catch_up("b", 0, false).await.unwrap();
        let through = last == "x";
        if asks_first {
            let heard = pipeline.heard("b", 10).await.unwrap();
            assert_eq!((heard.after, heard.upto, heard.ended), (0, 9_001, through), "{last}");
        }
        let ended = pipeline.end("b").await;
        assert_eq!(ended.is_ok(), through, "{last}, {asks_first}: {ended:?}");
        if !through {
            pipeline.ack("b", 0, 9_001, None, Vec::new()).await.unwrap();
            assert!(pipeline.heard("b", 10).await.unwrap().ended);
            pipeline.end("b").await.unwrap();
        }
        system.shutdown().await;
    }
}

#[tokio::test]
async fn of_large_events_no_more_are_told_at_once_than_an_answer_holds() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let source = pipeline.publisher("source").unwrap();
    let number = |bytes: usize| ("number".to_owned(), canonical(&"x".repeat(bytes - 2).into()).unwrap());
    // The 16th reaches 4 MiB exactly.
    for bytes in [EVENT_BYTES_MAX; 18].into_iter().chain([2; 70]) {
        source.publish_all(vec![number(bytes)]).await.unwrap();
    }
    source.publish("word", "nobody hears it").await.unwrap();
    for (after, limit, upto, count) in [
        (0, 256, 16, 16),
        (0, 10, 10, 10),
        (1, 256, 17, 16),
        (2, 256, 18, 16),
        (3, 256, 89, 85),
        (18, 70, 88, 70),
        (18, 0, 19, 1),
    ] {
        pipeline.catch_up("double", after, false).await.unwrap();
        let heard = pipeline.heard("double", limit).await.unwrap();
        assert_eq!((heard.upto, heard.events.len()), (upto, count), "after {after}");
        assert_eq!(heard.events.last().unwrap().seq, upto.min(88));
    }
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_has_ended_hears_more_when_one_before_it_is_moved() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    double(&pipeline);
    pipeline.attach("sum", Sum::from).unwrap();
    for at in 1..=3 {
        number(&pipeline, at).await;
    }
    pipeline.end("source").await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    pipeline.catch_up("double", 1, true).await.unwrap();
    assert_eq!(pipeline.ended().await.unwrap(), PipelineEnd::Ended);
    let told = told(&pipeline).await;
    let totals: Vec<&Value> = told.iter().filter(|(kind, _)| kind == "total").map(|(_, data)| data).collect();
    assert_eq!(totals, [&json!(12), &json!(22)], "what is heard again is published again");
    system.shutdown().await;
}

/// What stages heard, by stage, across processes.
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
        let collect = || Store::collect(folder.path(), Unwanted::default(), true);
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

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_is_closed_when_its_event_is_done() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let leaked: Arc<Mutex<Option<Outbox>>> = Arc::default();
    let leak = leaked.clone();
    let refused = Arc::new(AtomicBool::new(false));
    let told = refused.clone();
    pipeline
        .on("double", move |_, out| {
            let before = leak.lock().unwrap().replace(out);
            let refused = before.map(|before| before.publish("doubled", &1) == Err(PublishError::TooLate));
            told.fetch_or(refused.unwrap_or(false), Ordering::SeqCst);
            async { Ok(()) }
        })
        .unwrap();
    number(&pipeline, 1).await;
    number(&pipeline, 2).await;
    until(async || row(&pipeline, "double").lag == 0).await;
    assert!(refused.load(Ordering::SeqCst));
    assert_eq!(pipeline.row().head, 2);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_parked_events_the_newest_are_listed_and_all_are_counted() {
    let system = system(journal(), Vec::new()).await;
    let pipeline = system.create_pipeline(&three()).await.unwrap();
    let many = PARKED_KEPT_MAX as u64 + 3;
    for at in 0..many {
        number(&pipeline, at).await;
    }
    pipeline.on("double", |_, _| async { Err(StageError::new("never")) }).unwrap();
    until(async || row(&pipeline, "double").lag == 0).await;
    let stage = row(&pipeline, "double");
    assert_eq!((stage.parked_total, stage.parked.len()), (many, PARKED_KEPT_MAX));
    assert_eq!((stage.parked[0].seq, &*stage.parked[0].reason), (4, "never"));
    assert_eq!(stage.state, "live", "however many there are, its actor is not given up");
    system.shutdown().await;
}

/// `price` hears orders only, and the log keeps three events.
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
    // An answer may be lost: who asks again is told again, and nothing is counted for that.
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
    // What it dealt with counts, though it is gone by now, and whichever process it tells.
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
    // A gap is acknowledged alone too; until then there is something to do.
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
