//! Steps that a keyword of a schema, or a check, takes for one value. A step takes a few dozen nanoseconds.

use serde_json::Value;

use super::patterns::PatternSizes;
use crate::json::VALUE_MEMORY_BOUND;

/// Plain options of an `enum` that take a step together, and properties that are looked for.
const PLAIN_OPTIONS_PER_STEP: u64 = 8;

/// Properties that are looked for one by one. The members of a map are looked for instead if a schema has more.
const PROPERTIES_IN_TURN: u64 = 15;

/// How often an item is compared: items of a short list are compared in pairs.
pub(super) const ITEM_COMPARISONS: u64 = 8;

/// Bytes of a text that the cheapest keywords read in one step, such as `maxLength`.
pub(super) const BYTES_PER_STEP: u64 = 64;

/// Bytes of a compiled pattern that take a step for each byte of a text. The slowest patterns run through their whole
/// program for each byte.
const PATTERN_BYTES_PER_STEP: u64 = 1024;

/// Size of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Number of values, including the value itself.
    pub(super) values: u64,
    pub(super) depth: usize,
    /// Bytes of all texts, the names of members included.
    pub(super) bytes: u64,
    /// Bytes of the longest path to a value, as a JSON pointer.
    pub(super) path: u64,
}

/// Bytes that an index takes in a path, with its slash.
const INDEX_BYTES: u64 = 9;

impl Extent {
    pub(crate) fn of(value: &Value) -> Extent {
        let leaf = Extent { values: 1, depth: 0, bytes: 0, path: 0 };
        let within = |all: Extent, name: Option<&str>, part: &Value| {
            let (part, name) = (Extent::of(part), name.map(|name| name.len() as u64));
            Extent {
                values: all.values + part.values,
                depth: all.depth.max(part.depth + 1),
                bytes: all.bytes + part.bytes + name.unwrap_or(0),
                path: all.path.max(part.path + name.map_or(INDEX_BYTES, |name| name + 1)),
            }
        };
        let inner = Extent { depth: 1, ..leaf };
        match value {
            Value::Array(list) => list.iter().fold(inner, |all, item| within(all, None, item)),
            Value::Object(map) => {
                map.iter().fold(inner, |all, (name, member)| within(all, Some(name), member))
            }
            Value::String(text) => Extent { bytes: text.len() as u64, ..leaf },
            Value::Null | Value::Bool(_) | Value::Number(_) => leaf,
        }
    }

    /// Upper bound on [`memory`](crate::json::memory).
    pub(crate) fn memory_bound(self) -> u64 {
        self.values.saturating_mul(VALUE_MEMORY_BOUND as u64).saturating_add(self.bytes)
    }

    /// Upper bound on the steps to write the value as text.
    pub(super) fn writing_steps(self) -> u64 {
        self.values.saturating_add(self.bytes / BYTES_PER_STEP)
    }

    /// Upper bound on the bytes of the value as text: escapes take six bytes, and a number at most thirty.
    pub(super) fn written_bytes(self) -> u64 {
        self.values.saturating_mul(30).saturating_add(self.bytes.saturating_mul(6))
    }
}

/// Steps to match a pattern of a size class, in bytes, against a text.
pub(super) fn matching_steps(pattern_bytes: usize, text_bytes: u64) -> u64 {
    text_bytes.saturating_mul(pattern_bytes as u64 / PATTERN_BYTES_PER_STEP)
}

/// Steps of a keyword that compares a value with a list.
pub(super) fn own_steps(keyword: &str, value: &Value) -> u64 {
    match (keyword, value) {
        ("enum", Value::Array(options)) => {
            let plain = options.iter().filter(|option| !is_composite(option)).count() as u64;
            let composite = options.iter().filter(|option| is_composite(option)).map(comparing_steps);
            composite.fold(plain / PLAIN_OPTIONS_PER_STEP, u64::saturating_add)
        }
        ("const", option) if is_composite(option) => comparing_steps(option),
        ("required", Value::Array(names)) => names.len() as u64,
        ("dependentRequired" | "dependencies", Value::Object(map)) => {
            map.values().map(|names| 1 + names.as_array().map_or(0, Vec::len) as u64).sum()
        }
        // The engine looks for each property of a small schema in turn.
        ("properties", Value::Object(named)) => {
            (named.len() as u64).min(PROPERTIES_IN_TURN) / PLAIN_OPTIONS_PER_STEP
        }
        ("uniqueItems", _) => ITEM_COMPARISONS,
        _ => 0,
    }
}

fn is_composite(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Upper bound on the steps to compare any value with this one.
fn comparing_steps(option: &Value) -> u64 {
    Extent::of(option).writing_steps()
}

/// Steps of a keyword for [`BYTES_PER_STEP`] bytes of text.
pub(super) fn own_reading(keyword: &str, value: &Value, patterns: &PatternSizes) -> u64 {
    let matching = |pattern: &str| matching_steps(patterns.of(pattern), BYTES_PER_STEP);
    match (keyword, value) {
        ("pattern", Value::String(pattern)) => matching(pattern),
        ("patternProperties", Value::Object(named)) => {
            named.keys().map(|pattern| matching(pattern)).fold(0, u64::saturating_add)
        }
        ("format" | "contentEncoding" | "contentMediaType", _) => BYTES_PER_STEP,
        ("minLength" | "maxLength", _) => 1,
        ("uniqueItems", _) => ITEM_COMPARISONS,
        _ => 0,
    }
}
