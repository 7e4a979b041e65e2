//! Lenient access to JSON: a value of an unexpected type counts as absent.

use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// Result of parsing a text that may have been cut off.
pub(super) enum Parsed {
    Value(Value),
    /// More characters could complete the text.
    Cut,
    /// No continuation is JSON.
    Invalid,
}

/// Parses RFC 8259 JSON.
pub(super) fn parse(text: &str) -> Parsed {
    match serde_json::from_str(text) {
        Ok(value) => Parsed::Value(value),
        Err(error) if error.is_eof() => Parsed::Cut,
        Err(_) => Parsed::Invalid,
    }
}

/// The non-empty string under `key`.
pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The first non-empty string under one of `keys`.
pub(super) fn first_text<'a>(object: &'a Object, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| text(object, key))
}

/// The object under `key`.
pub(super) fn object<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key).and_then(Value::as_object)
}

/// The list under `key`.
pub(super) fn list<'a>(object: &'a Object, key: &str) -> Option<&'a [Value]> {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice)
}

/// The count under `key`: an integer of at least 0.
pub(super) fn count(object: &Object, key: &str) -> Option<u64> {
    object.get(key).and_then(Value::as_u64)
}

/// True if a value of an error field counts as present: not null, false, 0, "", {} or [].
pub(super) fn is_trueish(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// True if `object` has a value present under `key`.
pub(super) fn has(object: &Object, key: &str) -> bool {
    object.get(key).is_some_and(is_trueish)
}
