//! Where in a file a fault is: the node it names, the field its rule is about, and in there the word it tells of.

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

/// The byte that a fault points at.
pub(super) fn fault(root: &Leaf, code: &str, name: &str, detail: &str) -> Option<usize> {
    let nodes = root.get("nodes").map(|nodes| nodes.leaf.items()).unwrap_or_default();
    let named = |node: &&Leaf| node.get("id").and_then(|id| id.leaf.text()) == Some(name);
    let node = if code == "V01" { nodes.iter().rfind(named) } else { nodes.iter().find(named) };
    let Some(node) = node else {
        let elsewhere = root.get("outputs").and_then(|outputs| said(&outputs.leaf, name));
        return elsewhere.or_else(|| plan_place(root, code));
    };
    for field in fields(code) {
        if let Some(entry) = node.get(field) {
            // The whole of a short field is the place; in a longer one, the word that the fault tells of.
            return Some(match &entry.leaf.tree {
                Tree::List(_) | Tree::Map(_) => told_of(&entry.leaf, detail).unwrap_or(entry.key_at),
                _ => entry.leaf.at,
            });
        }
    }
    node.get("id").map(|id| id.leaf.at)
}

/// Where faults of the plan as a whole point.
fn plan_place(root: &Leaf, code: &str) -> Option<usize> {
    let field = match code {
        "V13" => "nodes",
        "W05" | "V08" | "V09" => "contract",
        _ => "id",
    };
    root.get(field).map(|entry| entry.key_at)
}

/// The fields of a node that a rule is about, the first that is there counts.
fn fields(code: &str) -> &'static [&'static str] {
    match code {
        "V02" | "V03" => &["deps", "param_refs"],
        "V04" | "V18" | "W01" | "W03" => &["deps", "param_refs"],
        "V06" | "V07" => &["deps", "join"],
        "V08" => &["contract", "tool", "kind", "model"],
        "V09" | "W05" => &["contract"],
        "V10" => &["reads"],
        "V11" | "V17" => &["param_refs"],
        "V12" | "V15" => &["effect", "impact", "tool", "kind"],
        "V14" => &["human_timeout", "timeout", "retries", "patches", "approval"],
        "V16" => &["impact", "contract", "tool"],
        "V19" => &["kind"],
        "V20" => &["tool", "kind"],
        "V21" => &["kind", "model", "tool"],
        "V22" => &["params"],
        _ => &["id"],
    }
}

/// The first key or text below `leaf` that `detail` has as a word.
fn told_of(leaf: &Leaf, detail: &str) -> Option<usize> {
    let is_told = |text: &str| {
        !text.is_empty()
            && detail.match_indices(text).any(|(at, _)| {
                let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                !detail[..at].ends_with(inside) && !detail[at + text.len()..].starts_with(inside)
            })
    };
    match &leaf.tree {
        Tree::Text(text) => is_told(text).then_some(leaf.at),
        Tree::List(items) => items.iter().find_map(|item| told_of(item, detail)),
        Tree::Map(entries) => entries.iter().find_map(|entry| {
            let below = told_of(&entry.leaf, detail);
            below.or_else(|| is_told(&entry.key).then_some(entry.key_at))
        }),
        _ => None,
    }
}

/// Where a list holds this text.
fn said(leaf: &Leaf, text: &str) -> Option<usize> {
    leaf.items().iter().find(|item| item.text() == Some(text)).map(|item| item.at)
}
