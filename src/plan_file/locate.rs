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

/// What a JSON pointer leads to as far as it leads to something, where the keys of the steps to it stand (an item of a list
/// has none), and the step that leads to nothing.
fn walk<'a>(root: &'a Leaf, pointer: &str) -> (&'a Leaf, Vec<Option<usize>>, Option<String>) {
    let (mut leaf, mut keys) = (root, Vec::new());
    for step in pointer_steps(pointer) {
        let next = match &leaf.tree {
            Tree::List(items) => {
                step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (None, item))
            }
            _ => leaf.get(&step).map(|entry| (Some(entry.key_at), &entry.leaf)),
        };
        let Some((key_at, inner)) = next else { return (leaf, keys, Some(step)) };
        keys.push(key_at);
        leaf = inner;
    }
    (leaf, keys, None)
}

/// The byte to point at for a JSON pointer. A short value is pointed at itself, a longer one at its key, and so is
/// any with `key`. What is not there is pointed at by what stands for it, or by what it should stand in.
pub(super) fn pointed(root: &Leaf, pointer: &str, key: bool) -> usize {
    let (leaf, keys, missing) = walk(root, pointer);
    let key_at = keys.last().copied().flatten();
    if let Some(missing) = missing {
        let stands_for = instead(&missing).iter().find_map(|other| leaf.get(other));
        return match (stands_for, key_at) {
            (Some(entry), _) => entry.leaf.at,
            (None, Some(key_at)) => key_at,
            (None, None) => name_of(leaf),
        };
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
    walk(root, pointer).1.iter().flatten().any(|at| keys.contains(at))
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
