//! The gate around real calls: holds for people, budgets over a run, lockdown, and the chain of verdicts.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::sync::{Arc, Mutex};

use common::{config, plan, states, until, verdicts};
use ostler_actors::{Answer, Submission, System, SystemConfig};
use ostler_kernel::event::{GateVerdict, verify_verdicts};
use ostler_kernel::gate::{CallClass, GatePolicy, GateRules, Permit};
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, LockdownStore, Tool, ToolResult, ToolSpec, WorkspaceUse};
use ostler_kernel::run::RunStatus;
use ostler_store::MemoryJournal;
use serde_json::{Map, Value, json};

/// A tool that records the parameters of its calls.
struct Told {
    spec: ToolSpec,
    reads_strangers: bool,
    workspace_use: WorkspaceUse,
    calls: Mutex<Vec<Value>>,
}

impl Told {
    fn new(name: &str, reads_strangers: bool, workspace_use: WorkspaceUse) -> Arc<Told> {
        let text = json!({"type": "string"});
        let params = json!({"type": "object", "properties": {
            "path": {"type": "string", "format": "path"}, "text": text, "amount": {"type": "number"},
        }});
        let (name, description) = (name.to_owned(), "told".to_owned());
        let spec = ToolSpec { name, version: "1".to_owned(), description, params, result: json!({}) };
        Arc::new(Told { spec, reads_strangers, workspace_use, calls: Mutex::default() })
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

impl Tool for Told {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        let (impact, effect) = if self.reads_strangers { (0, Effect::Read) } else { (1, Effect::Write) };
        CallClass { impact, effect, idem: Idempotency::Natural }
    }

    fn reads_strangers(&self) -> bool {
        self.reads_strangers
    }

    fn workspace_use(&self) -> WorkspaceUse {
        self.workspace_use
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        self.calls.lock().unwrap().push(Value::Object(permit.into_params()));
        Box::pin(async { Ok(json!({"name": "a.txt"})) })
    }
}

struct World {
    system: System,
    journal: Arc<MemoryJournal>,
    page: Arc<Told>,
    put: Arc<Told>,
}

impl World {
    async fn new(rules: &str) -> World {
        let rules: GateRules = serde_json::from_str(rules).unwrap();
        let journal = Arc::new(MemoryJournal::default());
        let page = Told::new("page", true, WorkspaceUse::NONE);
        let put = Told::new("put", false, WorkspaceUse::WRITES);
        let get = Told::new("get", false, WorkspaceUse::READS);
        let tools: Vec<Arc<dyn Tool>> = vec![page.clone(), put.clone(), get];
        let usual = config(journal.clone(), tools);
        let gate = GatePolicy { epoch: 1, ..usual.gate.clone() }.with_rules(&rules);
        let system = System::start(SystemConfig { gate, ..usual }).await.unwrap();
        World { system, journal, page, put }
    }

    async fn run(&self, nodes: Value) -> RunId {
        let plan = plan(&self.system, json!({"id": "p", "nodes": nodes}));
        self.system.submit(Submission { intent: 2, ..Submission::plan(plan) }).await.unwrap()
    }

    fn verdicts(&self, run: RunId) -> Vec<GateVerdict> {
        verdicts(&self.journal, run)
    }

    /// Node, answer and code of each verdict.
    fn answers(&self, run: RunId) -> Vec<String> {
        let verdicts = self.verdicts(run);
        assert_eq!(verify_verdicts(&verdicts), Ok(verdicts.len()));
        let told = verdicts.iter().map(|it| format!("{} {} {}", it.node, it.answer.as_str(), it.code));
        told.collect()
    }
}

fn stranger_into_path() -> Value {
    json!([
        {"id": "read", "tool": "page"},
        {"id": "store", "tool": "put", "params": {"text": "x"}, "param_refs": {"path": {"from": "read", "path": "name"}}},
    ])
}

#[tokio::test]
async fn a_sensitive_value_of_a_stranger_waits_for_a_person_who_sees_it() {
    let world = World::new("{}").await;
    let run = world.run(stranger_into_path()).await;
    until(async || world.system.approvals(run).await.unwrap().len() == 1).await;
    assert_eq!((world.page.calls(), world.put.calls()), (1, 0));
    assert_eq!(world.answers(run), ["read allow OK", "store hold TAINT_SENSITIVE_PARAM"]);
    assert_eq!(world.verdicts(run)[1].tainted, ["path"]);
    let asked = world.system.approvals(run).await.unwrap().remove(0);
    world.system.answer(&asked.id, asked.digest.unwrap(), Answer::approve()).await.unwrap();
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(*world.put.calls.lock().unwrap(), [json!({"text": "x", "path": "a.txt"})]);
    assert_eq!(world.answers(run).last().unwrap(), "store allow OK");
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_call_that_is_denied_anyway_is_denied_and_not_held() {
    let world = World::new("{}").await;
    let plan = plan(&world.system, json!({"id": "p", "nodes": stranger_into_path()}));
    let run = world.system.submit(Submission { intent: 0, ..Submission::plan(plan) }).await.unwrap();
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Failed);
    assert_eq!(world.answers(run), ["read allow OK", "store deny IMPACT_OVER_INTENT"]);
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_value_that_is_not_sensitive_and_one_that_the_operator_trusts_pass() {
    let world = World::new(r#"{"trusted": ["page"]}"#).await;
    let run = world.run(stranger_into_path()).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    world.system.shutdown().await;
    let world = World::new("{}").await;
    let nodes = json!([
        {"id": "read", "tool": "page"},
        {"id": "store", "tool": "put", "params": {"path": "b"}, "param_refs": {"text": {"from": "read", "path": "name"}}},
    ]);
    let run = world.run(nodes).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    assert_eq!(world.answers(run), ["read allow OK", "store allow OK"]);
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_value_read_from_a_file_is_a_strangers_once_the_run_has_written_one_there() {
    let into_path = json!({"path": {"from": "load", "path": "name"}});
    let nodes = |text: &Value, refs: &Value| {
        json!([
            {"id": "read", "tool": "page"},
            {"id": "save", "tool": "put", "params": text, "param_refs": refs},
            {"id": "load", "tool": "get", "params": {"path": "a"}, "deps": ["save"]},
            {"id": "store", "tool": "put", "params": {"text": "x"}, "param_refs": into_path},
        ])
    };
    let world = World::new("{}").await;
    let run =
        world.run(nodes(&json!({"path": "a"}), &json!({"text": {"from": "read", "path": "name"}}))).await;
    until(async || world.system.approvals(run).await.unwrap().len() == 1).await;
    assert_eq!(world.answers(run).last().unwrap(), "store hold TAINT_SENSITIVE_PARAM");
    let run = world.run(nodes(&json!({"path": "a", "text": "own words"}), &json!({}))).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_collected_value_is_a_strangers_as_its_list_is() {
    let world = World::new("{}").await;
    let nodes = json!([
        {"id": "read", "tool": "page"},
        {"id": "names", "tool": "json.query", "params": {"query": "$"}, "param_refs": {"value": {"from": "read", "path": "name"}}},
        {"id": "each", "tool": "json.query", "params": {"query": "$"},
         "for_each": {"from": "names", "path": "result", "as": "value", "max": 5}},
        {"id": "store", "tool": "put", "params": {"text": "x"},
         "param_refs": {"path": {"from": "each", "path": "items.0.result.0"}}},
    ]);
    let run = world.run(nodes).await;
    until(async || world.system.approvals(run).await.unwrap().len() == 1).await;
    assert_eq!(world.answers(run).last().unwrap(), "store hold TAINT_SENSITIVE_PARAM");
    assert_eq!(world.put.calls(), 0);
    world.system.shutdown().await;
}

#[tokio::test]
async fn a_budget_adds_up_the_calls_of_a_run_and_of_no_other() {
    let world = World::new(r#"{"budgets": [{"tool": "put", "param": "amount", "max_sum": 10}]}"#).await;
    let pay = |id: &str, after: &[&str], amount: u32| {
        let params = json!({"path": "a", "amount": amount});
        let deps: Vec<Value> = after.iter().map(|dep| json!({"n": dep, "on": "terminal"})).collect();
        json!({"id": id, "tool": "put", "params": params, "deps": deps})
    };
    let nodes = json!([pay("a", &[], 7), pay("b", &["a"], 4), pay("c", &["b"], 3)]);
    for _ in 0..2 {
        let run = world.run(nodes.clone()).await;
        let _ = world.system.outcome(run).await.unwrap();
        assert_eq!(states(&world.system, run).await, "a executed, b failed, c executed");
        assert_eq!(world.answers(run), ["a allow OK", "b deny BUDGET_CUMULATIVE", "c allow OK"]);
    }
    world.system.shutdown().await;
}

#[derive(Default)]
struct Kept(Mutex<bool>);

impl LockdownStore for Kept {
    fn is_on(&self) -> std::io::Result<bool> {
        Ok(*self.0.lock().unwrap())
    }

    fn set(&self, on: bool) -> std::io::Result<()> {
        *self.0.lock().unwrap() = on;
        Ok(())
    }
}

#[tokio::test]
async fn a_lockdown_stops_calls_until_it_is_ended_and_outlives_the_system() {
    let kept = Arc::new(Kept::default());
    let world = World::new("{}").await;
    world.system.keep_lockdown(kept.clone());
    world.system.set_lockdown(true).await.unwrap();
    let nodes = json!([{"id": "store", "tool": "put", "params": {"path": "a"}}]);
    let run = world.run(nodes.clone()).await;
    assert_eq!(world.system.outcome(run).await.unwrap(), RunStatus::Failed);
    assert_eq!((world.answers(run), world.put.calls()), (vec!["store deny LOCKDOWN".to_owned()], 0));
    world.system.shutdown().await;
    let next = World::new("{}").await;
    next.system.keep_lockdown(kept);
    assert!(next.system.is_locked_down());
    next.system.set_lockdown(false).await.unwrap();
    let run = next.run(nodes).await;
    assert_eq!(next.system.outcome(run).await.unwrap(), RunStatus::Succeeded);
    next.system.shutdown().await;
}
