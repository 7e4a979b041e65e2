//! Every child of the tree is killed while a run is under way; nothing is lost and nothing is done twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_kernel::gate::{CallClass, GatePolicy, Permit, Scope};
use ostler_kernel::plan::{Effect, Idempotency, PlanDraft};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use ostler_kernel::run::RunOutcome;
use ostler_store::{MemoryArtifacts, MemoryJournal};
use serde_json::{Map, Value, json};

use crate::services::lock;
use crate::{Settled, Submission, System, SystemConfig};

/// Counts its calls by name, and takes a while for each.
struct Count {
    spec: ToolSpec,
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Tool for Count {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        CallClass { impact: 1, effect: Effect::External, idem: Idempotency::None }
    }

    fn call(&self, permit: Permit, _: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let name = permit.params()["name"].as_str().unwrap_or_default().to_owned();
            *lock(&self.calls).entry(name).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(json!({}))
        })
    }
}

async fn counting(calls: &Arc<Mutex<BTreeMap<String, u32>>>) -> System {
    let params = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let (name, version, description) = ("count".to_owned(), "1".to_owned(), "counts".to_owned());
    let spec = ToolSpec { name, version, description, params, result: json!({"type": "object"}) };
    let tools = BTreeMap::from([("count".to_owned(), None)]);
    let config = SystemConfig {
        journal: Arc::new(MemoryJournal::default()),
        artifacts: Arc::new(MemoryArtifacts::default()),
        tools: vec![Arc::new(Count { spec, calls: Arc::clone(calls) })],
        gate: GatePolicy {
            scopes: [("default".to_owned(), Scope { tools })].into(),
            ceiling: 2,
            ..GatePolicy::default()
        },
        slots: 8,
        run_slots: 4,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
    };
    System::start(config).await.unwrap()
}

/// Kills the child of this name; whether it was there.
fn kill(system: &System, child: &str) -> bool {
    let links = &system.services.links;
    match child {
        "registry" => links.registry().map(|actor| actor.get_cell().kill()).is_some(),
        "scheduler" => links.scheduler().map(|actor| actor.get_cell().kill()).is_some(),
        agent => match links.pool().and_then(|(pool, _)| pool.child_ref(agent)) {
            Some(ostler_supervisor::ChildRef::Actor(cell)) => {
                cell.kill();
                true
            }
            _ => false,
        },
    }
}

async fn check_killing(child: Option<&str>, times: u32) {
    let calls = Arc::new(Mutex::new(BTreeMap::new()));
    let system = counting(&calls).await;
    let nodes: Vec<Value> = (0..60)
        .map(|at| {
            let deps: Vec<String> = (at >= 3).then(|| format!("n{}", at - 3)).into_iter().collect();
            json!({"id": format!("n{at}"), "deps": deps, "tool": "count", "params": {"name": format!("n{at}")}})
        })
        .collect();
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
    let plan = draft.validate(&system.settings()).unwrap();
    let run = system.submit(Submission::plan(plan)).await.unwrap();
    let agent = run.to_string();
    let mut cursor = system.events(run, ostler_kernel::port::Seq(0)).unwrap();
    let mut killed = 0;
    let mut seen = 0;
    while let Some(record) = cursor.next().await {
        record.unwrap();
        seen += 1;
        if killed < times && seen % 12 == 0 && kill(&system, child.unwrap_or(&agent)) {
            killed += 1;
        }
    }
    assert_eq!(killed, times, "the run was over before all kills");
    assert_eq!(system.outcome(run).await.unwrap(), Settled::Closed(RunOutcome::Succeeded));
    let calls = lock(&calls).clone();
    assert_eq!(calls.len(), 60);
    assert!(calls.values().all(|&calls| calls == 1), "{calls:?}");
    system.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_agent_repeats_nothing() {
    check_killing(None, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_scheduler_repeats_nothing() {
    check_killing(Some("scheduler"), 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_registry_repeats_nothing() {
    check_killing(Some("registry"), 6).await;
}
