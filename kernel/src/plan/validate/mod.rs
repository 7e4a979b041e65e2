//! Rules of plans. Validation reports every broken rule; any diagnostic rejects the whole plan.

mod addresses;
mod bounds;
mod contracts;
mod cycles;
mod edges;
mod executors;
mod extensions;
mod fallbacks;
mod joins;
mod params;
mod paths;
#[cfg(test)]
mod properties;
mod reach;
mod references;
mod speculation;
mod sub_agent;
#[cfg(test)]
mod tests;

pub(in crate::plan) use bounds::too_large;
pub use bounds::{PLAN_EDGES_MAX, TIMEOUT_MS_MAX};
pub(crate) use references::is_path;

use std::collections::BTreeSet;

use super::diagnostic::{Diagnostic, sort_and_limit};
use super::node_index::NodeIndex;
use super::pointer::{Origin, Pointer};
use super::suggest::Suggestions;
use super::unreachable_path::ResultSchemas;
use super::{On, PackedLists, Plan, Settings, Tools, UncheckedPlan};

/// Returns the plan, nodes ascending by id.
///
/// # Errors
///
/// Every diagnostic, sorted by code and node.
pub fn validate(unchecked: UncheckedPlan, settings: &Settings<'_>) -> Result<Plan, Vec<Diagnostic>> {
    let UncheckedPlan { plan, origin, index, mut faults } = unchecked;
    let edges = Edges::new(&plan, &index);
    let indexed = IndexedPlan { plan: &plan, origin: &origin, index: &index, edges: &edges };
    let order = check(&indexed, settings, true, &mut faults);
    if let (Some(order), true) = (order, faults.is_empty()) {
        fallbacks::check(&indexed, settings, &order, &mut faults);
    }
    if faults.is_empty() { Ok(plan) } else { Err(sort_and_limit(faults)) }
}

/// Validates a running plan after a change. V05 is skipped, because a later change may use the added nodes.
pub(super) fn changed(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Diagnostic>) {
    let (origin, index) = (Origin::default(), NodeIndex::new(&plan.nodes));
    let edges = Edges::new(plan, &index);
    check(&IndexedPlan { plan, origin: &origin, index: &index, edges: &edges }, settings, false, faults);
}

/// Runs all checks. Returns the nodes in topological order, or `None` on a cycle, since checks of paths need
/// an order.
fn check(
    indexed: &IndexedPlan<'_>,
    settings: &Settings<'_>,
    is_new: bool,
    faults: &mut Vec<Diagnostic>,
) -> Option<Vec<usize>> {
    let context = Context::new(settings);
    edges::check(indexed, &context.suggestions, faults);
    joins::check(indexed, faults);
    contracts::check_plan(indexed, faults);
    if settings.real_run && is_new {
        contracts::check_plan_tests(indexed, faults);
        addresses::check(indexed, settings, &context.suggestions, faults);
    }
    bounds::size(indexed, settings, faults);
    extensions::names(indexed, faults);
    if is_new {
        bounds::backoff(indexed, settings, faults);
        executors::domain(indexed, settings, &context.suggestions, faults);
    }
    for at in 0..indexed.plan.nodes.len() {
        node(indexed, at, &context, faults);
        if settings.real_run && is_new {
            bounds::check_timeout_max(indexed, at, faults);
            executors::check_unused(indexed, at, faults);
        }
    }
    let order = cycles::check(indexed, faults)?;
    cycles::depth(indexed, &order, faults);
    speculation::check(indexed, &speculation::cones(indexed, &order), faults);
    if is_new && indexed.plan.outputs_declared {
        reach::check(indexed, faults);
    }
    Some(order)
}

/// Checks that depend on the node itself, the ids of other nodes and the schemas of their results.
fn node(indexed: &IndexedPlan<'_>, at: usize, context: &Context<'_>, faults: &mut Vec<Diagnostic>) {
    references::check(indexed, at, context, faults);
    extensions::check(indexed, at, context, faults);
    contracts::check(indexed, at, faults);
    bounds::check(indexed, at, context.settings, faults);
    executors::check(indexed, at, context, faults);
    if context.settings.real_run {
        params::check(indexed, at, context, faults);
        paths::check(indexed, at, context, faults);
    }
}

struct Context<'a> {
    settings: &'a Settings<'a>,
    suggestions: Suggestions,
    tools: BTreeSet<String>,
    results: ResultSchemas<'a>,
}

impl<'a> Context<'a> {
    fn new(settings: &'a Settings<'a>) -> Context<'a> {
        let tools = settings.tools.map(Tools::names).unwrap_or_default().into_iter().collect();
        Context { settings, suggestions: Suggestions::new(), tools, results: ResultSchemas::new(settings) }
    }
}

/// The plan with its edges by index. Of several nodes with one id the last has the edges; an edge to an
/// unknown node or to its own node is left out.
#[derive(Clone, Copy)]
struct IndexedPlan<'a> {
    plan: &'a Plan,
    origin: &'a Origin,
    index: &'a NodeIndex,
    edges: &'a Edges,
}

/// Edges of a plan, independent of the other node fields.
struct Edges {
    /// Per node: sources, in the author's order.
    sources: PackedLists<(usize, On)>,
    consumers: PackedLists<(usize, On)>,
    is_output: Vec<bool>,
}

impl Edges {
    fn new(plan: &Plan, index: &NodeIndex) -> Edges {
        let mut sources = PackedLists::with_capacity(plan.nodes.len(), index.sources.items().len());
        for (at, node) in plan.nodes.iter().enumerate() {
            let named = if index.is_effective(at) { &index.sources[at] } else { &[] };
            let edges = node.deps.iter().zip(named);
            sources.push(edges.filter_map(|(dep, source)| {
                let source = source.filter(|&source| source != at)?;
                Some((source, dep.on))
            }));
        }
        let consumers = sources.transposed();
        let mut is_output = vec![false; plan.nodes.len()];
        for output in &plan.outputs {
            if let Some(at) = index.find(output) {
                is_output[at] = true;
            }
        }
        Edges { sources, consumers, is_output }
    }
}

impl IndexedPlan<'_> {
    fn place(&self, at: usize) -> Pointer {
        self.origin.node(at)
    }

    fn edge_place(&self, at: usize, edge: usize) -> Pointer {
        self.origin.edge(&self.plan.nodes[at], at, edge)
    }
}
