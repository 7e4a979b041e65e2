//! Catch-up speed of a stage on a long log, against merely reading the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ostler::kernel::gate::GatePolicy;
use ostler::kernel::json::canonical;
use ostler::kernel::port::{ArtifactStore, Journal, Seq, StreamId};
use ostler::{PipelineSpec, StageSpec};
use ostler_actors::{Measures, System, SystemConfig};
use ostler_store::{MemoryOutput, Options, Store, WriteCounts};
use serde_json::json;

use crate::chain::End;
use crate::{Must, Row, ratios, runtime, tmpfs};

/// Events of the log, more than are kept in memory.
const EVENTS: u64 = 200_000;

const ROUNDS: usize = 7;

/// Records per read.
const AT_ONCE: usize = 1_024;

pub(crate) fn row() -> Row {
    let folder = tmpfs();
    let pairs = runtime().block_on(async {
        let (store, _) = Store::open_with(&folder.path().join("data"), Options::default()).unwrap();
        let system = system(store.journal.clone(), store.artifacts.clone()).await;
        let spec = PipelineSpec::new("long")
            .stage(StageSpec::new("source").publishes(["t0"]))
            .stage(StageSpec::new("reader").subscribes(["t0"]));
        let pipeline = system.create_pipeline(&spec).await.unwrap();
        let source = pipeline.publisher("source").unwrap();
        let data = canonical(&json!({"path": "/books/1", "title": "x".repeat(160), "status": 200})).unwrap();
        for _ in 0..EVENTS / 1_000 {
            source.publish_all(vec![("t0".to_owned(), data.clone()); 1_000]).await.unwrap();
        }
        // Notified once for all events, so that the waiting task does not wake for each.
        let (end, heard) = (Arc::new(End::default()), Arc::new(AtomicU64::new(0)));
        let told = end.clone();
        pipeline
            .on("reader", move |_, _| {
                if (heard.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVENTS) {
                    told.tell();
                }
                async { Ok(()) }
            })
            .unwrap();
        end.reach(1).await;
        let mut pairs = Vec::new();
        for round in 1..=ROUNDS as u64 {
            let scanned = scan(&*store.journal);
            let begun = Instant::now();
            pipeline.catch_up("reader", 0, false).await.unwrap();
            end.reach(round + 1).await;
            pairs.push((EVENTS as f64 / begun.elapsed().as_secs_f64(), scanned));
        }
        system.shutdown().await;
        pairs
    });
    let [ratio, ours, bare] = ratios(&pairs);
    Row {
        figure: "events a second that a stage catches up with ÷ of a bare scan of the log",
        must: Must::Least(0.5),
        measured: ratio,
        note: format!("{ours:.0} ÷ {bare:.0} a second, {EVENTS} events"),
    }
}

async fn system(journal: Arc<dyn Journal>, artifacts: Arc<dyn ArtifactStore>) -> System {
    let config = SystemConfig {
        journal,
        artifacts,
        output: Arc::new(MemoryOutput::default()),
        writes: Arc::new(WriteCounts::default()),
        tools: Vec::new(),
        gate: GatePolicy::default(),
        slots: 1,
        run_slots: 1,
        drain: Duration::from_secs(1),
        clients: Vec::new(),
        models: Default::default(),
        measures: Measures::default(),
        evaluation: Default::default(),
        planner: Arc::new(ostler_kernel::run::StaticPlanner),
        diagnoser: Arc::new(ostler_kernel::run::RuleDiagnoser),
    };
    System::start(config).await.unwrap()
}

/// Records read per second.
fn scan(journal: &dyn Journal) -> f64 {
    let stream = StreamId::pipeline(&"long".into()).log();
    let (begun, mut at) = (Instant::now(), Seq(0));
    while let Some(last) = journal.read(stream, at, AT_ONCE).unwrap().last() {
        at = last.seq;
    }
    at.0 as f64 / begun.elapsed().as_secs_f64()
}
