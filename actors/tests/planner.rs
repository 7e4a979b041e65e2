//! A program's own planner: patches for failed nodes and new versions of plans, at once or later.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::Arc;

use common::{left_by, planned_by, states, submit, value};
use ostler_actors::{RunError, System};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Delta;
use ostler_kernel::run::{Patch, Planner, PlannerAnswer, PlannerRequest, RunStatus};
use ostler_store::MemoryJournal;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Gives prepared answers, and reports each request.
struct Prepared {
    patch: PlannerAnswer<Patch>,
    replan: PlannerAnswer<Delta>,
    requests: UnboundedSender<String>,
}

impl Planner for Prepared {
    fn patch(&self, request: &PlannerRequest<'_>, node: &NodeId) -> PlannerAnswer<Patch> {
        let failure = request.run.instance(node).and_then(|instance| instance.failure.clone()).unwrap();
        self.requests.send(format!("patch {node}: {}", failure.category)).unwrap();
        self.patch.clone()
    }

    fn replan(&self, request: &PlannerRequest<'_>) -> PlannerAnswer<Delta> {
        self.requests.send(format!("replan version {}", request.run.plan().version)).unwrap();
        self.replan.clone()
    }
}

/// A node that must print `good` and prints `text`.
fn node(id: &str, text: &str) -> Value {
    let spec = json!({"type": "object", "properties": {"text": {"const": "good"}}});
    json!({"id": id, "tool": "text.render", "params": {"template": text, "values": {}}, "retries": 0, "patches": 1,
        "contract": [{"method": "schema", "spec": spec}]})
}

fn good() -> Patch {
    let set = json!({"params": {"template": "good", "values": {}}});
    Patch { set: Some(serde_json::from_value(set).unwrap()) }
}

fn another_node() -> Delta {
    serde_json::from_value(json!({"add": [node("b", "good")], "outputs": ["b"]})).unwrap()
}

struct Started {
    system: System,
    run: RunId,
    journal: Arc<MemoryJournal>,
    requests: UnboundedReceiver<String>,
}

/// Runs a plan of one node that fails.
async fn start(patch: PlannerAnswer<Patch>, replan: PlannerAnswer<Delta>) -> Started {
    let (sender, requests) = unbounded_channel();
    let journal = Arc::new(MemoryJournal::default());
    let planner = Prepared { patch, replan, requests: sender };
    let system = planned_by(journal.clone(), planner).await;
    let plan = json!({"id": "p", "policy": {"max_replans": 1}, "nodes": [node("a", "bad")]});
    let run = submit(&system, plan).await;
    Started { system, run, journal, requests }
}

#[tokio::test]
async fn a_patch_of_the_planner_repairs_a_failed_node() {
    let mut started = start(PlannerAnswer::Now(good()), PlannerAnswer::Refused).await;
    assert_eq!(started.system.outcome(started.run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(value(&started.system, started.run, "a").await, json!({"text": "good"}));
    assert_eq!(started.requests.recv().await.unwrap(), "patch a: invalid_output");
}

#[tokio::test]
async fn a_new_version_of_the_planner_brings_the_missing_output() {
    let mut started = start(PlannerAnswer::Refused, PlannerAnswer::Now(another_node())).await;
    assert_eq!(started.system.outcome(started.run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&started.system, started.run).await, "a failed, b executed");
    assert_eq!(started.requests.recv().await.unwrap(), "patch a: invalid_output");
    assert_eq!(started.requests.recv().await.unwrap(), "replan version 1");
}

#[tokio::test]
async fn answers_may_come_later_and_only_once() {
    let Started { system, run, mut requests, .. } = start(PlannerAnswer::Later, PlannerAnswer::Later).await;
    assert_eq!(requests.recv().await.unwrap(), "patch a: invalid_output");
    assert!(matches!(system.answer_replan(run, 1, None).await, Err(RunError::NotAsked)));
    assert!(matches!(
        system.answer_patch(run, NodeId::from("z"), 1, None).await,
        Err(RunError::UnknownNode(node)) if node.as_str() == "z"
    ));
    let answered_again = system.answer_patch(run, NodeId::from("a"), 2, None).await;
    assert!(matches!(answered_again, Err(RunError::NotAsked)), "no request has the number");
    system.answer_patch(run, NodeId::from("a"), 1, None).await.unwrap();
    assert_eq!(requests.recv().await.unwrap(), "replan version 1");
    assert!(matches!(
        system.answer_patch(run, NodeId::from("a"), 1, Some(good())).await,
        Err(RunError::NotAsked)
    ));
    system.answer_replan(run, 1, Some(another_node())).await.unwrap();
    assert_eq!(system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&system, run).await, "a failed, b executed");
    assert!(matches!(system.answer_replan(run, 1, None).await, Err(RunError::NotAsked)));
}

#[tokio::test]
async fn a_request_that_dies_with_its_process_counts_as_refused() {
    let mut first = start(PlannerAnswer::Later, PlannerAnswer::Refused).await;
    assert_eq!(first.requests.recv().await.unwrap(), "patch a: invalid_output");
    let (sender, mut requests) = unbounded_channel();
    let planner = Prepared {
        patch: PlannerAnswer::Now(good()),
        replan: PlannerAnswer::Now(another_node()),
        requests: sender,
    };
    let left = left_by(&first.journal);
    let second = planned_by(left, planner).await;
    assert!(matches!(
        second.answer_patch(first.run, NodeId::from("a"), 1, None).await,
        Err(RunError::NotAsked)
    ));
    second.resume_all().await.unwrap();
    assert_eq!(second.outcome(first.run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(states(&second, first.run).await, "a failed, b executed");
    assert_eq!(requests.recv().await.unwrap(), "replan version 1");
}
