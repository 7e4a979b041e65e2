//! The rules of plans. Every fault is found, not the first; a plan with any is rejected whole.

mod bounds;
mod contracts;
mod cycles;
mod edges;
mod executors;
mod fallbacks;
mod joins;
mod params;
mod paths;
#[cfg(test)]
mod properties;
mod reach;
mod references;
mod speculation;
#[cfg(test)]
mod tests;

pub use bounds::{PLAN_EDGES_MAX, TIMEOUT_MS_MAX};

use std::collections::BTreeSet;

use super::unreachable_path::ResultSchemas;
use super::diagnostic::{Diagnostic, in_order};
use super::suggest::Suggestions;
use super::pointer::{Origin, Pointer};
use super::node_index::NodeIndex;
use super::{PackedLists, On, Plan, Settings, Tools, UncheckedPlan};

/// Gives the plan, its nodes in ascending order of their ids, or every fault, sorted by code and name.
pub fn validate(unchecked: UncheckedPlan, settings: &Settings<'_>) -> Result<Plan, Vec<Diagnostic>> {
    let UncheckedPlan { plan, origin, index, mut faults } = unchecked;
    let edges = Edges::new(&plan, &index);
    let indexed = IndexedPlan { plan: &plan, origin: &origin, index: &index, edges: &edges };
    let order = check(&indexed, settings, true, &mut faults);
    if let (Some(order), true) = (order, faults.is_empty()) {
        fallbacks::check(&indexed, settings, &order, &mut faults);
    }
    if faults.is_empty() { Ok(plan) } else { Err(in_order(faults)) }
}

/// The faults of a running plan that was changed. V05 does not apply: what a change adds may be there for
/// the next change alone.
pub(super) fn changed(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Diagnostic>) {
    let (origin, index) = (Origin::default(), NodeIndex::new(&plan.nodes));
    let edges = Edges::new(plan, &index);
    check(&IndexedPlan { plan, origin: &origin, index: &index, edges: &edges }, settings, false, faults);
}

/// Gives the nodes, sources before consumers; `None` where there is a cycle: then nothing can be said of paths.
fn check(
    indexed: &IndexedPlan<'_>,
    settings: &Settings<'_>,
    is_new: bool,
    faults: &mut Vec<Diagnostic>,
) -> Option<Vec<usize>> {
    let context = Context::new(settings);
    edges::check(indexed, &context.suggestions, faults);
    joins::check(indexed, faults);
    contracts::whole(indexed, faults);
    if settings.real_run && is_new {
        contracts::tests_of_the_whole(indexed, faults);
    }
    bounds::size(indexed, settings, faults);
    if is_new {
        bounds::backoff(indexed, settings, faults);
        executors::domain(indexed, settings, &context.suggestions, faults);
    }
    for at in 0..indexed.plan.nodes.len() {
        node(indexed, at, &context, faults);
        if settings.real_run && is_new {
            bounds::endless(indexed, at, faults);
            executors::uncalled(indexed, at, faults);
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

/// What is judged of each node by itself: of the others it only matters which there are, and what they give.
fn node(indexed: &IndexedPlan<'_>, at: usize, context: &Context<'_>, faults: &mut Vec<Diagnostic>) {
    references::check(indexed, at, context, faults);
    contracts::check(indexed, at, faults);
    bounds::check(indexed, at, context.settings, faults);
    executors::check(indexed, at, context, faults);
    if context.settings.real_run {
        params::check(indexed, at, context, faults);
        paths::check(indexed, at, context, faults);
    }
}

/// What one judgement knows besides the plan.
struct Context<'a> {
    settings: &'a Settings<'a>,
    suggestions: Suggestions,
    /// The names of all tools.
    tools: BTreeSet<String>,
    results: ResultSchemas<'a>,
}

impl<'a> Context<'a> {
    fn new(settings: &'a Settings<'a>) -> Context<'a> {
        let tools = settings.tools.map(Tools::names).unwrap_or_default().into_iter().collect();
        Context { settings, suggestions: Suggestions::new(), tools, results: ResultSchemas::new(settings) }
    }
}

/// What is judged: the plan, and its edges by index. Of several descriptions of one id the last one has the
/// edges; an edge that leads nowhere, or from a node to itself, is none.
#[derive(Clone, Copy)]
struct IndexedPlan<'a> {
    plan: &'a Plan,
    /// Where its nodes were written.
    origin: &'a Origin,
    index: &'a NodeIndex,
    edges: &'a Edges,
}

/// The edges of a plan, as they are whatever is set of its nodes.
struct Edges {
    /// Per node: its sources, in the author's order.
    sources: PackedLists<(usize, On)>,
    /// Per node: its consumers, ascending.
    consumers: PackedLists<(usize, On)>,
    /// Per node: whether the run is for it.
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
    /// Where the description at `at` was written.
    fn place(&self, at: usize) -> Pointer {
        self.origin.node(at)
    }

    /// Where the dependency of a description was written.
    fn edge_place(&self, at: usize, edge: usize) -> Pointer {
        self.origin.edge(&self.plan.nodes[at], at, edge)
    }
}
