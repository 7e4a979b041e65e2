//! Where in a file a part of the plan stands.

use std::collections::BTreeSet;

use ostler_kernel::plan::pointer_steps;

use super::tree::{Leaf, Part, Tree};

/// The id of the node that a part belongs to, and whether the part is the whole node or its id.
pub(super) fn node_at(root: &Leaf, part: Part) -> Option<(String, bool)> {
    let nodes = root.get("nodes")?;
    let node = nodes.leaf.items().iter().find(|node| holds(node, part))?;
    let id = node.get("id");
    let whole = part == Part::Value(node.at)
        || id.is_none_or(|id| part == Part::Key(id.key_at) || part == Part::Value(id.leaf.at));
    Some((id.and_then(|id| id.leaf.text()).unwrap_or_default().to_owned(), whole))
}

fn holds(leaf: &Leaf, part: Part) -> bool {
    part == Part::Value(leaf.at)
        || match &leaf.tree {
            Tree::List(items) => items.iter().any(|item| holds(item, part)),
            Tree::Map(entries) => {
                entries.iter().any(|entry| part == Part::Key(entry.key_at) || holds(&entry.leaf, part))
            }
            _ => false,
        }
}

/// The byte to point at for a JSON pointer. A short value is pointed at itself, a longer one at its key, and so is
/// any with `key`. What is not there is pointed at by what stands for it, or by what it should stand in.
pub(super) fn pointed(root: &Leaf, pointer: &str, key: bool) -> usize {
    let mut leaf = root;
    let mut key_at = None;
    for step in pointer_steps(pointer) {
        let next = match &leaf.tree {
            Tree::Map(_) => leaf.get(&step).map(|entry| (Some(entry.key_at), &entry.leaf)),
            Tree::List(items) => {
                step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (None, item))
            }
            _ => None,
        };
        match next {
            Some(next) => (key_at, leaf) = next,
            None => {
                let stands_for = instead(&step).iter().find_map(|other| leaf.get(other));
                return match (stands_for, key_at) {
                    (Some(entry), _) => entry.leaf.at,
                    (None, Some(key_at)) => key_at,
                    (None, None) => name_of(leaf),
                };
            }
        }
    }
    match (&leaf.tree, key_at) {
        (Tree::List(_) | Tree::Map(_), Some(key_at)) => key_at,
        (_, Some(key_at)) if key => key_at,
        (Tree::Map(_), None) => name_of(leaf),
        _ => leaf.at,
    }
}

/// Whether a JSON pointer leads through one of the keys at these bytes.
pub(super) fn passes(root: &Leaf, pointer: &str, keys: &BTreeSet<usize>) -> bool {
    let mut leaf = root;
    for step in pointer_steps(pointer) {
        let next = match &leaf.tree {
            Tree::List(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => match leaf.get(&step) {
                Some(entry) if keys.contains(&entry.key_at) => return true,
                entry => entry.map(|entry| &entry.leaf),
            },
        };
        let Some(next) = next else { return false };
        leaf = next;
    }
    false
}

/// Where a map is called by its name.
fn name_of(leaf: &Leaf) -> usize {
    ["id", "n"].iter().find_map(|key| leaf.get(key)).map_or(leaf.at, |entry| entry.leaf.at)
}

/// The keys of a node that say what a missing one would.
fn instead(key: &str) -> &'static [&'static str] {
    match key {
        "effect" => &["impact", "tool", "kind"],
        "impact" => &["effect", "tool", "kind"],
        "contract" => &["tool", "model", "kind"],
        "kind" => &["model", "tool"],
        "tool" => &["kind"],
        "params" => &["tool", "kind", "model"],
        _ => &[],
    }
}
