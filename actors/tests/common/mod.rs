//! A system in memory, with the built-in tools, and plans as text.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "test support: each file uses its own part, and fails loudly"
)]

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::{Submission, System, SystemConfig};
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::gate::{GatePolicy, Scope};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::{Plan, PlanDraft};
use ostler_kernel::port::{Journal, Tool};
use ostler_store::{MemoryArtifacts, MemoryJournal};
use serde_json::Value;

/// A system over `journal` with the built-in tools and `more`.
pub(crate) async fn system(journal: Arc<dyn Journal>, more: Vec<Arc<dyn Tool>>) -> System {
    let mut tools = builtin(&ToolConfig::default());
    tools.extend(more);
    let granted = tools.iter().map(|tool| (tool.spec().name.clone(), None)).collect();
    let gate = GatePolicy {
        scopes: [("default".to_owned(), Scope { tools: granted })].into(),
        ceiling: 2,
        ..GatePolicy::default()
    };
    let config = SystemConfig {
        journal,
        artifacts: Arc::new(MemoryArtifacts::default()),
        tools,
        gate,
        slots: 64,
        run_slots: 4,
        drain: Duration::from_secs(5),
        clients: Vec::new(),
    };
    System::start(config).await.unwrap()
}

pub(crate) async fn memory() -> System {
    system(Arc::new(MemoryJournal::default()), Vec::new()).await
}

pub(crate) fn plan(system: &System, plan: Value) -> Plan {
    let draft: PlanDraft = serde_json::from_value(plan).unwrap();
    draft.validate(&system.settings()).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

pub(crate) async fn submit(system: &System, source: Value) -> RunId {
    let plan = plan(system, source);
    system.submit(Submission { intent: 2, ..Submission::plan(plan) }).await.unwrap()
}

pub(crate) async fn states(system: &System, run: RunId) -> String {
    let view = system.view(run, None).await.unwrap();
    let rows = view.run.instances().map(|(node, instance)| format!("{} {}", node.id, instance.state()));
    rows.collect::<Vec<_>>().join(", ")
}

pub(crate) async fn value(system: &System, run: RunId, node: &str) -> Value {
    let artifact = system.artifact(run, &NodeId::from(node)).await.unwrap();
    serde_json::from_slice(&artifact.content).unwrap()
}
