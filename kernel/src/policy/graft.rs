//! From steps to nodes: the change of the plan that a planner or a turn asks for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::answer::{Reference, Step, literals};
use super::room::Room;
use super::taint::Proposal;
use super::{Mode, Reach, View, orchestrator, react, reflect, sgh};
use crate::id::NodeId;
use crate::plan::{Approval, Delta, Dep, DepDraft, Impact, Kind, Method, NodeDraft, On, ParamRef, RuleDraft};

/// The graft of an answer's steps: the steps, and the control nodes that the mode adds for them. Steps are taken in ascending
/// order of ids, so the same steps always give the same nodes.
pub(super) fn graft(view: View<'_>, author: &NodeId, steps: &[Step]) -> Delta {
    let mut steps: Vec<&Step> = steps.iter().collect();
    steps.sort_by(|a, b| a.id.cmp(&b.id));
    let own: BTreeSet<&NodeId> = steps.iter().map(|step| &step.id).collect();
    let mut delta =
        Delta { add: steps.iter().map(|step| node(view, author, step, &own)).collect(), ..Delta::default() };
    let mut room = Room::new(view, steps.len());
    match view.goal.terms.mode {
        Mode::Reflect | Mode::Auto => reflect::gate(view, &steps, &mut room, &mut delta),
        Mode::NReflect(_) => {}
        Mode::Orchestrator => orchestrator::observe(view, &steps, &mut room, &mut delta),
        Mode::React => react::next_turn(view, &steps, &mut room, &mut delta),
        Mode::Sgh => sgh::rewrite(view, author, &steps, &mut delta),
    }
    delta
}

/// The tool node of a step. The tool's terms give everything that the step does not say.
fn node(view: View<'_>, author: &NodeId, step: &Step, own: &BTreeSet<&NodeId>) -> NodeDraft {
    let (literal, refs) = (literals(&step.params), references(&step.refs));
    // The element of a list counts as a reference to the list: nothing is known of it before.
    let element = step.for_each.iter().map(|list| {
        let reference = ParamRef { from: list.from.clone(), path: list.path.clone(), template: None };
        (list.parameter.clone(), reference)
    });
    let given_later: BTreeMap<String, ParamRef> = refs.clone().into_iter().chain(element).collect();
    let Reach { effect, impact } = view.goal.tools.reach(&step.tool, &literal, &given_later);
    let kept = Map::new();
    let proposal = Proposal { tool: &step.tool, impact, literal: &literal, refs: &given_later, kept: &kept };
    let asks = view.is_author_tainted(author) && view.is_wider(&proposal, &|source| own.contains(source));
    let mut named = BTreeSet::new();
    let after = step.after.iter().filter(|source| named.insert(*source));
    let on_success = |source: &NodeId| DepDraft(Dep { n: source.clone(), on: On::Success });
    let terms = view.goal.tools.terms(&step.tool);
    let given = terms.and_then(|terms| terms.step.as_ref());
    NodeDraft {
        kind: Some(Kind::Tool),
        tool: Some(step.tool.clone()),
        deps: Some(after.map(on_success).collect()),
        params: Some(literal),
        param_refs: Some(refs),
        when: (!step.when.is_empty()).then(|| json!(step.when)),
        for_each: step.for_each.as_ref().map(|list| json!(list)),
        contract: given.map(|given| contract(given.result_schema.clone())),
        effect: Some(effect),
        impact: Impact::new(impact),
        idem: given.map(|given| given.idem),
        timeout: given.map(|given| given.timeout),
        retries: given.map(|given| given.retries),
        patches: terms.map(|terms| terms.patches),
        approval: asks.then_some(Approval::Before),
        human_timeout: asks.then_some(view.goal.terms.human_timeout),
        ..NodeDraft::named(step.id.clone())
    }
}

/// The contract of a tool's result: its schema.
pub(super) fn contract(schema: Option<std::sync::Arc<Value>>) -> Vec<RuleDraft> {
    vec![RuleDraft { method: Some(Method::Schema), p: None, spec: schema }]
}

pub(super) fn references(refs: &[Reference]) -> BTreeMap<String, ParamRef> {
    let reference = |reference: &Reference| {
        let Reference { param, from, path, template } = reference.clone();
        (param, ParamRef { from, path: Some(path), template })
    };
    refs.iter().map(reference).collect()
}

/// Sources of a step among the steps of the same answer.
pub(super) fn own_sources<'s>(
    step: &'s Step,
    steps: &'s [&'s Step],
) -> impl Iterator<Item = &'s NodeId> + 's {
    step.sources().filter(|source| steps.iter().any(|other| other.id == **source))
}

/// Adds a terminal edge on `source` to a node of the graft.
pub(super) fn wait_for(delta: &mut Delta, node: &NodeId, source: &NodeId) {
    if let Some(node) = delta.add.iter_mut().find(|added| added.id == *node) {
        let edge = DepDraft(Dep { n: source.clone(), on: On::Terminal });
        node.deps.get_or_insert_default().push(edge);
    }
}
