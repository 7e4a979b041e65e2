//! Whether a reference can find anything: the other half of V17. A result passes its node's contract before anybody
//! reads it, so what a schema of the contract rules out is never there.

use serde_json::Value;

use super::super::fault::{Fault, FaultCode};
use super::super::{Method, Node, ParamRef};
use super::references::is_path;
use super::{Known, Subject};
use crate::id::NodeId;

pub(super) fn judge(subject: &Subject<'_>, at: usize, known: &Known<'_>, faults: &mut Vec<Fault>) {
    for (name, reference) in &subject.plan.nodes[at].param_refs {
        path(subject, at, name, reference, known, faults);
    }
}

/// Judges what the node at `at` reads of one other.
pub(super) fn between(
    subject: &Subject<'_>,
    at: usize,
    source: &NodeId,
    known: &Known<'_>,
    faults: &mut Vec<Fault>,
) {
    let references = subject.plan.nodes[at].param_refs.iter();
    for (name, reference) in references.filter(|(_, reference)| reference.from == *source) {
        path(subject, at, name, reference, known, faults);
    }
}

fn path(
    subject: &Subject<'_>,
    at: usize,
    name: &str,
    reference: &ParamRef,
    known: &Known<'_>,
    faults: &mut Vec<Fault>,
) {
    let ParamRef { from, path: Some(path), .. } = reference else { return };
    let Some(source) = subject.table.find(from).filter(|_| is_path(path)) else { return };
    let (node, source) = (&subject.plan.nodes[at], &subject.plan.nodes[source]);
    let of_tool = source.tool.as_deref().and_then(|tool| known.result(tool));
    let schemas = contract_schemas(source).chain(of_tool.as_deref());
    let Some(dead_end) = schemas.filter_map(|schema| dead_end(schema, path)).next() else { return };
    let detail = format!("parameter {name} refers to {path} of {from}: {}", dead_end.what);
    let otherwise = match dead_end.known.as_slice() {
        [] => dead_end.mend(),
        known => format!("there are {}", known.join(", ")),
    };
    let mend = known.hints.mend(&dead_end.segment, dead_end.known, &otherwise);
    let place = subject.place(at).key("param_refs").key(name).key("path");
    faults.push(Fault::new(FaultCode::V17, &node.id, detail, mend).at(&place));
}

fn contract_schemas(node: &Node) -> impl Iterator<Item = &Value> {
    node.contract.iter().filter(|rule| rule.method == Method::Schema).filter_map(|rule| rule.spec.as_deref())
}

/// Where a path leads to nothing.
struct DeadEnd<'a> {
    segment: String,
    /// The path as far as it leads to something; empty: not at all.
    walked: String,
    /// Whether what stands there is a list.
    list: bool,
    what: String,
    known: Vec<&'a str>,
}

impl DeadEnd<'_> {
    /// What to write where there are no names to choose from. A path has a step: no reference takes a whole result.
    fn mend(&self) -> String {
        let DeadEnd { walked, list, .. } = self;
        match (walked.as_str(), list) {
            ("", true) => "write the index of an item, such as 0".to_owned(),
            ("", false) => {
                "leave the reference out: it has no part to take; to wait for it, use `deps`".to_owned()
            }
            (walked, true) => format!("take an item, such as {walked}.0, or the whole of it: {walked}"),
            (walked, false) => format!("take the whole of it: {walked}"),
        }
    }
}

/// Words that say something of the parts of a value besides `properties` and `items`: nothing is known there.
const COMPOSED: [&str; 10] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
    "unevaluatedProperties",
];

/// The first segment of a path that values under the schema never have.
fn dead_end<'a>(schema: &'a Value, path: &str) -> Option<DeadEnd<'a>> {
    let mut schema = schema;
    let mut walked: Vec<&str> = Vec::new();
    for segment in path.split('.') {
        let members = schema.as_object()?;
        if COMPOSED.iter().any(|&word| members.contains_key(word)) {
            return None;
        }
        let end = |what: String, list: bool, known: Vec<&'a str>| {
            Some(DeadEnd { segment: segment.to_owned(), walked: walked.join("."), list, what, known })
        };
        let whole = if walked.is_empty() { "the result".to_owned() } else { walked.join(".") };
        match members.get("type").and_then(Value::as_str)? {
            "object" => {
                let named = members.get("properties").and_then(Value::as_object);
                let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
                match (named.and_then(|named| named.get(segment)), closed) {
                    (Some(inner), _) => schema = inner,
                    (None, true) => {
                        let known = named.into_iter().flat_map(|named| named.keys()).map(String::as_str);
                        return end(format!("{whole} has no {segment}"), false, known.collect());
                    }
                    (None, false) => return None,
                }
            }
            "array" if segment.bytes().all(|byte| byte.is_ascii_digit()) => {
                if members.contains_key("prefixItems") {
                    return None;
                }
                schema = members.get("items")?;
            }
            "array" => {
                let what = format!("{whole} is a list, and {segment} is no index");
                return end(what, true, Vec::new());
            }
            scalar => {
                let word = match scalar {
                    "string" => "a text",
                    "integer" | "number" => "a number",
                    "boolean" => "true or false",
                    _ => "null",
                };
                let what = format!("{whole} is {word}, which has no {segment}");
                return end(what, false, Vec::new());
            }
        }
        walked.push(segment);
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_ends_where_the_schema_has_nothing() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"},
            "free": {"type": "object"}, "any": {}, "some": {"anyOf": [{"type": "object"}]}}});
        for (path, what) in [
            ("files", None),
            ("files.0", None),
            ("files.0.x", Some("files.0 is a text, which has no x")),
            ("files.x", Some("files is a list, and x is no index")),
            ("fils", Some("the result has no fils")),
            ("count.0", Some("count is a number, which has no 0")),
            ("free.x.y", None),
            ("any.x", None),
            ("some.x", None),
        ] {
            assert_eq!(dead_end(&schema, path).map(|end| end.what).as_deref(), what, "{path}");
        }
        assert!(dead_end(&json!(true), "x").is_none());
    }

    #[test]
    fn the_mend_is_a_path_that_may_be_written() {
        let schema = json!({"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}}});
        for (schema, path, mend) in [
            (&schema, "files.0.x", "take the whole of it: files.0"),
            (&schema, "files.x", "take an item, such as files.0, or the whole of it: files"),
            (&schema, "count.0", "take the whole of it: count"),
            (&json!({"type": "array"}), "x", "write the index of an item, such as 0"),
            (
                &json!({"type": "null"}),
                "x",
                "leave the reference out: it has no part to take; to wait for it, use `deps`",
            ),
        ] {
            assert_eq!(dead_end(schema, path).unwrap().mend(), mend, "{path}");
        }
    }
}
