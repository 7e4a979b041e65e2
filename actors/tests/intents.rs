//! Intents are recorded before the act, on a slow disk.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::{Hold, PATIENCE, submit, system};
use ostler_actors::{Settled, System};
use ostler_kernel::event::Event;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{Journal, RunRowStatus, Seq, StreamId};
use ostler_kernel::run::RunStatus;
use ostler_store::disk::FaultyDisk;
use ostler_store::{Options, SegmentJournal};
use serde_json::json;

fn intends(journal: &SegmentJournal, run: RunId, node: &str) -> bool {
    let row = journal.run(run).unwrap().unwrap();
    let records = journal.read(StreamId::run(&row.client, run), Seq(0), usize::MAX).unwrap();
    let intends =
        |event: &Event| matches!(event, Event::AttemptIntent(intent) if intent.node.as_str() == node);
    records.iter().any(|record| intends(&record.event))
}

async fn settled(system: &System, run: RunId) -> Settled {
    tokio::time::timeout(PATIENCE, system.outcome(run)).await.expect("it settles").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_acts_on_the_world_starts_only_when_its_intent_is_durable() {
    let disk = FaultyDisk::new();
    let (journal, _) = SegmentJournal::on_disk(Arc::new(disk.clone()), Options::default()).unwrap();
    let journal = Arc::new(journal);
    let look = Hold::new("look", Effect::Read, Idempotency::Natural);
    let act = Hold::new("act", Effect::External, Idempotency::None);
    let system = system(journal.clone(), vec![look.clone(), act.clone()]).await;
    let nodes = json!([
        {"id": "before", "tool": "look"},
        {"id": "look", "tool": "look", "deps": ["before"]},
        {"id": "act", "tool": "act", "deps": ["before"]},
    ]);
    let run = submit(&system, json!({"id": "p", "nodes": nodes})).await;
    tokio::time::timeout(PATIENCE, look.started()).await.expect("the first node starts");
    disk.hold_syncs();
    look.go(1);
    // A read does not wait for the disk.
    tokio::time::timeout(PATIENCE, look.started()).await.expect("what looks starts");
    let begun = Instant::now();
    while !(intends(&journal, run, "act") && disk.syncs_waiting() > 0) {
        assert!(begun.elapsed() < PATIENCE, "its intent is written");
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!act.has_started(), "its intent is not durable");
    disk.release_syncs();
    tokio::time::timeout(PATIENCE, act.started()).await.expect("what acts starts");
    look.go(1);
    act.go(1);
    assert_eq!(settled(&system, run).await, Settled::new(RunStatus::Succeeded));
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_the_last_attempt_is_durable_when_the_system_is_shut_down() {
    let disk = FaultyDisk::new();
    let (journal, _) = SegmentJournal::on_disk(Arc::new(disk.clone()), Options::default()).unwrap();
    let journal = Arc::new(journal);
    let act = Hold::new("act", Effect::External, Idempotency::None);
    let system = system(journal.clone(), vec![act.clone()]).await;
    let run = submit(&system, json!({"id": "p", "nodes": [{"id": "act", "tool": "act"}]})).await;
    tokio::time::timeout(PATIENCE, act.started()).await.expect("it starts");
    disk.hold_syncs();
    act.go(1);
    let ends = {
        let system = system.clone();
        tokio::spawn(async move { system.shutdown().await })
    };
    let is_ended = || journal.run(run).unwrap().is_some_and(|row| row.status != RunRowStatus::Open);
    let begun = Instant::now();
    while !(is_ended() && disk.syncs_waiting() > 0) {
        assert!(begun.elapsed() < PATIENCE, "its end is ordered");
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!ends.is_finished(), "it waits for the disk");
    disk.release_syncs();
    tokio::time::timeout(PATIENCE, ends).await.expect("it ends").unwrap();
}
