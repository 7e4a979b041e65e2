//! Suppression of diagnostics that only follow from shape or parameter errors.
//!
//! After a shape error the reader repairs or drops the wrong part and validates the rest of the plan, so one
//! run reports as many independent errors as possible. Some diagnostics of the repaired plan would be
//! artefacts of the repair: dropping a node makes its consumers' dependencies unknown, dropping an `effect`
//! makes it disagree with `impact`. The filter records, per wrong part, the fields and rules with an unknown
//! outcome, and drops diagnostics about them. Invariant: a diagnostic that passes the filter also holds for
//! the plan as written.

use std::collections::BTreeSet;

use ostler_kernel::json::MAX_INTEGER;
use ostler_kernel::plan::{Diagnostic, DiagnosticCode, Pointer};

use super::data::{Data, Entry, Located, Part};
use super::locate;
use super::shape::ShapeError;

/// Parts of a plan with an unknown outcome. Nodes are identified by their byte offset, because dropping a
/// node shifts the indices of the others.
#[derive(Debug, Clone, Default)]
pub(super) struct CascadeFilter {
    /// True if no diagnostic can be trusted.
    everything: bool,
    /// True if nodes or edges may be missing: only rules about single nodes can be trusted.
    graph_unknown: bool,
    /// True if the purpose or effect of some node is unknown (V05, V12).
    purpose_unknown: bool,
    nodes_suppressed: BTreeSet<usize>,
    /// Fields without trusted diagnostics, including everything below: of a node, or of the plan.
    fields_suppressed: BTreeSet<(Option<usize>, String)>,
    /// True if a present field beside the wrong one is suppressed too.
    siblings_suppressed: bool,
}

/// Rules about a single node, or about the plan's own fields.
const LOCAL_RULES: [DiagnosticCode; 12] = [
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
    /// Suppresses everything, after too many errors.
    pub(super) fn suppress_all(&mut self) {
        self.everything = true;
    }

    pub(super) fn suppresses_all(&self) -> bool {
        self.everything
    }

    /// Returns whether more than the wrong parts themselves is suppressed.
    pub(super) fn hides_more(&self) -> bool {
        self.everything || self.graph_unknown || self.purpose_unknown || self.siblings_suppressed
    }

    /// Records a wrong part before its repair. Returns a stand-in for the value, or `None` to drop the part
    /// or to apply the suggestion.
    pub(super) fn record_shape_error(
        &mut self,
        text: &str,
        root: &Located,
        wrong: &ShapeError,
        part: Part,
    ) -> Option<Data> {
        // A typing error is read as meant, and an unknown key adds nothing to its map.
        if wrong.suggestion.is_some() || matches!(part, Part::Key(_)) {
            return None;
        }
        if let Some(key) = wrong.missing.filter(|_| part == Part::Value(root.at)) {
            self.record(root, &[key]);
            return None;
        }
        let (way, located) = locate::path_to(root, part).unwrap_or((Vec::new(), root));
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        let stand_in = stand_in_for(&way, &located.data).filter(|stand_in| match stand_in {
            // A dependency on `7` does not match an id written as `007`.
            Data::Text(name) if way.last() == Some(&"id") => is_written(name, text, located.at),
            _ => true,
        });
        match way.as_slice() {
            // A node needs a name.
            ["nodes", _, "id"] if stand_in.is_none() => self.graph_unknown = true,
            way => self.record(root, way),
        }
        stand_in
    }

    /// Records a text with an unset parameter; the text stays as written.
    pub(super) fn record_parameter(&mut self, root: &Located, at: usize) {
        let Some((way, _)) = locate::path_to(root, Part::Value(at)) else { return self.suppress_all() };
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        match way.as_slice() {
            // Another node may depend on the unexpanded name.
            ["nodes", _, "id"] => {
                self.graph_unknown = true;
                self.record(root, &way);
            }
            ["nodes", node, "params", below @ ..] if !below.is_empty() => {
                let node = node_at(root, node);
                self.suppress(node, &way[2..]);
                // The class of a call may depend on its parameters.
                ["effect", "impact"].iter().for_each(|key| self.suppress(node, &[*key]));
            }
            way => self.record(root, way),
        }
    }

    /// Records the wrong value at the end of a path.
    fn record(&mut self, root: &Located, way: &[&str]) {
        match way {
            [] => self.everything = true,
            ["nodes", index, key, ..] => match (node_at(root, index), dependent_fields(key)) {
                (Some(node), Some((keys, purpose_unknown))) => {
                    keys.iter().for_each(|key| self.suppress(Some(node), &[*key]));
                    self.suppress(Some(node), &["fallback"]);
                    let stands = |other: &&str| {
                        leaf_at(root, index).is_some_and(|located| located.get(other).is_some())
                    };
                    let mut besides = keys.iter().chain(&["fallback"]).filter(|other| *other != key);
                    self.siblings_suppressed |= *key == "fallback" || besides.any(stands);
                    self.purpose_unknown |= purpose_unknown;
                }
                (Some(node), None) => {
                    self.nodes_suppressed.insert(node);
                    self.purpose_unknown = true;
                }
                (None, _) => self.everything = true,
            },
            ["nodes", ..] | ["strict"] => self.graph_unknown = true,
            ["policy", key, ..] => self.suppress(None, &["policy", *key]),
            ["outputs", ..] => {
                self.purpose_unknown = true;
                self.suppress(None, &["outputs"]);
            }
            [key, ..] => self.suppress(None, &[*key]),
        }
    }

    fn suppress(&mut self, node: Option<usize>, steps: &[&str]) {
        let pointer = steps.iter().fold(Pointer::root(), |pointer, step| pointer.key(step));
        self.fields_suppressed.insert((node, pointer.as_str().to_owned()));
    }

    /// Returns whether a diagnostic of the repaired plan also holds for the plan as written.
    pub(super) fn allows(&self, root: &Located, fault: &Diagnostic) -> bool {
        if self.graph_unknown && !LOCAL_RULES.contains(&fault.code) {
            return false;
        }
        if self.purpose_unknown && matches!(fault.code, DiagnosticCode::V05 | DiagnosticCode::V12) {
            return false;
        }
        let (node, rest) = owner(root, &fault.pointer);
        if node.is_some_and(|node| self.nodes_suppressed.contains(&node)) {
            return false;
        }
        let within = |place: &str| {
            rest.strip_prefix(place).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let mut fields_suppressed =
            self.fields_suppressed.range((node, String::new())..).take_while(|(of, _)| *of == node);
        !fields_suppressed.any(|(_, place)| within(place.as_str()))
    }
}

/// Fields of a node that cannot be checked if the value of `key` is unknown, including `key`, and whether the
/// node's purpose or effect is unknown too; `None` if no field can be checked.
fn dependent_fields(key: &str) -> Option<(&'static [&'static str], bool)> {
    let dependent_fields: (&[&str], bool) = match key {
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
        "tool" | "kind" | "model" => (&CALL_FIELDS, true),
        _ => return None,
    };
    Some(dependent_fields)
}

/// Fields with a meaning that depends on the tool.
const CALL_FIELDS: [&str; 12] = [
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

/// Stand-in for a wrong value, chosen so that no diagnostic mentions the stand-in.
fn stand_in_for(way: &[&str], data: &Data) -> Option<Data> {
    let number = |number: u64| Some(Data::Number(number.into()));
    match (way, data) {
        (["id"] | ["nodes", _, "id"], Data::Number(number)) => Some(Data::Text(number.to_string())),
        (["id"] | ["nodes", _, "id"], Data::Bool(flag)) => Some(Data::Text(flag.to_string())),
        (["nodes", _, "retries" | "patches"], _) => number(0),
        (["nodes", _, "human_timeout"], _) => number(1),
        (["nodes", _, "approval"], _) => Some(Data::Text("before".to_owned())),
        (["policy", "max_nodes" | "max_depth"], _) => number(u32::MAX.into()),
        (["policy", "max_attempts"], _) => number(MAX_INTEGER),
        (["policy"], _) => {
            let limit = |key: &str| {
                let data = stand_in_for(&["policy", key], data)?;
                let located = Located { at: NOWHERE, plain: false, data };
                Some(Entry { key: key.to_owned(), key_at: NOWHERE, located })
            };
            Some(Data::Map(
                ["max_nodes", "max_depth", "max_attempts"].into_iter().filter_map(limit).collect(),
            ))
        }
        _ => None,
    }
}

/// Offset of parts absent from the text.
const NOWHERE: usize = usize::MAX;

/// Returns whether `word` stands at byte `at` as a whole word.
fn is_written(word: &str, text: &str, at: usize) -> bool {
    let rest = text.get(at..).and_then(|rest| rest.strip_prefix(word));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "+-._".contains(c)))
}

fn leaf_at<'a>(root: &'a Located, node: &str) -> Option<&'a Located> {
    root.get("nodes")?.located.items().get(node.parse::<usize>().ok()?)
}

/// Byte offset of the node at a written index.
fn node_at(root: &Located, node: &str) -> Option<usize> {
    leaf_at(root, node).map(|node| node.at)
}

/// Splits a JSON pointer into the node and the rest of the pointer.
fn owner<'a>(root: &Located, pointer: &'a str) -> (Option<usize>, &'a str) {
    let Some(below) = pointer.strip_prefix("/nodes/") else { return (None, pointer) };
    let end = below.find('/').unwrap_or(below.len());
    let (node, rest) = below.split_at(end);
    match node_at(root, node) {
        Some(node) => (Some(node), rest),
        None => (None, pointer),
    }
}
