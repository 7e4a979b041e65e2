//! The edges of a plan by index, for whoever walks them often.

use super::table::Table;
use super::{Lists, Node, On};

/// Adjacency of nodes that are sorted by id and whose edges all lead somewhere.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Per node: its sources, in the author's order.
    pub sources: Lists<(usize, On)>,
    /// Per node: its consumers, ascending.
    pub consumers: Lists<(usize, On)>,
    /// Per node: edges on the longest path from an entry, over edges of either kind.
    pub level: Vec<u32>,
    /// Per node: edges on the longest path to an exit, over edges of either kind.
    pub height: Vec<u32>,
}

impl Graph {
    /// Builds the adjacency. Edges to nodes that do not exist are left out; on a cycle levels are 0.
    pub fn new(nodes: &[Node]) -> Graph {
        let named = Table::new(nodes).sources;
        let mut sources = Lists::with_capacity(nodes.len(), named.items().len());
        for (node, named) in nodes.iter().zip(named.iter()) {
            sources.push(node.deps.iter().zip(named).filter_map(|(dep, source)| Some(((*source)?, dep.on))));
        }
        let consumers = sources.turned();
        let level = longest(&sources, &consumers);
        let height = longest(&consumers, &sources);
        Graph { sources, consumers, level, height }
    }
}

/// Per node, the edges on the longest path that leads to it along `consumers`.
fn longest(sources: &Lists<(usize, On)>, consumers: &Lists<(usize, On)>) -> Vec<u32> {
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
