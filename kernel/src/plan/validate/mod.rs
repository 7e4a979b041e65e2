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

pub use bounds::PLAN_EDGES_MAX;

use super::fault::{Fault, in_order};
use super::nearest::Hints;
use super::pointer::{Origin, Pointer};
use super::table::Table;
use super::{Lists, On, Plan, Settings, Unchecked};

/// Gives the plan, its nodes in ascending order of their ids, or every fault, sorted by code and name.
pub fn validate(unchecked: Unchecked, settings: &Settings<'_>) -> Result<Plan, Vec<Fault>> {
    let Unchecked { plan, origin, table, mut faults } = unchecked;
    let subject = Subject::new(&plan, &origin, &table);
    judge(&subject, settings, true, &mut faults);
    if faults.is_empty() {
        fallbacks::judge(&subject, settings, &mut faults);
    }
    if faults.is_empty() { Ok(plan) } else { Err(in_order(faults)) }
}

/// The faults of a running plan that was changed. V05 does not apply: what a change adds may be there for
/// the next change alone.
pub(super) fn changed(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Fault>) {
    let (origin, table) = (Origin::default(), Table::new(&plan.nodes));
    judge(&Subject::new(plan, &origin, &table), settings, false, faults);
}

fn judge(subject: &Subject<'_>, settings: &Settings<'_>, fresh: bool, faults: &mut Vec<Fault>) {
    let hints = Hints::new();
    edges::judge(subject, &hints, faults);
    joins::judge(subject, faults);
    references::judge(subject, settings, &hints, faults);
    contracts::judge(subject, faults);
    if settings.complete && fresh {
        contracts::tests_of_the_whole(subject, faults);
    }
    bounds::judge(subject, settings, faults);
    executors::judge(subject, settings, &hints, faults);
    if fresh {
        executors::domain(subject, settings, &hints, faults);
    }
    if settings.complete {
        params::judge(subject, settings, &hints, faults);
        paths::judge(subject, settings, &hints, faults);
    }
    match cycles::judge(subject, faults) {
        // Where there is a cycle, nothing can be said of paths.
        None => {}
        Some(order) => {
            cycles::depth(subject, &order, faults);
            speculation::judge(subject, &order, faults);
            if fresh && subject.plan.outputs_declared {
                reach::judge(subject, faults);
            }
        }
    }
}

/// What is judged: the plan, and its edges by index. Of several descriptions of one id the last one has the
/// edges; an edge that leads nowhere, or from a node to itself, is none.
struct Subject<'a> {
    plan: &'a Plan,
    /// Where its nodes were written.
    origin: &'a Origin,
    table: &'a Table,
    /// Per node: its sources, in the author's order.
    sources: Lists<(usize, On)>,
    /// Per node: its consumers, ascending.
    consumers: Lists<(usize, On)>,
    /// Per node: whether the run is for it.
    is_output: Vec<bool>,
}

impl<'a> Subject<'a> {
    fn new(plan: &'a Plan, origin: &'a Origin, table: &'a Table) -> Subject<'a> {
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
        Subject { plan, origin, table, sources, consumers, is_output }
    }

    /// Where the description at `at` was written.
    fn place(&self, at: usize) -> Pointer {
        self.origin.node(at)
    }

    /// Where the dependency of a description was written.
    fn edge_place(&self, at: usize, edge: usize) -> Pointer {
        self.origin.edge(&self.plan.nodes[at], at, edge)
    }
}
