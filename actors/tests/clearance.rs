//! Calls with clearance by an outside authority, and the verdicts on calls within attempts.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{config, plan, until, verdicts};
use ostler_actors::{Submission, System, SystemConfig};
use ostler_kernel::event::verify_verdicts;
use ostler_kernel::gate::{CallClass, DenialCode, GatePolicy, GateRules, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{
    BoxFuture, CallContext, ClearanceAuthority, PolicySource, Tool, ToolResult, ToolSpec,
};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// A tool that counts its calls.
struct Put {
    spec: ToolSpec,
    calls: AtomicUsize,
}

impl Put {
    fn new(name: &str) -> Arc<Put> {
        let params = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        let (name, description) = (name.to_owned(), String::new());
        let spec = ToolSpec { name, version: "1".to_owned(), description, params, result: json!({}) };
        Arc::new(Put { spec, calls: AtomicUsize::new(0) })
    }
}

impl Tool for Put {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        let (impact, effect) = if self.spec.name == "page" { (0, Effect::Read) } else { (1, Effect::Write) };
        CallClass { impact, effect, idem: Idempotency::Natural }
    }

    fn reads_strangers(&self) -> bool {
        self.spec.name == "page"
    }

    fn sensitive(&self) -> Vec<String> {
        vec!["to".to_owned()]
    }

    fn call(&self, _: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(json!({"name": "eve"})) })
    }
}

/// An authority with a fixed answer; with `holds`, the answer waits for a notification.
struct Authority {
    says: Result<(), DenialCode>,
    asked: Mutex<Vec<Value>>,
    holds: Option<Notify>,
}

impl Authority {
    fn new(says: Result<(), DenialCode>, holds: bool) -> Arc<Authority> {
        Arc::new(Authority { says, asked: Mutex::default(), holds: holds.then(Notify::new) })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

struct Shared(Arc<Authority>);

impl ClearanceAuthority for Shared {
    fn ask(&self, request: Value, _: u64) -> BoxFuture<'_, Result<(), DenialCode>> {
        self.0.asked.lock().unwrap().push(request);
        Box::pin(async {
            if let Some(holds) = &self.0.holds {
                holds.notified().await;
            }
            self.0.says
        })
    }
}

/// A source that returns the same policy again.
struct Same(GatePolicy);

impl PolicySource for Same {
    fn read(&self) -> Result<GatePolicy, String> {
        Ok(self.0.clone())
    }
}

struct World {
    system: System,
    journal: Arc<MemoryJournal>,
    put: Arc<Put>,
    authority: Arc<Authority>,
}

impl World {
    async fn new(rules: Value, authority: Arc<Authority>) -> World {
        let rules: GateRules = serde_json::from_value(rules).unwrap();
        let (journal, put) = (Arc::new(MemoryJournal::default()), Put::new("put"));
        let usual = config(journal.clone(), vec![put.clone(), Put::new("page")]);
        let gate = GatePolicy { epoch: 1, ..usual.gate.clone() }.with_rules(&rules);
        let same = Arc::new(Same(gate.clone()));
        let system = System::start(SystemConfig { gate, ..usual }).await.unwrap();
        system.clear_with(Arc::new(Shared(authority.clone())));
        system.read_policy_from(same);
        World { system, journal, put, authority }
    }

    async fn run(&self, nodes: Value) -> RunId {
        let plan = plan(&self.system, json!({"id": "p", "nodes": nodes}));
        self.system.submit(Submission { intent: 2, ..Submission::plan(plan) }).await.unwrap()
    }

    async fn put_once(&self) -> RunId {
        self.run(json!([{"id": "store", "tool": "put", "params": {"to": "bob"}}])).await
    }

    fn puts(&self) -> usize {
        self.put.calls.load(Ordering::SeqCst)
    }

    /// Node, tool, answer and code of each verdict.
    fn answers(&self, run: RunId) -> Vec<String> {
        let verdicts = verdicts(&self.journal, run);
        assert_eq!(verify_verdicts(&verdicts), Ok(verdicts.len()));
        let told =
            verdicts.iter().map(|it| format!("{} {} {} {}", it.node, it.tool, it.answer.as_str(), it.code));
        told.collect()
    }

    async fn ends(&self, run: RunId) -> RunStatus {
        self.system.outcome(run).await.unwrap().status
    }
}

fn on_put(cache_ttl_ms: u64) -> Value {
    json!({"clearance_routes": [{"tool": "put", "deadline_ms": 1_000, "cache_ttl_ms": cache_ttl_ms}]})
}

#[tokio::test]
async fn a_call_on_a_route_runs_after_a_yes_and_only_then() {
    let world = World::new(on_put(0), Authority::new(Ok(()), false)).await;
    let run = world.put_once().await;
    assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    assert_eq!((world.authority.asked(), world.puts()), (1, 1));
    let asked = world.authority.asked.lock().unwrap()[0].clone();
    assert_eq!((&asked["tool"], &asked["params"]), (&json!("put"), &json!({"to": "bob"})));
    assert_eq!((&asked["tenant"], asked.get("tainted")), (&json!("local"), None));
    assert_eq!(world.answers(run), ["store put allow OK"]);
    world.system.shutdown().await;
    for code in [DenialCode::ClearanceDenied, DenialCode::ClearanceTimeout] {
        let world = World::new(on_put(60_000), Authority::new(Err(code), false)).await;
        let run = world.put_once().await;
        assert_eq!(world.ends(run).await, RunStatus::Failed);
        assert_eq!((world.answers(run), world.puts()), (vec![format!("store put deny {code}")], 0));
        world.system.shutdown().await;
    }
}

#[tokio::test]
async fn a_yes_counts_again_for_the_same_call_as_long_as_the_route_says() {
    let world = World::new(on_put(60_000), Authority::new(Ok(()), false)).await;
    for _ in 0..2 {
        let run = world.put_once().await;
        assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    }
    assert_eq!(world.authority.asked(), 2, "another run has another agent, so it is another user");
    let twice = json!([
        {"id": "a", "tool": "put", "params": {"to": "bob"}},
        {"id": "b", "tool": "put", "params": {"to": "bob"}, "deps": ["a"]},
        {"id": "c", "tool": "put", "params": {"to": "eve"}, "deps": ["b"]},
    ]);
    let run = world.run(twice).await;
    assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    assert_eq!((world.authority.asked(), world.puts()), (4, 5));
    world.system.shutdown().await;
}

#[tokio::test]
async fn on_a_route_the_authority_clears_values_of_strangers_instead_of_a_person() {
    let rules = json!({"clearance_routes": [{"tool": "*", "deadline_ms": 1_000, "only_tainted": true}]});
    let world = World::new(rules, Authority::new(Ok(()), false)).await;
    let nodes = json!([
        {"id": "read", "tool": "page"},
        {"id": "store", "tool": "put", "param_refs": {"to": {"from": "read", "path": "name"}}},
    ]);
    let run = world.run(nodes).await;
    assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    assert_eq!((world.authority.asked(), world.puts()), (1, 1));
    let tainted = world.authority.asked.lock().unwrap()[0]["tainted"].clone();
    assert_eq!(tainted, json!(["to"]));
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_run_is_cancelled_while_the_authority_thinks_and_its_slot_is_free_again() {
    let world = World::new(on_put(0), Authority::new(Ok(()), true)).await;
    let run = world.put_once().await;
    until(async || world.authority.asked() == 1).await;
    world.system.cancel(run).await.unwrap();
    assert_eq!(world.ends(run).await, RunStatus::Cancelled);
    assert_eq!((world.answers(run), world.puts()), (Vec::<String>::new(), 0));
    let nodes = json!([{"id": "free", "tool": "page"}]);
    let run = world.run(nodes).await;
    assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    world.system.shutdown().await;
}

#[tokio::test]
async fn an_answer_under_another_policy_is_asked_for_again() {
    let world = World::new(on_put(0), Authority::new(Ok(()), true)).await;
    let run = world.put_once().await;
    until(async || world.authority.asked() == 1).await;
    world.system.reload_policy().await.unwrap();
    world.authority.holds.as_ref().unwrap().notify_one();
    until(async || world.authority.asked() == 2).await;
    assert_eq!(world.puts(), 0);
    world.authority.holds.as_ref().unwrap().notify_one();
    assert_eq!(world.ends(run).await, RunStatus::Succeeded);
    assert_eq!((world.answers(run), world.puts()), (vec!["store put allow OK".to_owned()], 1));
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_lockdown_while_the_authority_thinks_stops_the_call() {
    let world = World::new(on_put(0), Authority::new(Ok(()), true)).await;
    let run = world.put_once().await;
    until(async || world.authority.asked() == 1).await;
    world.system.set_lockdown(true).await.unwrap();
    world.authority.holds.as_ref().unwrap().notify_one();
    assert_eq!(world.ends(run).await, RunStatus::Failed);
    assert_eq!((world.answers(run), world.puts()), (vec!["store put deny LOCKDOWN".to_owned()], 0));
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_test_of_a_contract_leaves_its_own_verdict() {
    let world = World::new(json!({}), Authority::new(Ok(()), false)).await;
    let contract = json!([{"method": "test", "spec": {"argv": ["true"]}}]);
    let nodes = json!([{"id": "read", "tool": "page", "contract": contract, "retries": 0}]);
    let run = world.run(nodes).await;
    let _ = world.ends(run).await;
    let answers = world.answers(run);
    assert_eq!(answers[0], "read page allow OK");
    assert!(answers[1].starts_with("read shell.run "), "{answers:?}");
    assert_eq!(answers.len(), 2);
    world.system.shutdown().await;
}
