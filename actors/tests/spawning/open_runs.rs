//! The limit of runs that are open below one run.

use std::sync::Arc;

use ostler_actors::{Limits, ResolveHow, System};
use ostler_kernel::event::Failure;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::Tool;
use ostler_kernel::run::{FailureCategory, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};

use crate::common::{Hold, left_by, states, submit, until, within};
use crate::{hold, other};

fn limits() -> Limits {
    Limits { child_runs_open: 3, ..Limits::default() }
}

fn asks(id: &str, deps: Value) -> Value {
    let leaf = json!({"id": "c", "nodes": [{"id": "h", "tool": "hold"}]});
    json!({"id": id, "tool": "agent.ask", "deps": deps, "params": {"plan": leaf}})
}

/// Opens a run, a run below a run, and, behind `gate`, one more; then another one when all have ended.
fn source() -> Value {
    let inner = json!({"id": "m", "nodes": [asks("inner", json!([]))]});
    let nodes = json!([
        asks("open", json!([])),
        {"id": "outer", "tool": "agent.ask", "params": {"plan": inner}},
        {"id": "gate", "tool": "gate"},
        asks("late", json!(["gate"])),
        asks("last", json!(["open", "outer", {"n": "late", "on": "terminal"}])),
    ]);
    json!({"id": "p", "policy": {"recovery": {"crash": "human_escalation"}}, "nodes": nodes})
}

fn gate() -> Arc<Hold> {
    Hold::new("gate", Effect::Read, Idempotency::Natural)
}

async fn refusal(system: &System, run: RunId) -> Failure {
    let late = async || system.view(run, None).await.unwrap().run.instance(&"late".into()).unwrap().clone();
    until(async || late().await.failure.is_some()).await;
    *late().await.failure.unwrap()
}

fn refused() -> Failure {
    let message = "step \"run\": 3 runs are open below the run at the top, and no further one may be; let each run do more of the work, \
                   give nodes `deps` so that fewer are open at once, or answer or cancel runs that are suspended";
    Failure::new(FailureCategory::ResourceExhaustion, message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_runs_are_open_below_a_run_than_the_limit_also_after_a_restart() {
    let (journal, hold, gate) = (Arc::new(MemoryJournal::default()), hold(), gate());
    let tools: Vec<Arc<dyn Tool>> = vec![hold.clone(), gate.clone()];
    let first = within(journal.clone(), tools, limits()).await;
    let run = submit(&first, source()).await;
    for _ in 0..2 {
        hold.started().await;
    }
    gate.started().await;
    let left = left_by(&journal);

    gate.go(1);
    assert_eq!(refusal(&first, run).await, refused());
    hold.go(3);
    first.outcome(run).await.unwrap();
    let ended = states(&first, run).await;
    assert_eq!(ended, "gate executed, last executed, late failed, open executed, outer executed");
    first.shutdown().await;

    // The nodes that opened the runs are in doubt in this process, and open them no second time.
    let tools: Vec<Arc<dyn Tool>> = vec![self::hold(), self::gate()];
    let second = within(left, tools, limits()).await;
    second.resume(run).await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Waiting);
    second.resolve(run, "gate".into(), ResolveHow::Done(json!({}))).await.unwrap();
    assert_eq!(refusal(&second, run).await, refused());
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_opened_before_is_found_where_no_further_one_may_be_opened() {
    let (journal, hold) = (Arc::new(MemoryJournal::default()), hold());
    let first = within(journal.clone(), vec![hold.clone()], limits()).await;
    let run = submit(&first, json!({"id": "p", "nodes": [asks("open", json!([]))]})).await;
    hold.started().await;

    let again = self::hold();
    let limits = Limits { child_runs_open: 0, ..Limits::default() };
    let second = within(left_by(&journal), vec![again.clone()], limits).await;
    let opened = other(&second, run).unwrap();
    second.resume(opened).await.unwrap();
    again.go(1);
    assert_eq!(second.outcome(opened).await.unwrap(), RunStatus::Succeeded);
    second.resume(run).await.unwrap();
    assert_eq!(second.outcome(run).await.unwrap(), RunStatus::Succeeded);
    second.shutdown().await;
}
