//! That a plan can be put in an order: V04, and the depth part of V13.

use std::collections::BTreeMap;

use super::super::fault::{Fault, FaultCode};
use super::super::{Dispatch, Join};
use super::Subject;
use crate::id::NodeId;

/// Nodes of a cycle that are shown.
const SHOWN_MAX: usize = 8;

/// Names every node on a cycle. Where there is none, gives all nodes, sources before consumers and each
/// candidate of an ordered join before the next.
pub(super) fn judge(subject: &Subject<'_>, faults: &mut Vec<Fault>) -> Option<Vec<usize>> {
    let graph = Precedence::new(subject);
    let components = components(&graph.after);
    let mut cyclic = false;
    for component in &components {
        let first = component[0];
        if component.len() == 1 && !graph.after[first].contains(&first) {
            continue;
        }
        cyclic = true;
        let shown = graph.show_cycle(component);
        for &at in component.iter().filter(|&&at| at < subject.table.len()) {
            let mend = if graph.has_order_edge {
                "take out a dependency, or list candidates of ordered joins in one and the same order"
            } else {
                "take out one of these dependencies"
            };
            let detail = format!("waits for itself: {shown}");
            faults.push(Fault::new(FaultCode::V04, &subject.plan.nodes[at].id, detail, mend));
        }
    }
    let order = || components.iter().rev().map(|component| component[0]);
    (!cyclic).then(|| order().filter(|&at| at < subject.table.len()).collect())
}

/// Counts the nodes on the longest path. `order` has sources before consumers.
pub(super) fn depth(subject: &Subject<'_>, order: &[usize], faults: &mut Vec<Fault>) {
    let mut depth = vec![1u32; subject.table.len()];
    for &at in order {
        for &(source, _) in &subject.sources[at] {
            depth[at] = depth[at].max(depth[source] + 1);
        }
    }
    let most = subject.plan.policy.max_depth;
    if let Some((at, &deepest)) = depth.iter().enumerate().max_by_key(|&(_, depth)| depth)
        && deepest > most
    {
        let last = &subject.plan.nodes[at].id;
        let detail = format!("the path to {last} has {deepest} nodes, policy.max_depth is {most}");
        faults.push(Fault::new(FaultCode::V13, Fault::PLAN, detail, "shorten it, or raise policy.max_depth"));
    }
}

/// What must come after what: edges of either kind, and the order of candidates.
struct Precedence<'a> {
    subject: &'a Subject<'a>,
    after: Vec<Vec<usize>>,
    /// Names in lists of candidates that are no nodes; they have indices behind those of the nodes, since
    /// the order of a list reaches across them.
    nameless: Vec<&'a NodeId>,
    has_order_edge: bool,
}

impl<'a> Precedence<'a> {
    fn new(subject: &'a Subject<'a>) -> Precedence<'a> {
        let count = subject.table.len();
        let after = subject.consumers.iter().map(|edges| edges.iter().map(|&(at, _)| at).collect()).collect();
        let mut graph = Precedence { subject, after, nameless: Vec::new(), has_order_edge: false };
        let mut unknown: BTreeMap<&NodeId, usize> = BTreeMap::new();
        for (at, node) in subject.plan.nodes.iter().enumerate() {
            let ordered = node.join == Some(Join::AnyOf) && node.dispatch == Dispatch::Ordered;
            if !ordered || !subject.table.counts(at) {
                continue;
            }
            let mut before: Option<usize> = None;
            for (dep, source) in node.deps.iter().zip(&subject.table.sources[at]) {
                let candidate = source.unwrap_or_else(|| {
                    *unknown.entry(&dep.n).or_insert_with(|| {
                        graph.nameless.push(&dep.n);
                        graph.after.push(Vec::new());
                        count + graph.nameless.len() - 1
                    })
                });
                if let Some(before) = before {
                    graph.after[before].push(candidate);
                    graph.has_order_edge = true;
                }
                before = Some(candidate);
            }
        }
        graph
    }

    fn name(&self, at: usize) -> &NodeId {
        let count = self.subject.table.len();
        if at < count { &self.subject.plan.nodes[at].id } else { self.nameless[at - count] }
    }

    /// One cycle among nodes that all reach each other, as `a -> b -> a`.
    fn show_cycle(&self, component: &[usize]) -> String {
        let mut members = component.to_vec();
        members.sort_unstable();
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        let mut walk = Vec::new();
        let mut at = members[0];
        while !seen.contains_key(&at) {
            seen.insert(at, walk.len());
            walk.push(at);
            let next = self.after[at].iter().find(|next| members.binary_search(next).is_ok());
            at = *next.expect("a node that reaches itself has a successor that does");
        }
        let cycle = &walk[seen[&at]..];
        let mut shown: Vec<&str> = cycle.iter().take(SHOWN_MAX).map(|&at| self.name(at).as_str()).collect();
        if cycle.len() > SHOWN_MAX {
            shown.push("…");
        }
        shown.push(self.name(at).as_str());
        shown.join(" -> ")
    }
}

/// The strongly connected components, each after all that it leads to (Tarjan's algorithm, on a stack of its
/// own: a plan may be as deep as it is large).
fn components(after: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut index = vec![UNSEEN; after.len()];
    let mut low = vec![0; after.len()];
    let mut on_path = vec![false; after.len()];
    let mut path = Vec::new();
    let mut found = Vec::new();
    let mut next_index = 0;
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for root in 0..after.len() {
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
            for (position, &next) in after[at].iter().enumerate().skip(edge) {
                if index[next] == UNSEEN {
                    descend = Some((position, next));
                    break;
                }
                if on_path[next] {
                    low[at] = low[at].min(low[next]);
                }
            }
            if let Some((position, next)) = descend {
                // Back here afterwards, to see the same edge with the low point of where it leads.
                calls.push((at, position));
                calls.push((next, 0));
                continue;
            }
            if low[at] == index[at] {
                let start =
                    path.iter().rposition(|&member| member == at).expect("every open node is on the path");
                let component = path.split_off(start);
                component.iter().for_each(|&member| on_path[member] = false);
                found.push(component);
            }
        }
    }
    found
}
