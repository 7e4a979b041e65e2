//! Record throughput of a pipeline of three stages on tmpfs, against the bare journal with as many appenders.

use std::sync::Arc;
use std::time::Instant;

use ostler::Ostler;
use ostler::kernel::event::{Event, Published};
use ostler::kernel::port::{Journal, Seq, StreamBatch, StreamId};
use ostler_store::{Options, Store};
use serde_json::json;

use crate::chain::{End, attach};
use crate::{Must, Row, ratios, runtime, tmpfs};

/// Concurrent publishers or appenders, each waiting for durability before the next event.
const TASKS: usize = 64;

/// Events per publisher and sample.
const EVENTS: usize = 100;

const ROUNDS: usize = 15;

/// Stages, including the source.
const STAGES: usize = 3;

/// Data of an event, about 200 bytes.
fn data() -> serde_json::Value {
    json!({"path": "/books/1", "title": "x".repeat(160), "status": 200})
}

pub(crate) fn row() -> Row {
    let (pipe, bare) = (tmpfs(), tmpfs());
    let pairs = runtime().block_on(async {
        let os = Ostler::builder().data_dir(pipe.path().join("data")).without_socket().start().await.unwrap();
        let spec = crate::chain::spec(STAGES - 1);
        let pipeline = os.create_pipeline(&spec).await.unwrap();
        let end = Arc::new(End::default());
        attach(&pipeline, STAGES - 1, &end);
        let (store, _) = Store::open_with(&bare.path().join("data"), Options::default()).unwrap();
        let bare_journal: Arc<dyn Journal> = store.journal.clone();
        let mut heads = vec![0; TASKS];
        let mut pairs = Vec::new();
        for round in 0..=ROUNDS {
            let ours = published(&pipeline, &end, round as u64).await;
            let theirs = appended(&bare_journal, &mut heads).await;
            if round > 0 {
                pairs.push((ours, theirs));
            }
        }
        os.shutdown().await;
        pairs
    });
    let [ratio, ours, bare] = ratios(&pairs);
    Row {
        figure: "records a second of three stages with group commit ÷ of the bare journal, on tmpfs, 64 at a time",
        must: Must::Least(0.25),
        measured: ratio,
        note: format!("{ours:.0} ÷ {bare:.0} a second"),
    }
}

/// Log records per second for events that pass all stages: one per publishing stage, not counting cursors.
async fn published(pipeline: &ostler::PipelineHandle, end: &Arc<End>, round: u64) -> f64 {
    let source = pipeline.publisher("source").unwrap();
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let source = source.clone();
            tokio::spawn(async move {
                for _ in 0..EVENTS {
                    source.publish("t0", &data()).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let count = (TASKS * EVENTS) as u64;
    end.reach((round + 1) * count).await;
    pipeline.durable().await.unwrap();
    (count * (STAGES as u64 - 1)) as f64 / begun.elapsed().as_secs_f64()
}

async fn appended(journal: &Arc<dyn Journal>, heads: &mut [u64]) -> f64 {
    let begun = Instant::now();
    let each = EVENTS * (STAGES - 1);
    let tasks: Vec<_> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let (journal, head) = (journal.clone(), *head);
            tokio::spawn(async move {
                let stream = StreamId::pipeline(&format!("bare{at}").as_str().into()).log();
                for seq in head..head + each as u64 {
                    let event = Published {
                        stage: "source".into(),
                        kind: "t0".into(),
                        data: ostler::kernel::json::canonical(&data()).unwrap(),
                    };
                    let events = vec![Event::Published(event)];
                    let batch = StreamBatch { stream, expected: Seq(seq), at_ms: 0, events };
                    let position = journal.append(vec![batch]).unwrap();
                    journal.durable(position).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    heads.iter_mut().for_each(|head| *head += each as u64);
    (TASKS * each) as f64 / begun.elapsed().as_secs_f64()
}
