//! Faults of steps. Cycles are looked for in steps without another fault, and the depth in steps without a cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Reference, Step};
use super::fault::{FaultCode, Faults};
use super::role::is_reserved;
use super::schema::WHOLE;
use super::{Role, View, graft};
use crate::id::{NAME_BYTES_MAX, NodeId, is_name};
use crate::plan::{Delta, ForEach, is_path};
use crate::run::NodeState;

/// Steps of one answer.
pub const STEPS_MAX: usize = 32;

/// Checks the steps that `author` writes.
pub(super) fn check(view: View<'_>, author: &NodeId, steps: &[Step], faults: &mut Faults) {
    let own: BTreeSet<&NodeId> = steps.iter().map(|step| &step.id).collect();
    let mut named = BTreeSet::new();
    for step in steps {
        let is_call = view.role(author) == Some(Role::Think);
        let is_free = view.run.node(&step.id).is_none() && named.insert(&step.id);
        let is_free = is_free && !is_of_a_list(view, step, steps) && has_room_for_children(step);
        if !is_free || !is_name(step.id.as_str()) || is_reserved(step.id.as_str()) && !is_call {
            faults.add(FaultCode::F04, step.id.as_str());
        }
        check_params(view, step, faults);
        check_sources(view, step, &own, faults);
    }
    let room = view.run.plan().policy.max_nodes.saturating_sub(view.run.reserve()) as usize;
    if steps.len() > STEPS_MAX || !steps.is_empty() && view.run.plan().nodes.len() + steps.len() > room {
        faults.add(FaultCode::F10, WHOLE);
    }
    if !faults.is_empty() {
        return;
    }
    for step in cyclic(steps) {
        faults.add(FaultCode::F09, step.as_str());
    }
    if faults.is_empty() && !steps.is_empty() && is_too_deep(view, steps, &graft::graft(view, author, steps))
    {
        faults.add(FaultCode::F10, WHOLE);
    }
}

/// True if the id is reserved for a child of a list.
fn is_of_a_list(view: View<'_>, step: &Step, steps: &[Step]) -> bool {
    let Some((name, number)) = step.id.as_str().rsplit_once('.') else { return false };
    let is_plain =
        number == "0" || !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = number.parse::<u64>().ok().filter(|_| is_plain) else { return false };
    let own = steps.iter().filter(|other| other.id.as_str() == name);
    let max = own.filter_map(|other| Some(other.for_each.as_ref()?.max)).max();
    let known = || view.run.node(&name.into())?.list_max();
    max.or_else(known).is_some_and(|max| number < max)
}

fn has_room_for_children(step: &Step) -> bool {
    let longest = step.for_each.as_ref().map(|list| ForEach::child(&step.id, list.max.saturating_sub(1)));
    longest.is_none_or(|child| child.as_str().len() <= NAME_BYTES_MAX)
}

fn check_params(view: View<'_>, step: &Step, faults: &mut Faults) {
    let terms = view.goal.tools.terms(&step.tool);
    if terms.is_none() {
        faults.add_with(FaultCode::F05, step.id.as_str(), format!("{:?}", step.tool));
    }
    let known = terms.and_then(|terms| terms.params.as_ref());
    for name in wrong_params(step, known) {
        faults.add(FaultCode::F06, format!("{}.{name}", step.id));
    }
    for (name, _) in step.paths().filter(|(_, path)| !is_path(path)) {
        faults.add(FaultCode::F11, format!("{}.{name}", step.id));
    }
}

fn wrong_params<'s>(step: &'s Step, known: Option<&'s BTreeMap<String, bool>>) -> BTreeSet<&'s str> {
    let mut literal: Vec<&str> =
        step.params.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str()).collect();
    literal.extend(step.for_each.iter().map(|list| list.parameter.as_str()));
    wrong_names(&literal, &step.refs, known)
}

/// Parameters that are unknown, required and absent, or given twice. `known` tells for each parameter of the tool whether it is
/// required; `None` allows any.
pub(super) fn wrong_names<'s>(
    literal: &[&'s str],
    refs: &'s [Reference],
    known: Option<&'s BTreeMap<String, bool>>,
) -> BTreeSet<&'s str> {
    let mut given: BTreeSet<&str> = BTreeSet::new();
    let names = literal.iter().copied().chain(refs.iter().map(|reference| reference.param.as_str()));
    let mut wrong: BTreeSet<&str> = names.filter(|name| !given.insert(name)).collect();
    if let Some(known) = known {
        wrong.extend(given.iter().filter(|name| !known.contains_key(**name)));
        let required = known.iter().filter(|(_, required)| **required).map(|(name, _)| name.as_str());
        wrong.extend(required.filter(|name| !given.contains(name)));
    }
    wrong
}

fn check_sources(view: View<'_>, step: &Step, own: &BTreeSet<&NodeId>, faults: &mut Faults) {
    for source in step.sources() {
        let state = view.state(source).filter(|_| view.is_work(source));
        let code = match state {
            _ if *source == step.id => Some(FaultCode::F07),
            _ if own.contains(source) => None,
            None => Some(FaultCode::F07),
            Some(state) if state.is_terminal() && state != NodeState::Executed => Some(FaultCode::F08),
            Some(_) => None,
        };
        if let Some(code) = code {
            faults.add(code, format!("{}:{source}", step.id));
        }
    }
}

/// Every step on a cycle, not those behind one.
fn cyclic(steps: &[Step]) -> Vec<&NodeId> {
    let sources: BTreeMap<&NodeId, BTreeSet<&NodeId>> =
        steps.iter().map(|step| (&step.id, step.sources().collect())).collect();
    let reaches_itself = |start: &NodeId| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(step) = open.pop() {
            for source in sources.get(step).into_iter().flatten().filter(|source| seen.insert(**source)) {
                open.push(source);
            }
        }
        seen.contains(start)
    };
    steps.iter().map(|step| &step.id).filter(|id| reaches_itself(id)).collect()
}

/// True if a path of the merged graph has more nodes than the plan allows.
fn is_too_deep(view: View<'_>, steps: &[Step], delta: &Delta) -> bool {
    let mut sources: BTreeMap<&NodeId, BTreeSet<&NodeId>> =
        view.nodes().map(|(node, _)| (&node.id, node.deps.iter().map(|dep| &dep.n).collect())).collect();
    for node in &delta.add {
        let deps = node.deps.iter().flatten().map(|dep| &dep.0.n);
        let refs = node.param_refs.iter().flatten().map(|(_, reference)| &reference.from);
        let step = steps.iter().find(|step| step.id == node.id);
        let conditions = step.into_iter().flat_map(Step::sources);
        sources.insert(&node.id, deps.chain(refs).chain(conditions).collect());
    }
    // Without a cycle, the depths are final after as many rounds as the longest path has nodes.
    let most = view.run.plan().policy.max_depth.saturating_sub(view.run.reserve()) as usize;
    let mut depth: BTreeMap<&NodeId, usize> = sources.keys().map(|id| (*id, 1)).collect();
    for _ in 0..=most {
        let mut has_grown = false;
        for (id, sources) in &sources {
            let behind =
                sources.iter().filter_map(|source| depth.get(source)).max().map_or(1, |most| most + 1);
            has_grown |= depth.insert(*id, behind) != Some(behind);
        }
        if !has_grown {
            return depth.values().any(|depth| *depth > most);
        }
    }
    true
}
