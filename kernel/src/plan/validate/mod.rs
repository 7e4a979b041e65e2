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

use super::dead_end::Results;
use super::fault::{Fault, in_order};
use super::nearest::Hints;
use super::pointer::{Origin, Pointer};
use super::table::Table;
use super::{Lists, On, Plan, Settings, Tools, Unchecked};

/// Gives the plan, its nodes in ascending order of their ids, or every fault, sorted by code and name.
pub fn validate(unchecked: Unchecked, settings: &Settings<'_>) -> Result<Plan, Vec<Fault>> {
    let Unchecked { plan, origin, table, mut faults } = unchecked;
    let edges = Edges::new(&plan, &table);
    let subject = Subject { plan: &plan, origin: &origin, table: &table, edges: &edges };
    let order = judge(&subject, settings, true, &mut faults);
    if let (Some(order), true) = (order, faults.is_empty()) {
        fallbacks::judge(&subject, settings, &order, &mut faults);
    }
    if faults.is_empty() { Ok(plan) } else { Err(in_order(faults)) }
}

/// The faults of a running plan that was changed. V05 does not apply: what a change adds may be there for
/// the next change alone.
pub(super) fn changed(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Fault>) {
    let (origin, table) = (Origin::default(), Table::new(&plan.nodes));
    let edges = Edges::new(plan, &table);
    judge(&Subject { plan, origin: &origin, table: &table, edges: &edges }, settings, false, faults);
}

/// Gives the nodes, sources before consumers; `None` where there is a cycle: then nothing can be said of paths.
fn judge(
    subject: &Subject<'_>,
    settings: &Settings<'_>,
    fresh: bool,
    faults: &mut Vec<Fault>,
) -> Option<Vec<usize>> {
    let known = Known::new(settings);
    edges::judge(subject, &known.hints, faults);
    joins::judge(subject, faults);
    contracts::whole(subject, faults);
    if settings.complete && fresh {
        contracts::tests_of_the_whole(subject, faults);
    }
    bounds::size(subject, settings, faults);
    if fresh {
        bounds::backoff(subject, settings, faults);
        executors::domain(subject, settings, &known.hints, faults);
    }
    for at in 0..subject.plan.nodes.len() {
        node(subject, at, &known, faults);
        if settings.complete && fresh {
            bounds::endless(subject, at, faults);
            executors::uncalled(subject, at, faults);
        }
    }
    let order = cycles::judge(subject, faults)?;
    cycles::depth(subject, &order, faults);
    speculation::judge(subject, &speculation::cones(subject, &order), faults);
    if fresh && subject.plan.outputs_declared {
        reach::judge(subject, faults);
    }
    Some(order)
}

/// What is judged of each node by itself: of the others it only matters which there are, and what they give.
fn node(subject: &Subject<'_>, at: usize, known: &Known<'_>, faults: &mut Vec<Fault>) {
    references::judge(subject, at, known, faults);
    contracts::judge(subject, at, faults);
    bounds::judge(subject, at, known.settings, faults);
    executors::judge(subject, at, known, faults);
    if known.settings.complete {
        params::judge(subject, at, known, faults);
        paths::judge(subject, at, known, faults);
    }
}

/// What one judgement knows besides the plan.
struct Known<'a> {
    settings: &'a Settings<'a>,
    hints: Hints,
    /// The names of all tools.
    tools: BTreeSet<String>,
    results: Results<'a>,
}

impl<'a> Known<'a> {
    fn new(settings: &'a Settings<'a>) -> Known<'a> {
        let tools = settings.tools.map(Tools::names).unwrap_or_default().into_iter().collect();
        Known { settings, hints: Hints::new(), tools, results: Results::new(settings) }
    }
}

/// What is judged: the plan, and its edges by index. Of several descriptions of one id the last one has the
/// edges; an edge that leads nowhere, or from a node to itself, is none.
#[derive(Clone, Copy)]
struct Subject<'a> {
    plan: &'a Plan,
    /// Where its nodes were written.
    origin: &'a Origin,
    table: &'a Table,
    edges: &'a Edges,
}

/// The edges of a plan, as they are whatever is set of its nodes.
struct Edges {
    /// Per node: its sources, in the author's order.
    sources: Lists<(usize, On)>,
    /// Per node: its consumers, ascending.
    consumers: Lists<(usize, On)>,
    /// Per node: whether the run is for it.
    is_output: Vec<bool>,
}

impl Edges {
    fn new(plan: &Plan, table: &Table) -> Edges {
        let mut sources = Lists::with_capacity(plan.nodes.len(), table.sources.items().len());
        for (at, node) in plan.nodes.iter().enumerate() {
            let named = if table.counts(at) { &table.sources[at] } else { &[] };
            let edges = node.deps.iter().zip(named);
            sources.push(edges.filter_map(|(dep, source)| {
                let source = source.filter(|&source| source != at)?;
                Some((source, dep.on))
            }));
        }
        let consumers = sources.turned();
        let mut is_output = vec![false; plan.nodes.len()];
        for output in &plan.outputs {
            if let Some(at) = table.find(output) {
                is_output[at] = true;
            }
        }
        Edges { sources, consumers, is_output }
    }
}

impl Subject<'_> {
    /// Where the description at `at` was written.
    fn place(&self, at: usize) -> Pointer {
        self.origin.node(at)
    }

    /// Where the dependency of a description was written.
    fn edge_place(&self, at: usize, edge: usize) -> Pointer {
        self.origin.edge(&self.plan.nodes[at], at, edge)
    }
}
