//! What the schemas of a result rule out: for V17, which judges references, and for W07, which judges templates.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Method, Node, Settings};

/// What is known of results before there are any. They pass the contract of their node and the schema of their tool before anybody
/// reads them, so what one of these rules out is never there.
pub(super) struct ResultSchemas<'a> {
    settings: &'a Settings<'a>,
    /// Schemas of what tools give, as far as they were asked for.
    of_tools: RefCell<BTreeMap<String, Option<Arc<Value>>>>,
}

impl<'a> ResultSchemas<'a> {
    pub(super) fn new(settings: &'a Settings<'a>) -> ResultSchemas<'a> {
        ResultSchemas { settings, of_tools: RefCell::default() }
    }

    /// Where a path into what `node` gives leads to nothing.
    pub(super) fn unreachable_path<'p>(
        &self,
        node: &Node,
        path: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<UnreachablePath> {
        let rules = node.contract.iter().filter(|rule| rule.method == Method::Schema);
        let of_tool = node.tool.as_deref().and_then(|tool| self.of_tool(tool));
        let mut schemas = rules.filter_map(|rule| rule.spec.as_deref()).chain(of_tool.as_deref());
        schemas.find_map(|schema| unreachable_path(schema, path.clone()))
    }

    /// The schema of what a tool gives, whatever its parameters are.
    fn of_tool(&self, tool: &str) -> Option<Arc<Value>> {
        if let Some(known) = self.of_tools.borrow().get(tool) {
            return known.clone();
        }
        let result = self.settings.tools.and_then(|tools| tools.defaults(tool, &Map::new())?.result_schema);
        self.of_tools.borrow_mut().insert(tool.to_owned(), result.clone());
        result
    }
}

/// Where a path leads to nothing.
pub(super) struct UnreachablePath {
    pub(super) segment: String,
    /// The path as far as it leads to something; empty: not at all.
    walked: String,
    /// Whether what stands there is a list.
    list: bool,
    pub(super) what: String,
    pub(super) known: Vec<String>,
}

impl UnreachablePath {
    /// What to write in a reference where there are no names to choose from. A path has a step: none takes a whole result.
    pub(super) fn help(&self) -> String {
        let UnreachablePath { walked, list, .. } = self;
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
fn unreachable_path<'p>(schema: &Value, path: impl Iterator<Item = &'p str>) -> Option<UnreachablePath> {
    let mut schema = schema;
    let mut walked: Vec<&'p str> = Vec::new();
    for segment in path {
        let members = schema.as_object()?;
        if COMPOSED.iter().any(|&word| members.contains_key(word)) {
            return None;
        }
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
            assert_eq!(unreachable_path(&schema, path.split('.')).map(|end| end.what).as_deref(), what, "{path}");
        }
        assert!(unreachable_path(&json!(true), ["x"].into_iter()).is_none());
    }

    #[test]
    fn the_mend_is_a_path_that_may_be_written() {
        let schema = json!({"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}}});
        for (schema, path, help) in [
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
            assert_eq!(unreachable_path(schema, path.split('.')).unwrap().help(), help, "{path}");
        }
    }
}
