//! The measures of the Execution Lineage paper: a revision against the one before.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::id::NodeId;
use ostler_kernel::lineage;
use ostler_kernel::template::{fill, project};
use serde_json::{Value, json};

use super::case::Measure;
use super::step::Step;
use super::world::{Decided, Published, World};

/// Decisions by step.
pub(super) type Decisions = BTreeMap<NodeId, Decided>;

/// Compares the decisions of `world` with the preceding decisions.
pub(super) fn measure(world: &World, steps: &[Step], before: &Decisions, asked: &Measure) -> Value {
    let reach = Reach::new(steps, &asked.changed);
    let now = &world.decided;
    let equal = |id: &&NodeId| artifact(before, id) == artifact(now, id);
    let executed = |id: &&NodeId| now.get(*id).is_some_and(|decided| decided.executed);
    let moved = |id: &&NodeId| executed(id) || !equal(id);
    let all: Vec<&NodeId> = steps.iter().map(|step| &step.id).collect();
    let stable: Vec<&NodeId> = pick(&all, |id| !reach.changed.contains(id) && !reach.below.contains(id));
    let below: Vec<&NodeId> = pick(&all, |id| reach.below.contains(id));
    let above: Vec<&NodeId> = pick(&all, |id| reach.above.contains(id));
    let apart: Vec<&NodeId> = pick(&stable, |id| !reach.above.contains(id));

    let last = |of: &Decisions| {
        let decided = of.get(asked.last.as_ref()?)?;
        decided.published.clone()
    };
    let (old, new) = (last(before), last(now));
    let pair = old.as_ref().zip(new.as_ref());
    let text = new.as_ref().map(text_of).unwrap_or_default();
    let whole = u64::from;
    json!({
        "final_output_exact_match": whole(pair.is_some_and(|(old, new)| old.content.bytes == new.content.bytes)),
        "final_output_hash_preserved": whole(pair.is_some_and(|(old, new)| old.artifact == new.artifact)),
        "stable_artifact_hash_preservation": share(&stable, equal, 1),
        "unnecessary_churn_rate": share(&stable, executed, 0),
        "unrelated_branch_contamination_rate": whole(asked.foreign.iter().any(|part| text.contains(part.as_str()))),
        "downstream_propagation_recall": share(&below, |id| !equal(id), 1),
        "upstream_churn_rate": share(&above, moved, 0),
        "unaffected_artifact_preservation": share(&apart, equal, 1),
        "cross_artifact_consistency_score": consistency(world, steps),
        "final_memo_constraint_reflection": whole(asked.constraint.iter().all(|part| text.contains(part.as_str()))),
        "model_calls_for_final": model_calls(world, steps, asked.last.as_ref()),
    })
}

fn pick<'a>(from: &[&'a NodeId], keep: impl Fn(&NodeId) -> bool) -> Vec<&'a NodeId> {
    from.iter().copied().filter(|id| keep(id)).collect()
}

fn artifact<'a>(of: &'a Decisions, id: &NodeId) -> Option<&'a ostler_kernel::id::Digest> {
    of.get(id)?.published.as_ref().map(|published| &published.artifact)
}

/// The string itself, or canonical JSON.
fn text_of(published: &Published) -> String {
    published.content.value.as_str().unwrap_or(&published.content.bytes).to_owned()
}

/// Share of the steps that satisfy `has`; `of_nothing` without steps.
fn share<T>(of: &[T], has: impl Fn(&T) -> bool, of_nothing: u64) -> Value {
    ratio(of.iter().filter(|item| has(item)).count(), of.len(), of_nothing)
}

/// A whole number where the share is one.
fn ratio(part: usize, whole: usize, of_nothing: u64) -> Value {
    match (part, whole) {
        (_, 0) => json!(of_nothing),
        (0, _) => json!(0),
        (part, whole) if part == whole => json!(1),
        (part, whole) => json!(part as f64 / whole as f64),
    }
}

/// Steps above, below and among the changed ones.
struct Reach {
    changed: BTreeSet<NodeId>,
    below: BTreeSet<NodeId>,
    above: BTreeSet<NodeId>,
}

impl Reach {
    fn new(steps: &[Step], changed: &[NodeId]) -> Reach {
        let changed: BTreeSet<NodeId> = changed.iter().cloned().collect();
        let mut below = BTreeSet::new();
        for step in steps {
            if step.above().into_iter().any(|id| changed.contains(id) || below.contains(id)) {
                below.insert(step.id.clone());
            }
        }
        let above = ancestors(steps, |id| changed.contains(id));
        Reach { changed, below, above }
    }
}

/// Every step above one of `of`. `steps` are in the order of their levels.
fn ancestors(steps: &[Step], of: impl Fn(&NodeId) -> bool) -> BTreeSet<NodeId> {
    let mut above: BTreeSet<NodeId> = BTreeSet::new();
    for step in steps.iter().rev() {
        if of(&step.id) || above.contains(&step.id) {
            above.extend(step.above().into_iter().cloned());
        }
    }
    above
}

fn model_calls(world: &World, steps: &[Step], last: Option<&NodeId>) -> u64 {
    let above = ancestors(steps, |id| Some(id) == last);
    let counted = |step: &&Step| {
        step.kind() == "model"
            && (Some(&step.id) == last || above.contains(&step.id))
            && world.decided.get(&step.id).is_some_and(|decided| decided.executed)
    };
    steps.iter().filter(counted).count() as u64
}

/// Share of references whose step was made from the current value of the reference.
fn consistency(world: &World, steps: &[Step]) -> Value {
    let (mut consistent, mut all) = (0, 0);
    for step in steps {
        let Some(published) = world.decided.get(&step.id).and_then(|decided| decided.published.as_ref())
        else {
            continue;
        };
        for (name, reference) in &step.refs {
            all += 1;
            let current = || {
                let source = world.decided.get(&reference.from)?.published.as_ref()?;
                let found = project(&source.content.value, reference.path.as_deref().unwrap_or_default())?;
                let value = match &reference.template {
                    Some(template) => Value::String(fill(template, found, usize::MAX).ok()?),
                    None => found.clone(),
                };
                Some(lineage::value(&ostler_kernel::json::canonical(&value).ok()?))
            };
            let recorded = published.received.get(name).copied();
            consistent += usize::from(recorded.is_some() && recorded == current());
        }
    }
    ratio(consistent, all, 1)
}
