//! Which steps a step came after.

use std::collections::BTreeSet;

use super::View;
use crate::id::NodeId;
use crate::plan::{Dep, Node, On};
use crate::run::Run;

/// The kept nodes whose results the author of `node` could have read: they had ended when it wrote the node.
pub(super) fn read_by_author(view: View<'_>, node: &Node, kept: &[&Node]) -> BTreeSet<NodeId> {
    let commit = |id: &NodeId| view.run.instance(id).map_or(0, |instance| instance.commit_number);
    let Some(author) = view.written_by(&node.id).map(commit) else { return BTreeSet::new() };
    let before = kept.iter().map(|earlier| &earlier.id).filter(|id| **id != node.id && commit(id) < author);
    before.cloned().collect()
}

/// Edges among kept nodes. Edges through control nodes fall away; where one of two steps acts on the world, a step of a later answer
/// still waits for those of earlier ones.
pub(super) fn deps(run: &Run, node: &Node, kept: &[&Node]) -> Vec<Dep> {
    let is_kept = |dep: &&Dep| kept.iter().any(|other| other.id == dep.n);
    let mut deps: Vec<Dep> = node.deps.iter().filter(is_kept).cloned().collect();
    let Some(view) = View::of(run, 0) else { return deps };
    let read = read_by_author(view, node, kept);
    for earlier in kept.iter().filter(|earlier| read.contains(&earlier.id)) {
        let is_ordered = node.acts() || earlier.acts();
        if is_ordered && !deps.iter().any(|dep| dep.n == earlier.id) {
            deps.push(Dep { n: earlier.id.clone(), on: On::Success });
        }
    }
    deps
}
