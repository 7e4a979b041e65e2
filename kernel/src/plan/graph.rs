//! Edges of a plan by node index.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::node_index::NodeIndex;
use super::{Node, On, PackedLists};
use crate::id::{Digest, NodeId};

/// Adjacency of nodes sorted by id. Every edge leads to an existing node.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Per node: sources, in the author's order.
    pub sources: PackedLists<(usize, On)>,
    /// Per node: consumers, ascending.
    pub consumers: PackedLists<(usize, On)>,
    /// Per node: number of edges on the longest path from an entry, over edges of either kind.
    pub level: Vec<u32>,
    /// Per node: number of edges on the longest path to an exit, over edges of either kind.
    pub height: Vec<u32>,
    names: NodeIndex,
}

impl Graph {
    /// Builds the adjacency. Edges to unknown nodes are dropped; nodes on a cycle get level 0.
    pub fn new(nodes: &[Node]) -> Graph {
        let mut names = NodeIndex::new(nodes);
        let named = std::mem::take(&mut names.sources);
        let mut sources = PackedLists::with_capacity(nodes.len(), named.items().len());
        for (node, named) in nodes.iter().zip(named.iter()) {
            sources.push(node.deps.iter().zip(named).filter_map(|(dep, source)| Some(((*source)?, dep.on))));
        }
        let consumers = sources.transposed();
        let level = longest(&sources, &consumers);
        let height = longest(&consumers, &sources);
        Graph { sources, consumers, level, height, names }
    }

    /// Index of a node, in constant expected time.
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.names.find(id)
    }

    /// Indices of the direct and transitive dependents of `start`, ascending, without `start`.
    pub fn below(&self, start: usize) -> Vec<usize> {
        self.reached_from(start, |_| true)
    }

    /// Indices of the direct and transitive sources of `start`, without `start`.
    pub fn above(&self, start: usize) -> BTreeSet<usize> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(at) = open.pop() {
            let sources = self.sources[at].iter().map(|(source, _)| *source);
            open.extend(sources.filter(|&source| seen.insert(source)));
        }
        seen
    }

    /// Same as [`below`](Graph::below), restricted to nodes that satisfy `passes`.
    pub(crate) fn reached_from(&self, start: usize, passes: impl Fn(usize) -> bool) -> Vec<usize> {
        let seen = self.spread(vec![start], passes);
        (0..seen.len()).filter(|&at| seen[at] && at != start).collect()
    }

    /// Marks the dependents of all of `open`, over nodes that satisfy `passes`.
    pub(crate) fn spread(&self, mut open: Vec<usize>, passes: impl Fn(usize) -> bool) -> Vec<bool> {
        let mut seen = vec![false; self.consumers.len()];
        while let Some(at) = open.pop() {
            for &(consumer, _) in &self.consumers[at] {
                if passes(consumer) && !std::mem::replace(&mut seen[consumer], true) {
                    open.push(consumer);
                }
            }
        }
        seen
    }
}

/// Values computed from a plan on first use and shared by all runs of the plan. A clone starts empty, because
/// the clone may change; comparison ignores the cache.
#[derive(Default)]
pub(super) struct Derived {
    graph: OnceLock<Arc<Graph>>,
    /// Per node with literal parameters only: the identity of the node's work.
    constant: OnceLock<Box<[Identified]>>,
}

/// Digest of the executable, and the work identity computed with that digest.
type Identified = OnceLock<(Digest, Digest)>;

impl Derived {
    pub(super) fn graph(&self, nodes: &[Node]) -> &Arc<Graph> {
        self.graph.get_or_init(|| Arc::new(Graph::new(nodes)))
    }

    /// Returns the work identity of a node with literal parameters only, computing the identity again for
    /// another executable digest.
    pub(super) fn identity(
        &self,
        nodes: &[Node],
        at: usize,
        sigma: Digest,
        identify: impl Fn() -> Digest,
    ) -> Digest {
        let constant = self.constant.get_or_init(|| nodes.iter().map(|_| OnceLock::new()).collect());
        match constant[at].get_or_init(|| (sigma, identify())) {
            (by, identity) if *by == sigma => *identity,
            _ => identify(),
        }
    }
}

impl Clone for Derived {
    fn clone(&self) -> Derived {
        Derived::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Derived) -> bool {
        true
    }
}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Derived")
    }
}

/// Computes, per node, the edges on the longest path to the node along `consumers`.
fn longest(sources: &PackedLists<(usize, On)>, consumers: &PackedLists<(usize, On)>) -> Vec<u32> {
    let mut level = vec![0; sources.len()];
    let mut missing: Vec<usize> = sources.iter().map(<[_]>::len).collect();
    let mut reached: Vec<usize> = (0..sources.len()).filter(|&at| missing[at] == 0).collect();
    while let Some(at) = reached.pop() {
        for &(consumer, _) in &consumers[at] {
            level[consumer] = level[consumer].max(level[at] + 1);
            missing[consumer] -= 1;
            if missing[consumer] == 0 {
                reached.push(consumer);
            }
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Settings, normalise};

    #[test]
    fn who_has_one_plan_shares_its_graph_and_a_copy_makes_its_own() {
        let nodes = json!([{"id": "a"}, {"id": "b", "deps": ["a"]}]);
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let unchecked = normalise(draft, &Settings::simulation(PolicyDraft::default(), None));
        let plan = unchecked.plan();
        assert!(Arc::ptr_eq(plan.graph(), plan.graph()));

        let mut copy = plan.clone();
        assert_eq!(copy, *plan);
        copy.nodes.pop();
        let positions =
            ["a", "b", "c"].map(|id| (plan.graph().position(&id.into()), copy.graph().position(&id.into())));
        assert_eq!(positions, [(Some(0), Some(0)), (Some(1), None), (None, None)]);
    }
}
