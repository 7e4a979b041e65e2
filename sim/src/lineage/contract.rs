//! Contracts of cases: rules over one value.

use std::collections::BTreeMap;

use ostler_kernel::template::project;
use serde::Deserialize;
use serde_json::Value;

use super::function::Content;

/// Rule over a value. Method and confidence have no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    has: Vec<String>,
    #[serde(rename = "type")]
    kinds: BTreeMap<String, String>,
    max_items: BTreeMap<String, f64>,
    contains: Vec<String>,
    lacks: Vec<String>,
}

/// True if the content satisfies every rule of the list.
///
/// # Errors
///
/// The list is not a contract.
pub(super) fn passes(contract: &Value, content: &Content) -> Result<bool, serde_json::Error> {
    let rules = contract.as_array().map(Vec::as_slice).unwrap_or_default();
    for spec in rules.iter().filter_map(|rule| rule.get("spec")).filter(|spec| !spec.is_null()) {
        if !Spec::deserialize(spec)?.passes(content) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Spec {
    fn passes(&self, content: &Content) -> bool {
        let value = &content.value;
        // JSON content is checked as canonical text, except a string, which is checked as is.
        let text = value.as_str().unwrap_or(&content.bytes);
        self.has.iter().all(|path| project(value, path).is_some())
            && self.kinds.iter().all(|(path, kind)| project(value, path).is_some_and(|at| is_kind(at, kind)))
            && self.max_items.iter().all(|(path, &most)| {
                let items = project(value, path).and_then(Value::as_array);
                items.is_some_and(|items| items.len() as f64 <= most)
            })
            && self.contains.iter().all(|part| text.contains(part.as_str()))
            && !self.lacks.iter().any(|part| text.contains(part.as_str()))
    }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        _ => false,
    }
}
