//! Tools that changed between two processes of a run.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{Hold, PATIENCE, left_by, states, submit, system};
use ostler_actors::{ResolveHow, Settled, System};
use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{Journal, Seq};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::json;

fn hold(version: &str) -> Arc<Hold> {
    Hold::of_version(version, "hold", Effect::Read, Idempotency::Natural)
}

/// A run whose process dies during the second node; returns the journal.
async fn died() -> (Arc<MemoryJournal>, RunId) {
    let (journal, first) = (Arc::new(MemoryJournal::default()), hold("1"));
    let before = system(journal.clone(), vec![first.clone()]).await;
    let nodes = json!([{"id": "a", "tool": "hold"}, {"id": "b", "tool": "hold", "deps": ["a"]}]);
    let run = submit(&before, json!({"id": "p", "nodes": nodes})).await;
    tokio::time::timeout(PATIENCE, first.started()).await.expect("a starts");
    first.go(1);
    tokio::time::timeout(PATIENCE, first.started()).await.expect("b starts");
    let left = left_by(&journal);
    before.shutdown().await;
    (left, run)
}

async fn settled(system: &System, run: RunId) -> Settled {
    tokio::time::timeout(PATIENCE, system.outcome(run)).await.expect("it settles").unwrap()
}

fn failures(journal: &MemoryJournal, run: RunId) -> Vec<String> {
    let row = journal.run(run).unwrap().unwrap();
    let stream = ostler_kernel::port::StreamId::run(&row.client, run);
    let records = journal.read(stream, Seq(0), usize::MAX).unwrap();
    let failure = |event| match event {
        Event::AttemptResult(result) => match result.outcome {
            Outcome::Failed(failure) => Some(format!("{}: {}", result.node, failure.message)),
            Outcome::Ok(_) => None,
        },
        _ => None,
    };
    records.into_iter().filter_map(|record| failure(record.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_attempt_is_done_again_by_the_tool_that_it_was_started_with() {
    let (journal, run) = died().await;
    let same = hold("1");
    let system = system(journal.clone(), vec![same.clone()]).await;
    system.resume(run).await.unwrap();
    same.go(1);
    assert_eq!(settled(&system, run).await, Settled::new(RunStatus::Succeeded));
    assert_eq!(failures(&journal, run), [""; 0]);
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_attempt_whose_tool_has_changed_is_not_done_again_before_a_person_says_so() {
    let (journal, run) = died().await;
    let other = hold("2");
    let system = system(journal.clone(), vec![other.clone()]).await;
    system.resume(run).await.unwrap();
    assert_eq!(settled(&system, run).await, Settled::new(RunStatus::Waiting));
    assert_eq!(states(&system, run).await, "a executed, b waiting_human");
    assert!(!other.has_started());
    let told = "b: not done again: hold, now version 2, has changed since it was started";
    assert_eq!(failures(&journal, run), [told]);

    system.resolve(run, "b".into(), ResolveHow::Redo).await.unwrap();
    tokio::time::timeout(PATIENCE, other.started()).await.expect("b is done anew");
    other.go(1);
    assert_eq!(settled(&system, run).await, Settled::new(RunStatus::Succeeded));
    system.shutdown().await;
}
