//! Pipelines in a running system: order, crashes, slow and failing stages, and state after a restart.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../common/mod.rs"]
mod common;
mod failing;
mod kept;
mod pace;
mod removing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::{Watched, system, until, within};
use ostler_actors::{
    Gap, Limits, Outbox, PipelineEnd, PipelineError, PipelineEvent, PipelineHandle, PublishError, Stage,
    StageError, StageRow,
};
use ostler_kernel::event::{Event, PipelineRecord};
use ostler_kernel::json::{canonical, to_canonical};
use ostler_kernel::pipeline::{Keep, OnFailure, PipelineSpec, PublishRefusal, SpecFault, StageSpec};
use ostler_kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_store::{MemoryJournal, Options, Store};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

fn journal() -> Arc<MemoryJournal> {
    Arc::new(MemoryJournal::default())
}

/// `source` publishes numbers, `double` doubles them, `sum` receives the result.
fn three() -> PipelineSpec {
    PipelineSpec::new("sums")
        .stage(StageSpec::new("source").publishes(["number", "word"]))
        .stage(
            StageSpec::new("double")
                .subscribes(["number"])
                .publishes(["doubled"])
                .on_failure(OnFailure::Continue),
        )
        .stage(StageSpec::new("sum").subscribes(["doubled"]).publishes(["total"]))
}

/// Adds up its events, continues after a crash, and prints the total at the end.
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
        assert_eq!((row(&pipeline, stage).lag, row(&pipeline, stage).state), (0, "ended".into()));
    }
    let refused = source.publish("number", &1).await;
    assert!(matches!(refused, Err(PublishError::Refused(PublishRefusal::Ended(_)))), "{refused:?}");
    system.shutdown().await;
}

/// A lookup between the first record of a pipeline and the answer to its creator finds the same pipeline.
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
