//! Reading records up to the end of a stream.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{Hold, memory, submit, system};
use ostler_kernel::event::Event;
use ostler_kernel::pipeline::PipelineSpec;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::Seq;
use ostler_store::MemoryJournal;
use serde_json::{Value, json};
use std::sync::Arc;

fn text() -> Value {
    json!({"id": "p", "nodes": [{"id": "n", "tool": "text.render", "params": {"template": "x", "values": {}}}]})
}

#[tokio::test(start_paused = true)]
async fn behind_the_last_record_of_a_closed_run_a_cursor_ends() {
    let system = memory().await;
    let run = submit(&system, text()).await;
    system.outcome(run).await.unwrap();
    let (mut cursor, mut last) = (system.events(run, Seq(0)).unwrap(), Seq(0));
    while let Some(record) = cursor.next().await {
        let record = record.unwrap();
        last = record.seq;
        assert_eq!(matches!(record.event, Event::RunClosed { .. }), cursor.next_known().await.is_none());
        cursor = system.events(run, last).unwrap();
    }
    assert!(last > Seq(2));
    assert!(system.events(run, last).unwrap().next().await.is_none());
    assert!(system.events(run, Seq(last.0 + 7)).unwrap().next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_ends_with_its_system() {
    let hold = Hold::new("hold", Effect::None, Idempotency::Natural);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, json!({"id": "p", "nodes": [{"id": "n", "tool": "hold"}]})).await;
    hold.started().await;
    let mut cursor = system.events(run, Seq(0)).unwrap();
    let follows = tokio::spawn(async move {
        let mut count = 0;
        while let Some(record) = cursor.next().await {
            record.unwrap();
            count += 1;
        }
        count
    });
    let spec: PipelineSpec =
        serde_json::from_value(json!({"id": "q", "stages": [{"name": "a", "publishes": ["x"]}]})).unwrap();
    let pipeline = system.create_pipeline(&spec).await.unwrap();
    let mut events = pipeline.events_after(0).unwrap();
    let waits = tokio::spawn(async move { events.next().await.is_none() });
    system.shutdown().await;
    assert!(follows.await.unwrap() > 2, "all that there is was given");
    assert!(waits.await.unwrap());
    let mut after = system.events(run, Seq(0)).unwrap();
    assert!(after.next().await.unwrap().is_ok());
    assert!(system.events(run, Seq(1_000)).unwrap().next().await.is_none());
}
