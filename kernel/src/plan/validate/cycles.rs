//! Cycles (V04), and the depth part of V13.
//!
//! The precedence graph has an arc for every edge of either kind, from source to consumer. An ordered
//! `any_of` starts its candidates one after the other, so each candidate also precedes the next candidate in
//! the list. These order arcs lie between siblings and no edge shows them, so two ordered joins over the same
//! nodes in opposite orders deadlock without a cycle of edges. A plan can be scheduled exactly if the graph
//! of edges and order arcs is acyclic.
//!
//! An unknown name in a candidate list (V03) gets a vertex of its own behind the nodes,
//! because the order of the list continues across the gap. Such vertices never get a V04.
//!
//! Tarjan's algorithm finds the strongly connected components in O(V + E). Each node of a component with a
//! cycle gets a diagnostic with a shortest cycle through the node, found by breadth-first search. Searching
//! from every node is quadratic in the size of the component, so all searches share a budget of [`STEPS_MAX`]
//! arcs; afterwards the remaining nodes share one cycle. Components come in reverse topological order, so
//! reversing the list gives the order for later checks for free.

use std::collections::{BTreeMap, VecDeque};

use super::super::diagnostic::{Diagnostic, DiagnosticCode};
use super::super::pointer::Pointer;
use super::super::{Dispatch, Join, PackedLists};
use super::IndexedPlan;
use crate::id::NodeId;

const SHOWN_MAX: usize = 8;

/// Reports every node on a cycle; nodes with the same cycle get the same message. Without a cycle, returns
/// all nodes in topological order: sources before consumers, and each candidate of an ordered join before the
/// next.
pub(super) fn check(indexed: &IndexedPlan<'_>, faults: &mut Vec<Diagnostic>) -> Option<Vec<usize>> {
    let graph = Precedence::new(indexed);
    let components = components(&graph);
    let mut cyclic = false;
    for component in components.iter() {
        let first = component[0];
        if component.len() == 1 && !graph.after(first).any(|next| next == first) {
            continue;
        }
        // A cycle of unknown names alone is no fault of a node and does not prevent ordering the nodes.
        cyclic |= component.iter().any(|&at| at < indexed.index.len());
        let mut through = CycleFinder::new(&graph, component);
        for &at in component.iter().filter(|&&at| at < indexed.index.len()) {
            let help = if graph.turns.items().is_empty() {
                "remove one of these dependencies"
            } else {
                "remove a dependency, or list the candidates of ordered joins in the same order"
            };
            let cycle = through.cycle(at);
            let detail = format!("is in a cycle: {}", graph.show(&cycle));
            let place = graph.edge_place(at, &cycle);
            faults.push(
                Diagnostic::new(DiagnosticCode::V04, &indexed.plan.nodes[at].id, detail, help).at(&place),
            );
        }
    }
    let order = || components.iter().rev().map(|component| component[0]);
    (!cyclic).then(|| order().filter(|&at| at < indexed.index.len()).collect())
}

/// V13: checks the number of nodes on the longest path. `order` has sources before consumers.
pub(super) fn depth(indexed: &IndexedPlan<'_>, order: &[usize], faults: &mut Vec<Diagnostic>) {
    let mut depth = vec![1u32; indexed.index.len()];
    for &at in order {
        for &(source, _) in &indexed.edges.sources[at] {
            depth[at] = depth[at].max(depth[source] + 1);
        }
    }
    let most = indexed.plan.policy.max_depth;
    if let Some((at, &deepest)) = depth.iter().enumerate().max_by_key(|&(_, depth)| depth)
        && deepest > most
    {
        let last = &indexed.plan.nodes[at].id;
        let detail = format!("the path to {last} has {deepest} nodes, policy.max_depth allows {most}");
        let fault = Diagnostic::new(
            DiagnosticCode::V13,
            Diagnostic::PLAN,
            detail,
            "shorten the path, or raise policy.max_depth",
        );
        faults.push(fault.at(&indexed.place(at).key("id")));
    }
}

/// Precedence graph: edges of either kind plus the order arcs of ordered joins.
struct Precedence<'a> {
    indexed: &'a IndexedPlan<'a>,
    /// Per vertex: order arcs to the next candidates.
    turns: PackedLists<usize>,
    /// Unknown names in candidate lists, with vertices behind the nodes.
    nameless: Vec<&'a NodeId>,
}

impl<'a> Precedence<'a> {
    fn new(indexed: &'a IndexedPlan<'a>) -> Precedence<'a> {
        let count = indexed.index.len();
        let (mut turns, mut nameless) = (Vec::new(), Vec::new());
        let mut unknown: BTreeMap<&NodeId, usize> = BTreeMap::new();
        for (at, node) in indexed.plan.nodes.iter().enumerate() {
            let ordered = node.join == Some(Join::AnyOf) && node.dispatch == Dispatch::Ordered;
            if !ordered || !indexed.index.is_effective(at) {
                continue;
            }
            let mut before: Option<usize> = None;
            for (dep, source) in node.deps.iter().zip(&indexed.index.sources[at]) {
                let candidate = source.unwrap_or_else(|| {
                    *unknown.entry(&dep.n).or_insert_with(|| {
                        nameless.push(&dep.n);
                        count + nameless.len() - 1
                    })
                });
                turns.extend(before.map(|before| (before, candidate)));
                before = Some(candidate);
            }
        }
        let turns = PackedLists::grouped(count + nameless.len(), turns.iter().copied());
        Precedence { indexed, turns, nameless }
    }

    fn len(&self) -> usize {
        self.turns.len()
    }

    fn after(&self, at: usize) -> impl Iterator<Item = usize> {
        let consumers = if at < self.indexed.index.len() { &self.indexed.edges.consumers[at] } else { &[] };
        consumers.iter().map(|&(consumer, _)| consumer).chain(self.turns[at].iter().copied())
    }

    fn name(&self, at: usize) -> &NodeId {
        let count = self.indexed.index.len();
        if at < count { &self.indexed.plan.nodes[at].id } else { self.nameless[at - count] }
    }

    /// Formats a cycle as `a -> b -> a`: each node waits for the next.
    fn show(&self, cycle: &Cycle) -> String {
        let mut shown: Vec<&str> = cycle.shown.iter().map(|&at| self.name(at).as_str()).collect();
        if cycle.length > SHOWN_MAX {
            shown.push("…");
        }
        shown.push(shown[0]);
        let all = if cycle.length > SHOWN_MAX { format!(" ({} nodes)", cycle.length) } else { String::new() };
        format!("{}{all}", shown.join(" -> "))
    }

    /// Place of the dependency on the node before in the cycle, or the node's id if the arc is an order arc
    /// of a join elsewhere.
    fn edge_place(&self, at: usize, cycle: &Cycle) -> Pointer {
        let node = &self.indexed.plan.nodes[at];
        let edge = node.deps.iter().position(|dep| dep.n == *self.name(cycle.before));
        edge.map_or_else(|| self.indexed.place(at).key("id"), |edge| self.indexed.edge_place(at, edge))
    }
}

/// Arcs walked per component for shortest cycles, before the nodes share one cycle.
const STEPS_MAX: usize = 200_000;

struct Cycle {
    /// The first nodes, at most [`SHOWN_MAX`], each before the node it waits for.
    shown: Vec<usize>,
    length: usize,
    /// The node before the reported node.
    before: usize,
}

impl Cycle {
    /// `place` is the position of the reported node in the walk.
    fn of(walk: &[usize], place: usize) -> Cycle {
        let before = walk[(place + walk.len() - 1) % walk.len()];
        // The walk goes from sources to consumers; the message from consumers to sources.
        let shown = walk[..1].iter().chain(walk[1..].iter().rev()).take(SHOWN_MAX);
        Cycle { shown: shown.copied().collect(), length: walk.len(), before }
    }
}

/// Rotates a cycle to start with its smallest node, so all nodes of a cycle get the same message. Returns the
/// old position of that node.
fn rotate_smallest_first(walk: &mut [usize]) -> usize {
    let first = (0..walk.len()).min_by_key(|&place| walk[place]).unwrap_or(0);
    walk.rotate_left(first);
    first
}

struct CycleFinder<'a> {
    graph: &'a Precedence<'a>,
    members: Vec<usize>,
    steps_left: usize,
    /// A cycle, and the position of each node in the cycle.
    shared: Option<(Vec<usize>, BTreeMap<usize, usize>)>,
}

impl<'a> CycleFinder<'a> {
    fn new(graph: &'a Precedence<'a>, component: &[usize]) -> CycleFinder<'a> {
        let mut members = component.to_vec();
        members.sort_unstable();
        CycleFinder { graph, members, steps_left: STEPS_MAX, shared: None }
    }

    /// A shortest cycle through `at`, or any cycle of the component once the budget is spent.
    fn cycle(&mut self, at: usize) -> Cycle {
        if let Some(mut walk) = self.shortest(at) {
            let turned = rotate_smallest_first(&mut walk);
            let place = (walk.len() - turned) % walk.len();
            return Cycle::of(&walk, place);
        }
        let (walk, places) = self.shared.get_or_insert_with(|| {
            let mut walk = any_cycle(self.graph, &self.members);
            rotate_smallest_first(&mut walk);
            let places = walk.iter().enumerate().map(|(place, &at)| (at, place)).collect();
            (walk, places)
        });
        Cycle::of(walk, places.get(&at).copied().unwrap_or(0))
    }

    fn shortest(&mut self, from: usize) -> Option<Vec<usize>> {
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for next in self.graph.after(at) {
                self.steps_left = self.steps_left.checked_sub(1)?;
                if next == from {
                    let mut cycle = vec![at];
                    while let Some(&earlier) = before.get(&cycle[cycle.len() - 1]) {
                        cycle.push(earlier);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if self.members.binary_search(&next).is_ok() && !before.contains_key(&next) {
                    before.insert(next, at);
                    open.push_back(next);
                }
            }
        }
        None
    }
}

fn any_cycle(graph: &Precedence<'_>, members: &[usize]) -> Vec<usize> {
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let mut walk = Vec::new();
    let mut at = members[0];
    while !seen.contains_key(&at) {
        seen.insert(at, walk.len());
        walk.push(at);
        let next = graph.after(at).find(|next| members.binary_search(next).is_ok());
        at = next.expect("a node that reaches itself has a successor that does");
    }
    walk.split_off(seen[&at])
}

/// Strongly connected components, each after all components reachable from it: Tarjan's algorithm
/// ("Depth-first search and linear graph algorithms", 1972) with an explicit stack, because a plan may be as
/// deep as it is large.
fn components(graph: &Precedence<'_>) -> PackedLists<usize> {
    const UNSEEN: usize = usize::MAX;
    let count = graph.len();
    let mut index = vec![UNSEEN; count];
    let mut low = vec![0; count];
    let mut on_path = vec![false; count];
    let mut path = Vec::new();
    let mut found = PackedLists::with_capacity(count, count);
    let mut next_index = 0;
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for root in 0..count {
        if index[root] != UNSEEN {
            continue;
        }
        calls.push((root, 0));
        while let Some((at, edge)) = calls.pop() {
            if index[at] == UNSEEN {
                (index[at], low[at], on_path[at]) = (next_index, next_index, true);
                next_index += 1;
                path.push(at);
            }
            let mut descend = None;
            for (position, next) in graph.after(at).enumerate().skip(edge) {
                if index[next] == UNSEEN {
                    descend = Some((position, next));
                    break;
                }
                if on_path[next] {
                    low[at] = low[at].min(low[next]);
                }
            }
            if let Some((position, next)) = descend {
                // Resume at the same arc, now with the low link of the successor.
                calls.push((at, position));
                calls.push((next, 0));
                continue;
            }
            if low[at] == index[at] {
                let start =
                    path.iter().rposition(|&member| member == at).expect("every open node is on the path");
                path[start..].iter().for_each(|&member| on_path[member] = false);
                found.push(path.drain(start..));
            }
        }
    }
    found
}
