//! The actors of a pipeline are killed while it runs, again and again: every event comes through once.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::event::Event;
use ostler_kernel::gate::GatePolicy;
use ostler_kernel::pipeline::{OnFailure, PipelineSpec, StageSpec};
use ostler_kernel::port::Journal;
use ostler_store::{MemoryArtifacts, MemoryJournal, MemoryOutput, WriteCounts};
use ostler_supervisor::ChildRef;
use serde_json::{Value, json};

use crate::metrics::Seen;
use crate::state::evaluation::Evaluating;
use crate::{
    Measures, Outbox, PipelineEnd, PipelineEvent, PipelineHandle, Stage, StageError, System, SystemConfig,
};

/// Longer than anything here takes, and shorter than a test may hang.
const SOON: Duration = Duration::from_secs(60);

async fn system(measures: Measures) -> System {
    system_on(Arc::new(MemoryJournal::default()), measures).await
}

pub(crate) async fn system_on(journal: Arc<dyn Journal>, measures: Measures) -> System {
    let config = SystemConfig {
        journal,
        artifacts: Arc::new(MemoryArtifacts::default()),
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: Vec::new(),
        gate: GatePolicy::default(),
        slots: 1,
        run_slots: 1,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
        models: Default::default(),
        measures,
        evaluation: Evaluating::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    System::start(config).await.unwrap()
}

/// Passes on the sum so far, after a moment.
struct Sums(u64, &'static str);

impl Stage for Sums {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        self.0 += event.read::<u64>()?;
        out.publish(self.1, &self.0)?;
        out.keep(&self.0)?;
        tokio::time::sleep(Duration::from_micros(300)).await;
        Ok(())
    }
}

fn sums(pipeline: &PipelineHandle, stage: &str, publishes: &'static str) {
    let made = move |kept: Option<Value>| Sums(kept.and_then(|kept| kept.as_u64()).unwrap_or(0), publishes);
    pipeline.attach(stage, made).unwrap();
}

/// Kills a child; false without a child of this name.
fn kill(system: &System, child: &str) -> bool {
    let links = &system.services.mailboxes;
    match child {
        "pipelines" => system.pipelines.actor.get().map(|actor| actor.get_cell().kill()).is_ok(),
        "scheduler" => links.scheduler.get().map(|actor| actor.get_cell().kill()).is_ok(),
        stage => match links.pool().and_then(|(pool, _)| pool.child_ref(stage)) {
            Some(ChildRef::Actor(cell)) => {
                cell.kill();
                true
            }
            _ => false,
        },
    }
}

async fn check_killing(children: &[&str], times: u64) {
    const EVENTS: u64 = 600;
    let recorded = Seen::default();
    let system = system(Measures::recording(Arc::new(recorded.clone()))).await;
    let stage = |name: &str| StageSpec::new(name).on_failure(OnFailure::Stop);
    let spec = PipelineSpec::new("p")
        .stage(stage("a").publishes(["x"]))
        .stage(stage("b").subscribes(["x"]).publishes(["y"]))
        .stage(stage("c").subscribes(["y"]).publishes(["z"]));
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    sums(&pipeline, "b", "y");
    sums(&pipeline, "c", "z");
    let source = pipeline.publisher("a").unwrap();
    let mut killed = 0;
    for event in 0..EVENTS {
        source.publish_soon("x", &1).await.unwrap();
        if event % (EVENTS / times) == EVENTS / times / 2 {
            let child = children[killed % children.len()];
            let kills = async {
                while !kill(&system, child) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(SOON, kills).await.expect("it is up");
            killed += 1;
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    source.end().await.unwrap();
    let end = tokio::time::timeout(SOON, pipeline.ended()).await.expect("it ends").unwrap();
    assert_eq!(end, PipelineEnd::Ended);
    let mut cursor = pipeline.events_after(0).unwrap();
    let (mut ys, mut zs) = (Vec::new(), Vec::new());
    for _ in 0..pipeline.row().head {
        let Event::Published(event) = cursor.next().await.unwrap().unwrap().event else { panic!("no event") };
        match event.kind.as_str() {
            "y" => ys.push(event.data.value()),
            "z" => zs.push(event.data.value()),
            _ => {}
        }
    }
    let expected: Vec<Value> = (1..=EVENTS).map(|n| json!(n)).collect();
    assert_eq!(ys, expected, "each event once, in order, with the state of the one before");
    let expected: Vec<Value> = (1..=EVENTS).map(|n| json!(n * (n + 1) / 2)).collect();
    assert_eq!(zs, expected);
    assert_eq!(recorded.value("ostler_pipeline_events_total p"), Some(3.0 * EVENTS as f64));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_actors_of_stages_loses_nothing_and_repeats_nothing() {
    check_killing(&["p/b", "p/c"], 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_actor_of_all_pipelines_loses_nothing_and_repeats_nothing() {
    check_killing(&["pipelines"], 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_what_is_before_pipelines_loses_nothing_and_repeats_nothing() {
    check_killing(&["scheduler", "p/b", "pipelines"], 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_whose_actor_fails_too_often_is_down_until_it_is_released() {
    let system = system(Measures::default()).await;
    let spec = PipelineSpec::new("p")
        .stage(StageSpec::new("a").publishes(["x"]))
        .stage(StageSpec::new("b").subscribes(["x"]).publishes(["y"]));
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    sums(&pipeline, "b", "y");
    let state = || pipeline.row().stages[1].state.clone();
    let down = async {
        while state() != "down" {
            kill(&system, "p/b");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, down).await.expect("it fails too often");
    pipeline.publisher("a").unwrap().publish("x", &1).await.unwrap();
    let PipelineEnd::Stuck { stage, reason } = pipeline.ended().await.unwrap() else { panic!("it ended") };
    assert_eq!((&*stage, &*reason), ("b", "it failed too often: killed"));
    pipeline.release("b").await.unwrap();
    pipeline.end("a").await.unwrap();
    let end = tokio::time::timeout(SOON, pipeline.ended()).await.expect("it ends").unwrap();
    assert_eq!((end, state()), (PipelineEnd::Ended, "ended".into()));
    system.shutdown().await;
}
