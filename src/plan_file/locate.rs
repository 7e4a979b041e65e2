//! Offsets of plan parts in a file.

use std::collections::BTreeSet;

use ostler_kernel::plan::pointer_steps;

use super::data::{Data, Located, Part};

/// Keys and indices on the path to a part, and the value there; the outermost value if several share an
/// offset.
pub(super) fn path_to(root: &Located, part: Part) -> Option<(Vec<String>, &Located)> {
    let mut path = Vec::new();
    match descend(root, part, &mut path) {
        Some(located) => Some((path, located)),
        None => (part == Part::Value(root.at)).then_some((path, root)),
    }
}

/// Extends `way` down to the part; leaves `way` unchanged without a match.
fn descend<'a>(located: &'a Located, part: Part, path: &mut Vec<String>) -> Option<&'a Located> {
    let is_it = |located: &Located| part == Part::Value(located.at);
    let mut into = |step: String, located: &'a Located| {
        if !matches!(located.data, Data::List(_) | Data::Map(_)) {
            return None;
        }
        path.push(step);
        let found = descend(located, part, path);
        if found.is_none() {
            path.pop();
        }
        found
    };
    match &located.data {
        Data::List(items) => match items.iter().position(is_it) {
            Some(at) => {
                path.push(at.to_string());
                Some(&items[at])
            }
            None => items.iter().enumerate().find_map(|(at, item)| into(at.to_string(), item)),
        },
        Data::Map(entries) => {
            let found = entries.iter().find(|entry| part == Part::Key(entry.key_at) || is_it(&entry.located));
            match found {
                Some(entry) => {
                    path.push(entry.key.clone());
                    Some(&entry.located)
                }
                None => entries.iter().find_map(|entry| into(entry.key.clone(), &entry.located)),
            }
        }
        _ => None,
    }
}

/// Follows a JSON pointer. Returns the last value reached, the offsets of the keys on the path (`None` for
/// list items), and the first missing step.
fn walk<'a>(root: &'a Located, pointer: &str) -> (&'a Located, Vec<Option<usize>>, Option<String>) {
    let (mut located, mut keys) = (root, Vec::new());
    for step in pointer_steps(pointer) {
        let next = match &located.data {
            Data::List(items) => {
                step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (None, item))
            }
            _ => located.get(&step).map(|entry| (Some(entry.key_at), &entry.located)),
        };
        let Some((key_at, inner)) = next else { return (located, keys, Some(step)) };
        keys.push(key_at);
        located = inner;
    }
    (located, keys, None)
}

/// Byte offset to mark for a JSON pointer. A scalar is marked itself, a list or map at its key, anything at
/// its key if `key` is set. A missing part is marked at a sibling that determines its value, or at the
/// surrounding part.
pub(super) fn offset_of(root: &Located, pointer: &str, key: bool) -> usize {
    let (located, keys, missing) = walk(root, pointer);
    let key_at = keys.last().copied().flatten();
    if let Some(missing) = missing {
        let stands_for = substitutes(&missing).iter().find_map(|other| located.get(other));
        return match (stands_for, key_at) {
            (Some(entry), _) => entry.located.at,
            (None, Some(key_at)) => key_at,
            (None, None) => name_offset(located),
        };
    }
    match (&located.data, key_at) {
        (Data::List(_) | Data::Map(_), Some(key_at)) => key_at,
        (_, Some(key_at)) if key => key_at,
        (Data::Map(_), None) => name_offset(located),
        _ => located.at,
    }
}

/// Returns whether a JSON pointer passes one of the keys at these offsets.
pub(super) fn passes_through(root: &Located, pointer: &str, keys: &BTreeSet<usize>) -> bool {
    walk(root, pointer).1.iter().flatten().any(|at| keys.contains(at))
}

fn name_offset(located: &Located) -> usize {
    ["id", "n"].iter().find_map(|key| located.get(key)).map_or(located.at, |entry| entry.located.at)
}

/// Keys of a node that determine the value of an absent key.
fn substitutes(key: &str) -> &'static [&'static str] {
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
