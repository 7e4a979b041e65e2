//! Values that a receiver may read differently from the gate.

use serde_json::{Map, Number, Value};

use crate::json::MAX_INTEGER;

/// The reason why members are ambiguous, if any is.
pub(super) fn ambiguous_member(params: &Map<String, Value>) -> Option<&'static str> {
    params
        .iter()
        .find_map(|(name, value)| Some(NUL).filter(|_| has_nul(name)).or_else(|| ambiguous_value(value)))
}

const NUL: &str = "a text contains the character U+0000";

fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// Finds a value that a receiver may read differently from the gate: C programs end a string at U+0000, and a double
/// cannot tell 2^53 from 2^53 + 1. Recursion is bounded by the depth limit.
fn ambiguous_value(value: &Value) -> Option<&'static str> {
    let too_big = |number: &Number| {
        let integer = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        integer.is_some_and(|magnitude| magnitude >= MAX_INTEGER)
    };
    match value {
        Value::String(text) => has_nul(text).then_some(NUL),
        Value::Number(number) => too_big(number).then_some("an integer is 2^53 or larger; give it as a text"),
        Value::Array(items) => items.iter().find_map(ambiguous_value),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, inner)| Some(NUL).filter(|_| has_nul(name)).or_else(|| ambiguous_value(inner))),
        Value::Null | Value::Bool(_) => None,
    }
}
