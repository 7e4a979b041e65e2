//! Cancellation of a run while runs below the run are being opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_actors::{Program, ProgramContext};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{ChildRunSpec, Tool};
use ostler_kernel::run::{FailureCategory, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::common::{Hold, states, submit, system, until};
use crate::{child, hold, submitted, terms};

/// Depth of the chain in runs.
const CHAIN: u64 = 6;

/// A program that opens a child run of itself; at the bottom the program waits for a permit, then opens a run that calls `hold`.
fn chain(may: &Arc<Semaphore>, at_bottom: &Arc<AtomicBool>) -> Program {
    let (may, at_bottom) = (Arc::clone(may), Arc::clone(at_bottom));
    Program::new("parent", "1", move |agent: ProgramContext, input: Value| {
        let (may, at_bottom) = (Arc::clone(&may), Arc::clone(&at_bottom));
        async move {
            let left = input["left"].as_u64().unwrap_or(CHAIN);
            let below = if left > 1 {
                ChildRunSpec::call("parent", Map::from_iter([("left".to_owned(), json!(left - 1))]))
            } else {
                at_bottom.store(true, Ordering::SeqCst);
                may.acquire().await.unwrap().forget();
                child(json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]}))
            };
            let end = agent.spawn("below", below).await?;
            Ok(json!(end.outcome))
        }
    })
}

#[tokio::test]
async fn nothing_is_opened_below_a_run_once_its_cancellation_is_acknowledged() {
    let (may, at_bottom, hold) = (Arc::new(Semaphore::new(0)), Arc::default(), hold());
    let tools: Vec<Arc<dyn Tool>> = vec![hold.clone(), Arc::new(chain(&may, &at_bottom))];
    let system = system(Arc::new(MemoryJournal::default()), tools).await;
    let run = submitted(&system, terms(&system)).await;
    until(async || at_bottom.load(Ordering::SeqCst)).await;
    let opened = system.runs(false).unwrap().len();
    assert_eq!(opened as u64, CHAIN);
    // The acknowledgement of the cancellation precedes its arrival at the bottom.
    system.cancel(run).await.unwrap();
    may.add_permits(1);
    until(async || system.runs(true).unwrap().is_empty()).await;
    assert_eq!(system.runs(false).unwrap().len(), opened, "no run was opened");
    assert!(!hold.has_started());
    system.shutdown().await;
}

/// A node that opens a run in which a call acts on the world.
fn asks(timeout: &str) -> Value {
    let call = json!({"id": "h", "tool": "hold", "timeout": "24h"});
    let inner = json!({"id": "below", "tool": "agent.ask", "impact": 1, "effect": "write", "timeout": "24h",
        "params": {"plan": {"id": "c", "nodes": [call]}}});
    json!({"id": "n", "tool": "agent.ask", "impact": 1, "effect": "write", "timeout": timeout, "retries": 0,
        "params": {"plan": {"id": "m", "nodes": [inner]}}})
}

#[tokio::test(start_paused = true)]
async fn what_acts_below_a_node_that_has_failed_is_stopped_and_in_doubt() {
    let hold = Hold::new("hold", Effect::Write, Idempotency::None);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, json!({"id": "p", "nodes": [asks("3s")]})).await;
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Failed);
    hold.stopped().await;
    until(async || system.runs(true).unwrap().is_empty()).await;
    let mut failed = Vec::new();
    for row in system.runs(false).unwrap() {
        let view = system.view(row.run, None).await.unwrap();
        let instance = view.run.instance(&"h".into());
        failed.extend(instance.and_then(|instance| instance.failure.clone()).map(|failure| failure.category));
    }
    assert_eq!(failed, [FailureCategory::Crash], "not the timeout of its own");
    system.shutdown().await;
}

#[tokio::test]
async fn what_acts_below_a_run_that_a_person_cancels_ends_by_itself() {
    let hold = Hold::new("hold", Effect::Write, Idempotency::None);
    let system = system(Arc::new(MemoryJournal::default()), vec![hold.clone()]).await;
    let run = submit(&system, json!({"id": "p", "nodes": [asks("24h")]})).await;
    hold.started().await;
    system.cancel(run).await.unwrap();
    hold.go(1);
    until(async || system.runs(true).unwrap().is_empty()).await;
    for row in system.runs(false).unwrap() {
        let states = states(&system, row.run).await;
        assert!(!states.starts_with("h ") || states == "h executed", "{states}");
    }
    system.shutdown().await;
}
