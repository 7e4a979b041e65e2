//! `ostler simulate lineage`: revisions of a plan with scripted functions, decided by the rules of real runs.

mod case;
mod contract;
mod decide;
mod expand;
mod function;
mod measure;
mod ops;
mod step;
mod world;

use ostler_kernel::id::NodeId;
use ostler_kernel::json::canonical;
use ostler_kernel::lineage::{Decision, hash};
use serde_json::{Map, Value, json};

use crate::graph::{BadCase, CaseError, CaseResult};
use case::{Case, Revision};
use measure::measure;
use world::{Decided, World};

/// Runs one case, a line of a file of lineage cases.
///
/// # Errors
///
/// The line is not a readable case, or an operation makes its plan invalid.
pub fn run_case(line: &str) -> Result<CaseResult, BadCase> {
    let bad = |wrong| BadCase::new(line, wrong);
    let mut case = Case::read(line).map_err(bad)?;
    let mut world = World::new(&mut case).map_err(bad)?;
    let mut revisions = Vec::with_capacity(case.revisions.len());
    for revision in &case.revisions {
        revisions.push(revise(&mut world, revision, case.brief).map_err(bad)?);
    }
    Ok(CaseResult { id: case.id, actual: Value::Array(revisions), expected: case.expect, replay: None })
}

fn revise(world: &mut World, revision: &Revision, brief: bool) -> Result<Value, CaseError> {
    let before = world.decided.clone();
    world.open(&revision.run);
    let mut refused = Vec::new();
    for (at, op) in revision.ops.iter().enumerate() {
        if let Some(code) = world.operate(op)? {
            refused.push(json!([at, code]));
        }
    }
    let order = world.decide_all()?;
    let decided = |id: &NodeId| world.decided.get(id).expect("every step of the plan was decided");
    let full: Map<String, Value> = order.iter().map(|id| (id.to_string(), in_full(decided(id)))).collect();
    let mut executed: Vec<&NodeId> = order.iter().filter(|id| decided(id).executed).collect();
    executed.sort_unstable();
    let mut outcome = json!({"executed": executed});
    if brief {
        let text = canonical(&Value::Object(full)).expect("digests and names are canonical");
        outcome["state"] = json!(hash("aos/test/1", &[text.as_str().as_bytes()]));
        let told = order.iter().filter(|id| !matches!(decided(id).decision, Decision::Reused { .. }));
        outcome["nodes"] = told.map(|id| (id.to_string(), in_brief(decided(id)))).collect();
    } else {
        outcome["nodes"] = Value::Object(full);
    }
    if !refused.is_empty() {
        outcome["refused"] = Value::Array(refused);
    }
    if let Some(asked) = &revision.measure {
        outcome["measure"] = measure(world, &world.steps_in_order()?, &before, asked);
    }
    Ok(outcome)
}

fn in_full(decided: &Decided) -> Value {
    let (identity, published) = (decided.identity.as_ref(), decided.published.as_ref());
    let mut full = json!({
        "sigma": decided.sigma,
        "x": identity.map(|identity| identity.inputs),
        "r": identity.map(|identity| identity.reuse),
        "k": published.map(|published| published.lineage),
        "a": published.map(|published| published.artifact),
        "d": decided.decision.name(),
        "why": decided.decision.to_string(),
        "gen": decided.generation,
    });
    match decided.decision {
        Decision::Pinned { stale, .. } => full["stale"] = json!(stale),
        Decision::Asked => full["stale"] = json!(true),
        _ => {}
    }
    full
}

fn in_brief(decided: &Decided) -> Value {
    let artifact = decided.published.as_ref().map(|published| {
        let mut digits = published.artifact.to_string();
        digits.truncate(12);
        digits
    });
    json!({"a": artifact, "why": decided.decision.to_string()})
}
