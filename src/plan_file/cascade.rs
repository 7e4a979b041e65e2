//! What cannot be judged of a plan of which a part is not what it should be. Everything else is.

use std::collections::BTreeSet;

use ostler_kernel::json::MAX_INTEGER;
use ostler_kernel::plan::{Diagnostic, DiagnosticCode, Pointer};

use super::locate;
use super::shape::ShapeError;
use super::data::{Entry, Located, Part, Data};

/// What was found of a plan that is not what it should be, as far as it keeps other faults from being known. Nodes are
/// known by the byte they begin at: those that were left out have changed where the others stand.
#[derive(Debug, Clone, Default)]
pub(super) struct CascadeFilter {
    /// Nothing is left to judge.
    lost: bool,
    /// There may be other nodes, or other edges than are written: each node can be judged by itself alone.
    nodes: bool,
    /// What nodes are for, or do to the world, is not known of all.
    purpose: bool,
    /// Nodes of which nothing is judged.
    hurt: BTreeSet<usize>,
    /// Places of which nothing is judged, with all below: of a node, or of the plan.
    places: BTreeSet<(Option<usize>, String)>,
    /// Whether what stands in a node beside the part that is not what it should be is not judged for it.
    beside: bool,
}

/// What is found out by looking at a node, or at what the plan says of itself, whatever else there is.
const OF_ITSELF: [DiagnosticCode; 12] = [
    DiagnosticCode::V08,
    DiagnosticCode::V09,
    DiagnosticCode::V14,
    DiagnosticCode::V15,
    DiagnosticCode::V16,
    DiagnosticCode::V20,
    DiagnosticCode::V21,
    DiagnosticCode::V22,
    DiagnosticCode::V23,
    DiagnosticCode::V24,
    DiagnosticCode::V25,
    DiagnosticCode::V26,
];

impl CascadeFilter {
    /// There is too much of it to say what it does not touch.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether there is nothing to judge.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether more is not judged than the parts themselves that are not what they should be.
    pub(super) fn hides(&self) -> bool {
        self.lost || self.nodes || self.purpose || self.beside
    }

    /// Takes in a part that is not what it should be, before it is mended. Gives what stands in for it, unless it is left
    /// out, or read as what was meant.
    pub(super) fn shape(&mut self, text: &str, root: &Located, wrong: &ShapeError, part: Part) -> Option<Data> {
        // A slip is read as it was meant, and an unknown key tells nothing that its place lacks.
        if wrong.meant.is_some() || matches!(part, Part::Key(_)) {
            return None;
        }
        if let Some(key) = wrong.missing.filter(|_| part == Part::Value(root.at)) {
            self.take(root, &[key]);
            return None;
        }
        let (way, leaf) = locate::way(root, part).unwrap_or((Vec::new(), root));
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        let stand_in = instead_of(&way, &leaf.tree).filter(|stand_in| match stand_in {
            // `007` is no 7 to who depends on it.
            Data::Text(name) if way.last() == Some(&"id") => is_written(name, text, leaf.at),
            _ => true,
        });
        match way.as_slice() {
            // Without a name it is no node.
            ["nodes", _, "id"] if stand_in.is_none() => self.nodes = true,
            way => self.take(root, way),
        }
        stand_in
    }

    /// Takes in a text with a parameter that is not given: it stands there as it is written.
    pub(super) fn parameter(&mut self, root: &Located, at: usize) {
        let Some((way, _)) = locate::way(root, Part::Value(at)) else { return self.lose() };
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        match way.as_slice() {
            // Another node may depend on it by the name that it has.
            ["nodes", _, "id"] => {
                self.nodes = true;
                self.take(root, &way);
            }
            ["nodes", node, "params", below @ ..] if !below.is_empty() => {
                let node = node_at(root, node);
                self.place(node, &way[2..]);
                // What a call does to the world may depend on what it is given.
                ["effect", "impact"].iter().for_each(|key| self.place(node, &[*key]));
            }
            way => self.take(root, way),
        }
    }

    /// Takes in what stands at the end of a way, and is not what it should be.
    fn take(&mut self, root: &Located, way: &[&str]) {
        match way {
            [] => self.lost = true,
            ["nodes", index, key, ..] => match (node_at(root, index), without(key)) {
                (Some(node), Some((keys, purpose))) => {
                    keys.iter().for_each(|key| self.place(Some(node), &[*key]));
                    self.place(Some(node), &["fallback"]);
                    let stands =
                        |other: &&str| leaf_at(root, index).is_some_and(|leaf| leaf.get(other).is_some());
                    let mut besides = keys.iter().chain(&["fallback"]).filter(|other| *other != key);
                    self.beside |= *key == "fallback" || besides.any(stands);
                    self.purpose |= purpose;
                }
                (Some(node), None) => {
                    self.hurt.insert(node);
                    self.purpose = true;
                }
                (None, _) => self.lost = true,
            },
            ["nodes", ..] | ["strict"] => self.nodes = true,
            ["policy", key, ..] => self.place(None, &["policy", *key]),
            ["outputs", ..] => {
                self.purpose = true;
                self.place(None, &["outputs"]);
            }
            [key, ..] => self.place(None, &[*key]),
        }
    }

    fn place(&mut self, node: Option<usize>, steps: &[&str]) {
        let pointer = steps.iter().fold(Pointer::root(), |pointer, step| pointer.key(step));
        self.places.insert((node, pointer.as_str().to_owned()));
    }

    /// Whether a fault of what is read is one of what was written too.
    pub(super) fn spares(&self, root: &Located, fault: &Diagnostic) -> bool {
        if self.nodes && !OF_ITSELF.contains(&fault.code) {
            return false;
        }
        if self.purpose && matches!(fault.code, DiagnosticCode::V05 | DiagnosticCode::V12) {
            return false;
        }
        let (node, rest) = owner(root, &fault.pointer);
        if node.is_some_and(|node| self.hurt.contains(&node)) {
            return false;
        }
        let within = |place: &str| {
            rest.strip_prefix(place).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let mut places = self.places.range((node, String::new())..).take_while(|(of, _)| *of == node);
        !places.any(|(_, place)| within(place.as_str()))
    }
}

/// Keys of a node that cannot be judged where the value of this one is not known, this one among them, and whether what the node is
/// for, or does to the world, is not known then either; `None`: no key can.
fn without(key: &str) -> Option<(&'static [&'static str], bool)> {
    let without: (&[&str], bool) = match key {
        "id" => (&["id"], false),
        "timeout" => (&["timeout", "heartbeat_timeout"], false),
        "heartbeat_timeout" => (&["heartbeat_timeout"], false),
        "human_timeout" => (&["human_timeout"], false),
        "retries" => (&["retries"], false),
        "patches" => (&["patches"], false),
        "approval" => (&["approval", "human_timeout"], false),
        "idem" => (&["idem", "retries", "patches"], false),
        "effect" => (&["effect", "impact"], false),
        "fallback" => (&["fallback"], false),
        "impact" => (&["effect", "impact"], true),
        "contract" => (&["contract"], true),
        "params" => (&["params", "effect", "impact", "contract", "idem", "retries", "patches"], true),
        "tool" | "kind" | "model" => (&OF_A_CALL, true),
        _ => return None,
    };
    Some(without)
}

/// Keys of a node that mean something else for another tool.
const OF_A_CALL: [&str; 12] = [
    "tool",
    "kind",
    "model",
    "params",
    "contract",
    "effect",
    "impact",
    "idem",
    "retries",
    "patches",
    "approval",
    "human_timeout",
];

/// What stands in for a value that is not what it should be, where a default could be at fault: nothing that is told comes
/// of it.
fn instead_of(way: &[&str], tree: &Data) -> Option<Data> {
    let number = |number: u64| Some(Data::Number(number.into()));
    match (way, tree) {
        (["id"] | ["nodes", _, "id"], Data::Number(number)) => Some(Data::Text(number.to_string())),
        (["id"] | ["nodes", _, "id"], Data::Bool(flag)) => Some(Data::Text(flag.to_string())),
        (["nodes", _, "retries" | "patches"], _) => number(0),
        (["nodes", _, "human_timeout"], _) => number(1),
        (["nodes", _, "approval"], _) => Some(Data::Text("before".to_owned())),
        (["policy", "max_nodes" | "max_depth"], _) => number(u32::MAX.into()),
        (["policy", "max_attempts"], _) => number(MAX_INTEGER),
        (["policy"], _) => {
            let limit = |key: &str| {
                let tree = instead_of(&["policy", key], tree)?;
                let leaf = Located { at: NOWHERE, plain: false, tree };
                Some(Entry { key: key.to_owned(), key_at: NOWHERE, leaf })
            };
            Some(Data::Map(
                ["max_nodes", "max_depth", "max_attempts"].into_iter().filter_map(limit).collect(),
            ))
        }
        _ => None,
    }
}

/// The last byte that no text has: where parts stand that nobody wrote.
const NOWHERE: usize = usize::MAX;

/// Whether a word stands at a byte of the text, as a whole.
fn is_written(word: &str, text: &str, at: usize) -> bool {
    let rest = text.get(at..).and_then(|rest| rest.strip_prefix(word));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "+-._".contains(c)))
}

/// A node of the plan.
fn leaf_at<'a>(root: &'a Located, node: &str) -> Option<&'a Located> {
    root.get("nodes")?.leaf.items().get(node.parse::<usize>().ok()?)
}

/// The byte that a node of the plan begins at.
fn node_at(root: &Located, node: &str) -> Option<usize> {
    leaf_at(root, node).map(|node| node.at)
}

/// The node that a JSON pointer leads into, if it does, and how it goes on from there.
fn owner<'a>(root: &Located, pointer: &'a str) -> (Option<usize>, &'a str) {
    let Some(below) = pointer.strip_prefix("/nodes/") else { return (None, pointer) };
    let end = below.find('/').unwrap_or(below.len());
    let (node, rest) = below.split_at(end);
    match node_at(root, node) {
        Some(node) => (Some(node), rest),
        None => (None, pointer),
    }
}
