//! Where the changes behind recomputations began.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most root changes of a run that are named.
pub const ROOT_CHANGES_MAX: usize = 100;

/// What the records of a run say about a node and its change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// Direct predecessors.
    pub deps: Vec<String>,
    /// What became of the node's result.
    pub kind: ChangeKind,
}

/// Cause of a node's result, as far as changes are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChangeKind {
    /// Nothing is known about the node itself: what changed above passes through.
    #[default]
    Passes,
    /// A recorded result stood in.
    Unchanged,
    /// The node acts on the world or reads it in each run, so its records tell no change.
    Anew,
    /// A person replaced the result: the change in words.
    Edited(String),
    /// Executed for a change of the node itself: the change in words.
    Recomputed(String),
    /// Executed for a change of what it received from this direct predecessor.
    Received(String),
    /// Executed because this direct predecessor acted on the world again, with the same result or another.
    Follows(String),
}

impl ChangeKind {
    fn is_recomputed(&self) -> bool {
        matches!(self, ChangeKind::Recomputed(_) | ChangeKind::Received(_) | ChangeKind::Follows(_))
    }
}

/// A node at which changes began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootChange {
    /// The node.
    pub node: String,
    /// The change, in words.
    pub words: String,
    /// Number of recomputed nodes below.
    pub below: usize,
}

/// The nodes at which changes began, in ascending order of ids: at most [`ROOT_CHANGES_MAX`].
///
/// A node with a change of its own is one. So is a node that acts or reads anew, or whose result a person replaced, if another
/// node was recomputed for that result.
///
/// ```
/// use std::collections::BTreeMap;
/// use ostler_kernel::lineage::{ChangeKind, NodeChange, root_changes};
///
/// let edited = NodeChange { kind: ChangeKind::Edited("edited by ann".into()), ..NodeChange::default() };
/// let below = NodeChange { deps: vec!["criteria".into()], kind: ChangeKind::Received("criteria".into()) };
/// let nodes = BTreeMap::from([("criteria".to_owned(), edited), ("memo".to_owned(), below)]);
/// let roots = root_changes(&nodes);
/// assert_eq!((roots[0].node.as_str(), roots[0].below), ("criteria", 1));
/// ```
pub fn root_changes(nodes: &BTreeMap<String, NodeChange>) -> Vec<RootChange> {
    let mut consumers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, node) in nodes {
        for dep in &node.deps {
            consumers.entry(dep).or_default().push(id);
        }
    }
    let mut roots: BTreeMap<&str, &str> = BTreeMap::new();
    for (id, node) in nodes {
        match &node.kind {
            ChangeKind::Recomputed(words) => drop(roots.insert(id, words)),
            ChangeKind::Received(from) => roots.extend(behind(nodes, from, "gave another result")),
            ChangeKind::Follows(from) => roots.extend(behind(nodes, from, "acted again")),
            _ => {}
        }
    }
    let named = roots.into_iter().take(ROOT_CHANGES_MAX);
    let root = |(node, words): (&str, &str)| RootChange {
        node: node.to_owned(),
        words: words.to_owned(),
        below: below(nodes, &consumers, node),
    };
    named.map(root).collect()
}

/// The nodes without a change of their own that account for a changed result of `from`, each with the change in words; none if
/// a recomputed node accounts for it. `anew`: the words for a node that acts or reads in each run.
fn behind<'a>(
    nodes: &'a BTreeMap<String, NodeChange>,
    from: &'a str,
    anew: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let (mut seen, mut open, mut found) = (BTreeSet::from([from]), VecDeque::from([from]), Vec::new());
    while let Some(id) = open.pop_front() {
        let Some(node) = nodes.get(id) else { continue };
        match &node.kind {
            kind if kind.is_recomputed() => return Vec::new(),
            ChangeKind::Edited(words) => found.push((id, words.as_str())),
            ChangeKind::Anew => found.push((id, anew)),
            ChangeKind::Passes => {
                open.extend(node.deps.iter().map(String::as_str).filter(|dep| seen.insert(dep)));
            }
            _ => {}
        }
    }
    found
}

fn below(nodes: &BTreeMap<String, NodeChange>, consumers: &BTreeMap<&str, Vec<&str>>, root: &str) -> usize {
    let (mut seen, mut open, mut count) = (BTreeSet::from([root]), VecDeque::from([root]), 0);
    while let Some(id) = open.pop_front() {
        for &next in consumers.get(id).map(Vec::as_slice).unwrap_or_default() {
            if seen.insert(next) {
                count += usize::from(nodes.get(next).is_some_and(|node| node.kind.is_recomputed()));
                open.push_back(next);
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(nodes: &[(&str, &[&str], ChangeKind)]) -> Vec<(String, String, usize)> {
        let change = |(id, deps, kind): &(&str, &[&str], ChangeKind)| {
            let deps = deps.iter().map(|&dep| dep.to_owned()).collect();
            ((*id).to_owned(), NodeChange { deps, kind: kind.clone() })
        };
        let nodes = nodes.iter().map(change).collect();
        root_changes(&nodes).into_iter().map(|root| (root.node, root.words, root.below)).collect()
    }

    fn received(from: &str) -> ChangeKind {
        ChangeKind::Received(from.to_owned())
    }

    #[test]
    fn a_source_that_read_something_else_is_a_root() {
        let found = roots(&[
            ("a", &[], ChangeKind::Anew),
            ("b", &[], ChangeKind::Anew),
            ("list", &["a"], ChangeKind::Passes),
            ("memo", &["list", "b"], received("list")),
            ("page", &["memo"], received("memo")),
        ]);
        assert_eq!(found, [("a".to_owned(), "gave another result".to_owned(), 2)]);
    }

    #[test]
    fn a_node_that_acted_again_with_the_same_result_is_told_as_that() {
        let found = roots(&[
            ("act", &[], ChangeKind::Anew),
            ("count", &["act"], ChangeKind::Follows("act".to_owned())),
        ]);
        assert_eq!(found, [("act".to_owned(), "acted again".to_owned(), 1)]);
    }

    #[test]
    fn a_change_above_accounts_for_what_passes_through() {
        let prompt = ChangeKind::Recomputed("prompt changed".to_owned());
        let found = roots(&[
            ("a", &[], ChangeKind::Anew),
            ("b", &[], prompt),
            ("list", &["a", "b"], ChangeKind::Passes),
            ("memo", &["list"], received("list")),
            ("other", &["a"], ChangeKind::Unchanged),
        ]);
        assert_eq!(found, [("b".to_owned(), "prompt changed".to_owned(), 1)]);
    }

    #[test]
    fn an_edit_that_changed_nothing_in_this_run_is_no_root() {
        let edited = || ChangeKind::Edited("edited by ann".to_owned());
        let param = ChangeKind::Recomputed("parameter `n` changed".to_owned());
        let found = roots(&[
            ("a", &[], edited()),
            ("b", &[], param),
            ("memo", &["a", "b"], received("b")),
            ("page", &["a"], ChangeKind::Unchanged),
        ]);
        assert_eq!(found, [("b".to_owned(), "parameter `n` changed".to_owned(), 1)]);
        let found = roots(&[("a", &[], edited()), ("memo", &["a"], received("a"))]);
        assert_eq!(found, [("a".to_owned(), "edited by ann".to_owned(), 1)]);
    }

    #[test]
    fn a_run_names_so_many_roots_and_no_more() {
        let names: Vec<String> = (0..=ROOT_CHANGES_MAX).map(|at| format!("n{at:04}")).collect();
        let changed = |name: &String| {
            (
                name.clone(),
                NodeChange { kind: ChangeKind::Recomputed(String::new()), ..NodeChange::default() },
            )
        };
        assert_eq!(root_changes(&names.iter().map(changed).collect()).len(), ROOT_CHANGES_MAX);
    }
}
