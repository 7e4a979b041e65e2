//! Nodes by name, where ids may repeat and edges may lead nowhere.

use crate::id::NodeId;

use super::Node;

/// What the names in a list of nodes stand for. The nodes are sorted by id; of several descriptions of one
/// id the last one counts as the node.
pub(super) struct Table<'a> {
    pub(super) nodes: &'a [Node],
    /// Per description and dependency, in the author's order: the node it names, if there is one.
    pub(super) sources: Vec<Vec<Option<usize>>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(nodes: &'a [Node]) -> Table<'a> {
        debug_assert!(nodes.is_sorted_by(|a, b| a.id <= b.id));
        let mut table = Table { nodes, sources: Vec::with_capacity(nodes.len()) };
        for node in nodes {
            let sources = node.deps.iter().map(|dep| table.find(&dep.n)).collect();
            table.sources.push(sources);
        }
        table
    }

    /// The node of that name.
    pub(super) fn find(&self, id: &NodeId) -> Option<usize> {
        let after = self.nodes.partition_point(|node| node.id <= *id);
        let at = after.checked_sub(1)?;
        (self.nodes[at].id == *id).then_some(at)
    }

    /// The description that counts among those with the id of the one at `at`.
    pub(super) fn last(&self, at: usize) -> usize {
        self.find(&self.nodes[at].id).unwrap_or(at)
    }

    /// Whether the description at `at` is the one that counts for its id.
    pub(super) fn counts(&self, at: usize) -> bool {
        self.nodes.get(at + 1).is_none_or(|next| next.id != self.nodes[at].id)
    }

    /// How many nodes there are room for: indices of nodes are below it.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}
