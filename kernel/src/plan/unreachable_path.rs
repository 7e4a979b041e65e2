//! Paths into results that the result schemas rule out, for V17 (references) and W07 (templates).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::{Method, Node, Settings};

/// Schemas of results before any run. A result passes the contract of its node and the schema of its tool
/// before any reader, so a path ruled out by one of these schemas never exists.
pub(super) struct ResultSchemas<'a> {
    settings: &'a Settings<'a>,
    of_tools: RefCell<BTreeMap<String, Option<Arc<Value>>>>,
}

impl<'a> ResultSchemas<'a> {
    pub(super) fn new(settings: &'a Settings<'a>) -> ResultSchemas<'a> {
        ResultSchemas { settings, of_tools: RefCell::default() }
    }

    /// First unreachable step of a path into the result of `node`; `None` if the path may exist.
    pub(super) fn unreachable_path<'p>(
        &self,
        node: &Node,
        path: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<UnreachablePath> {
        if node.for_each.is_some() || node.items().is_some() {
            return unreachable_path(&COLLECTED, path);
        }
        let rules = node.contract.iter().filter(|rule| rule.method == Method::Schema);
        let of_tool = node.tool.as_deref().and_then(|tool| self.of_tool(tool));
        let mut schemas = rules.filter_map(|rule| rule.spec.as_deref()).chain(of_tool.as_deref());
        schemas.find_map(|schema| unreachable_path(schema, path.clone()))
    }

    /// The JSON type of the value at a path of the result of `node`, if every result has the same one there.
    pub(super) fn type_at<'p>(
        &self,
        node: &Node,
        path: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<String> {
        // A fallback may give another result.
        if node.fallback.is_some() {
            return None;
        }
        if node.for_each.is_some() || node.items().is_some() {
            return type_at(&COLLECTED, path);
        }
        let rules = node.contract.iter().filter(|rule| rule.method == Method::Schema);
        let of_tool = node.tool.as_deref().and_then(|tool| self.of_tool(tool));
        let mut schemas = rules.filter_map(|rule| rule.spec.as_deref()).chain(of_tool.as_deref());
        schemas.find_map(|schema| type_at(schema, path.clone()))
    }

    fn of_tool(&self, tool: &str) -> Option<Arc<Value>> {
        if let Some(known) = self.of_tools.borrow().get(tool) {
            return known.clone();
        }
        let result = self.settings.tools.and_then(|tools| tools.defaults(tool, &Map::new())?.result_schema);
        self.of_tools.borrow_mut().insert(tool.to_owned(), result.clone());
        result
    }
}

pub(super) struct UnreachablePath {
    pub(super) segment: String,
    /// The reachable prefix; empty for none.
    walked: String,
    /// True if the value at `walked` is a list.
    list: bool,
    pub(super) what: String,
    pub(super) known: Vec<String>,
}

impl UnreachablePath {
    /// Suggested reference, for values without named parts. A reference path has at least one step, so no
    /// reference takes a whole result.
    pub(super) fn help(&self) -> String {
        let UnreachablePath { walked, list, .. } = self;
        match (walked.as_str(), list) {
            ("", true) => "use the index of an item, such as 0".to_owned(),
            ("", false) => {
                "remove the reference: the result has no parts; to wait for the node, use `deps`".to_owned()
            }
            (walked, true) => format!("use an item, such as {walked}.0, or the whole list: {walked}"),
            (walked, false) => format!("use the whole value: {walked}"),
        }
    }
}

/// Schema of the result of a collector.
static COLLECTED: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "items": {"type": "array"},
            "missing": {"type": "array", "items": {"type": "integer"}},
        },
        "additionalProperties": false,
    })
});

/// Keywords that constrain parts beside `properties` and `items`. A schema with any of them is treated as
/// open.
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

/// Walks `path` through `schema` and returns the first step that no valid value has.
///
/// The walk follows `properties` of objects and `items` of arrays, and stops without a finding at the first
/// schema whose parts are not fully known: a missing or multiple `type`, any of [`COMPOSED`], an open object,
/// or `prefixItems`. The result therefore has no false positives.
fn unreachable_path<'p>(schema: &Value, path: impl Iterator<Item = &'p str>) -> Option<UnreachablePath> {
    let mut schema = schema;
    let mut walked: Vec<&'p str> = Vec::new();
    for segment in path {
        let members = open_members(schema)?;
        let end = |what: String, list: bool, known: Vec<String>| {
            Some(UnreachablePath { segment: segment.to_owned(), walked: walked.join("."), list, what, known })
        };
        let whole = if walked.is_empty() { "the result".to_owned() } else { walked.join(".") };
        match members.get("type").and_then(Value::as_str)? {
            "object" => {
                let named = members.get("properties").and_then(Value::as_object);
                let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
                match (named.and_then(|named| named.get(segment)), closed) {
                    (Some(inner), _) => schema = inner,
                    (None, true) => {
                        let known = named.into_iter().flat_map(|named| named.keys()).cloned();
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
                let what = format!("{whole} is a list, and {segment} is not an index");
                return end(what, true, Vec::new());
            }
            scalar => {
                let what = format!("{whole} is {}, which has no {segment}", type_words(scalar));
                return end(what, false, Vec::new());
            }
        }
        walked.push(segment);
    }
    None
}

/// The one type that `schema` gives the value at `path`.
fn type_at<'p>(schema: &Value, path: impl Iterator<Item = &'p str>) -> Option<String> {
    let mut schema = schema;
    for segment in path {
        let members = open_members(schema)?;
        schema = match members.get("type").and_then(Value::as_str)? {
            "object" => members.get("properties")?.get(segment)?,
            "array" if !members.contains_key("prefixItems") => {
                segment.bytes().all(|byte| byte.is_ascii_digit()).then(|| members.get("items"))??
            }
            _ => return None,
        };
    }
    open_members(schema)?.get("type")?.as_str().map(str::to_owned)
}

/// The members of a schema without any of [`COMPOSED`].
fn open_members(schema: &Value) -> Option<&Map<String, Value>> {
    schema.as_object().filter(|members| !COMPOSED.iter().any(|&word| members.contains_key(word)))
}

/// A JSON type in words, such as `a number`.
pub(super) fn type_words(name: &str) -> &'static str {
    match name {
        "object" => "an object",
        "array" => "a list",
        "string" => "a text",
        "integer" | "number" => "a number",
        "boolean" => "true or false",
        _ => "null",
    }
}

/// The types that a parameter takes, as in its schema; `None` if the schema does not say so plainly.
pub(super) fn types_taken(schema: &Value, name: &str) -> Option<Vec<String>> {
    let param = open_members(open_members(schema)?.get("properties")?.get(name)?)?;
    match param.get("type")? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(many) => many.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// True unless no value of the type `found` has one of the types `taken`.
pub(super) fn may_fit(found: &str, taken: &[String]) -> bool {
    let is_number = |name: &str| name == "number" || name == "integer";
    taken.iter().any(|name| name == found || is_number(name) && is_number(found))
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
            ("files.x", Some("files is a list, and x is not an index")),
            ("fils", Some("the result has no fils")),
            ("count.0", Some("count is a number, which has no 0")),
            ("free.x.y", None),
            ("any.x", None),
            ("some.x", None),
        ] {
            assert_eq!(
                unreachable_path(&schema, path.split('.')).map(|end| end.what).as_deref(),
                what,
                "{path}"
            );
        }
        assert!(unreachable_path(&json!(true), ["x"].into_iter()).is_none());
    }

    #[test]
    fn the_mend_is_a_path_that_may_be_written() {
        let schema = json!({"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}}});
        for (schema, path, help) in [
            (&schema, "files.0.x", "use the whole value: files.0"),
            (&schema, "files.x", "use an item, such as files.0, or the whole list: files"),
            (&schema, "count.0", "use the whole value: count"),
            (&json!({"type": "array"}), "x", "use the index of an item, such as 0"),
            (
                &json!({"type": "null"}),
                "x",
                "remove the reference: the result has no parts; to wait for the node, use `deps`",
            ),
        ] {
            assert_eq!(unreachable_path(schema, path.split('.')).unwrap().help(), help, "{path}");
        }
    }
}
