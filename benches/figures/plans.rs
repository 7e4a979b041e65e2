//! Measured plans and the systems that run them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::kernel::plan::{Plan, PlanDraft};
use ostler::{Ostler, Submission};
use serde_json::{Value, json};

/// Slots: more than the width of any plan, except the long ones.
pub(crate) const SLOTS: u32 = 256;

/// A folder on the disk of the build; the temporary folder may be in memory.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A system in memory.
pub(crate) async fn in_memory() -> Ostler {
    Ostler::builder().memory().slots(SLOTS).start().await.unwrap()
}

/// A system in a folder.
pub(crate) async fn in_folder(data: &Path) -> Ostler {
    Ostler::builder().data_dir(data).slots(SLOTS).start().await.unwrap()
}

/// A validated plan.
pub(crate) fn plan(os: &Ostler, source: Value) -> Arc<Plan> {
    let draft: PlanDraft = serde_json::from_value(source).unwrap();
    Arc::new(os.plan(draft).unwrap())
}

/// Time from submission to the known outcome.
pub(crate) async fn run(os: &Ostler, plan: Arc<Plan>) -> Duration {
    let begun = Instant::now();
    let run = os.submit(Submission::plan(plan)).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let took = begun.elapsed();
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(outcome.status.is_over());
    took
}

/// A node that renders a constant.
fn constant(id: String, deps: &[String]) -> Value {
    let params = json!({"template": "constant", "values": {}});
    let mut node = json!({"id": id, "tool": "text.render", "params": params});
    if !deps.is_empty() {
        node["deps"] = json!(deps);
    }
    node
}

fn name(at: usize) -> String {
    format!("n{at:05}")
}

/// `nodes` sequential nodes.
pub(crate) fn chain(nodes: usize) -> Value {
    let before = |at: usize| at.checked_sub(1).map(name);
    let nodes: Vec<Value> = (0..nodes).map(|at| constant(name(at), before(at).as_slice())).collect();
    json!({"id": "chain", "nodes": nodes})
}

/// One node, `width` parallel nodes, and one behind all of them.
pub(crate) fn fan(width: usize) -> Value {
    let middle: Vec<String> = (1..=width).map(name).collect();
    let mut nodes = vec![constant(name(0), &[])];
    nodes.extend(middle.iter().map(|id| constant(id.clone(), &[name(0)])));
    nodes.push(constant(name(width + 1), &middle));
    json!({"id": "fan", "policy": {"slots": SLOTS}, "nodes": nodes})
}

/// A chain in which each result of `bytes` bytes is the template of the next node.
pub(crate) fn carrying(nodes: usize, bytes: usize) -> Value {
    let node = |at: usize| {
        let mut node = json!({"id": name(at), "tool": "text.render", "params": {"values": {}}});
        match at.checked_sub(1) {
            None => node["params"]["template"] = json!("x".repeat(bytes)),
            Some(before) => node["param_refs"] = json!({"template": {"from": name(before), "path": "text"}}),
        }
        node
    };
    json!({"id": "carrying", "nodes": (0..nodes).map(node).collect::<Vec<_>>()})
}

/// Nodes that each depend on up to `degree` nodes before them.
pub(crate) fn dense(nodes: usize, degree: usize) -> Value {
    let before = |at: usize| (at.saturating_sub(degree)..at).map(name).collect::<Vec<_>>();
    let nodes: Vec<Value> = (0..nodes).map(|at| constant(name(at), &before(at))).collect();
    json!({"id": "dense", "nodes": nodes})
}

/// Ten nodes behind an approval.
pub(crate) fn waiting() -> Value {
    let mut plan = chain(10);
    plan["nodes"][0]["approval"] = json!("before");
    plan["nodes"][0]["human_timeout"] = json!("1h");
    plan
}
