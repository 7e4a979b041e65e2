//! Where in a file a part of the plan stands.

use std::collections::BTreeSet;

use ostler_kernel::plan::pointer_steps;

use super::data::{Located, Part, Data};

/// The way to a part, as the keys and indices that it goes through, and what stands there. Of parts at one place it is the
/// outermost.
pub(super) fn way(root: &Located, part: Part) -> Option<(Vec<String>, &Located)> {
    let mut way = Vec::new();
    match down_to(root, part, &mut way) {
        Some(leaf) => Some((way, leaf)),
        None => (part == Part::Value(root.at)).then_some((way, root)),
    }
}

/// Goes on to a part from what holds it; of a way that leads nowhere nothing is left.
fn down_to<'a>(leaf: &'a Located, part: Part, way: &mut Vec<String>) -> Option<&'a Located> {
    let is_it = |leaf: &Located| part == Part::Value(leaf.at);
    let mut into = |step: String, leaf: &'a Located| {
        if !matches!(leaf.tree, Data::List(_) | Data::Map(_)) {
            return None;
        }
        way.push(step);
        let found = down_to(leaf, part, way);
        if found.is_none() {
            way.pop();
        }
        found
    };
    match &leaf.tree {
        Data::List(items) => match items.iter().position(is_it) {
            Some(at) => {
                way.push(at.to_string());
                Some(&items[at])
            }
            None => items.iter().enumerate().find_map(|(at, item)| into(at.to_string(), item)),
        },
        Data::Map(entries) => {
            let found = entries.iter().find(|entry| part == Part::Key(entry.key_at) || is_it(&entry.leaf));
            match found {
                Some(entry) => {
                    way.push(entry.key.clone());
                    Some(&entry.leaf)
                }
                None => entries.iter().find_map(|entry| into(entry.key.clone(), &entry.leaf)),
            }
        }
        _ => None,
    }
}

/// What a JSON pointer leads to as far as it leads to something, where the keys of the steps to it stand (an item of a list
/// has none), and the step that leads to nothing.
fn walk<'a>(root: &'a Located, pointer: &str) -> (&'a Located, Vec<Option<usize>>, Option<String>) {
    let (mut leaf, mut keys) = (root, Vec::new());
    for step in pointer_steps(pointer) {
        let next = match &leaf.tree {
            Data::List(items) => {
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
pub(super) fn pointed(root: &Located, pointer: &str, key: bool) -> usize {
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
        (Data::List(_) | Data::Map(_), Some(key_at)) => key_at,
        (_, Some(key_at)) if key => key_at,
        (Data::Map(_), None) => name_of(leaf),
        _ => leaf.at,
    }
}

/// Whether a JSON pointer leads through one of the keys at these bytes.
pub(super) fn passes(root: &Located, pointer: &str, keys: &BTreeSet<usize>) -> bool {
    walk(root, pointer).1.iter().flatten().any(|at| keys.contains(at))
}

/// Where a map is called by its name.
fn name_of(leaf: &Located) -> usize {
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
