//! Hash index from node ids to positions, for plans with duplicate ids and edges to unknown nodes.

use super::{Node, PackedLists};
use crate::id::NodeId;

/// Resolves the names in a list of nodes sorted by id. Of several nodes with one id the last is the effective
/// one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeIndex {
    /// The ids of the nodes, contiguous for cache locality.
    ids: Vec<NodeId>,
    /// Per node and dependency, in the author's order: the position of the source, if known.
    pub(super) sources: PackedLists<Option<usize>>,
    /// Open addressing with linear probing: hash of an id and position of the node. The length is a power of
    /// two.
    slots: Vec<Option<(u32, u32)>>,
}

/// Slots probed before [`NodeIndex::find`] falls back to binary search. The bound keeps ids with colliding
/// hashes, chosen on purpose, cheap.
const PROBES_MAX: usize = 16;

impl NodeIndex {
    pub(super) fn new(nodes: &[Node]) -> NodeIndex {
        debug_assert!(nodes.is_sorted_by(|a, b| a.id <= b.id));
        let slots = vec![None; (nodes.len() * 2).next_power_of_two()];
        let ids = nodes.iter().map(|node| node.id.clone()).collect();
        let edges = nodes.iter().map(|node| node.deps.len()).sum();
        let mut index = NodeIndex { ids, sources: PackedLists::default(), slots };
        for at in (0..nodes.len()).filter(|&at| at <= u32::MAX as usize) {
            if index.is_effective(at) {
                let hash = hash(&index.ids[at]);
                if let Some(free) = index.places(hash).find(|&place| index.slots[place].is_none()) {
                    index.slots[free] = Some((hash, at as u32));
                }
            }
        }
        let mut sources = PackedLists::with_capacity(nodes.len(), edges);
        for node in nodes {
            sources.push(node.deps.iter().map(|dep| index.find(&dep.n)));
        }
        NodeIndex { sources, ..index }
    }

    fn places(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len() - 1;
        (0..PROBES_MAX).map(move |probe| (hash as usize).wrapping_add(probe) & mask)
    }

    pub(super) fn find(&self, id: &NodeId) -> Option<usize> {
        let hash = hash(id);
        for place in self.places(hash) {
            match self.slots[place] {
                None => return None, // it would have been put here
                Some((other, at)) if other == hash && self.ids[at as usize] == *id => {
                    return Some(at as usize);
                }
                Some(_) => {}
            }
        }
        let after = self.ids.partition_point(|other| other <= id);
        let at = after.checked_sub(1)?;
        (self.ids[at] == *id).then_some(at)
    }

    /// Position of the effective node with the id of the node at `at`.
    pub(super) fn effective(&self, at: usize) -> usize {
        if self.is_effective(at) { at } else { self.find(&self.ids[at]).unwrap_or(at) }
    }

    /// Returns whether the node at `at` is the effective one for its id.
    pub(super) fn is_effective(&self, at: usize) -> bool {
        self.ids.get(at + 1).is_none_or(|next| *next != self.ids[at])
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// FNV-1a over eight bytes at a time, with high bits folded into low ones. The result is the same on every
/// machine.
fn hash(id: &NodeId) -> u32 {
    let mix = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 32)
    };
    let (words, rest) = id.as_str().as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(1 + rest.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    mix(hash, rest.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte))) as u32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Settings, normalise};

    #[test]
    fn every_name_is_found_and_no_other_even_where_the_table_is_crowded() {
        for count in [0, 1, 2, 3, 100, 5_000] {
            let nodes: Vec<_> = (0..count).map(|at| json!({"id": format!("n{at}")})).collect();
            let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
            let unchecked = normalise(draft, &Settings::simulation(PolicyDraft::default(), None));
            let mut index = NodeIndex::new(&unchecked.plan().nodes);
            for crowded in [false, true] {
                if crowded {
                    index.slots.fill(Some((0, 0))); // as if all places were taken by names of another hash
                }
                for (at, id) in index.ids.iter().enumerate() {
                    assert_eq!(index.find(id), Some(at));
                }
                for stranger in ["", "n", "n-1", "zz", "N0"] {
                    assert_eq!(index.find(&stranger.into()), None, "{stranger}");
                }
            }
        }
    }
}
