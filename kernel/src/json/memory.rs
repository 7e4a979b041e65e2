//! Approximate memory of values: a multiple of their text, and a large one for small lists and maps.

use serde_json::Value;

/// Approximate bytes of memory for one value that is kept: a result, or what a query selects.
pub const VALUE_MEMORY_MAX: usize = 512 << 20;

/// Bytes of any value, without its text, elements and members.
const VALUE_BYTES: usize = 32;
/// Elements for which a list that is read has room at least.
const ROOM_MIN: usize = 4;
/// Bytes of a map with any members.
const MAP_BYTES: usize = 500;
/// Bytes of a member beside its key and its value.
const MEMBER_BYTES: usize = 64;

/// Most bytes of a value, without its texts and inner values: those of a map that is a member of another map.
pub(crate) const VALUE_MEMORY_BOUND: usize = VALUE_BYTES + MAP_BYTES + MEMBER_BYTES;

/// Approximate bytes of memory that a value takes once it is read. Recursive, as [`depth`](super::depth).
///
/// ```
/// use ostler_kernel::json::memory;
/// use serde_json::json;
/// assert_eq!(memory(&json!([1, 2, 3, 4, 5])), 6 * 32);
/// assert!(memory(&json!([[[]]])) > 9 * r#"[[[]]]"#.len());
/// ```
pub fn memory(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            let room = if items.is_empty() { 0 } else { ROOM_MIN.saturating_sub(items.len()) };
            room * VALUE_BYTES + items.iter().map(memory).sum::<usize>()
        }
        Value::Object(members) => {
            let of = |(key, value): (&String, &Value)| MEMBER_BYTES + key.len() + memory(value);
            let all: usize = members.iter().map(of).sum();
            if members.is_empty() { 0 } else { MAP_BYTES + all }
        }
    };
    VALUE_BYTES + inner
}

/// Number of values in a JSON text, lists, maps and what is in them, without reading it into memory. Any number for a text that is
/// no JSON.
///
/// ```
/// assert_eq!(ostler_kernel::json::count_values(r#"{"a": [1, "x, [y\"]", []], "b": {}}"#), 6);
/// ```
pub fn count_values(text: &str) -> usize {
    let (mut values, mut is_first, mut in_text, mut is_escaped) = (1, false, false, false);
    for byte in text.bytes() {
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        // The first element or member has no comma before it.
        values += usize::from(is_first && !matches!(byte, b']' | b'}')) + usize::from(byte == b',');
        is_first = matches!(byte, b'[' | b'{');
        in_text = byte == b'"';
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Bytes of text in which ordinary data is kept.
    const TEXT_BYTES: usize = 16 << 20;

    #[test]
    fn sixteen_mebibytes_of_ordinary_data_are_kept_and_of_nested_lists_are_not() {
        let nested = (0..30).fold(json!([]), |inner, _| json!([inner]));
        for (element, is_kept) in [
            (json!(1), true),
            (json!(19.99), true),
            (json!("a text"), true),
            (json!([1, 2, 3]), true),
            (json!([12.345678, 45.678901]), true),
            (json!({"x": 12.3456, "y": 45.6789}), true),
            (json!({"id": 12345, "name": "Anna Schmidt", "price": 19.99, "active": true}), true),
            (nested, false),
        ] {
            let elements = TEXT_BYTES / (element.to_string().len() + 1);
            let taken = VALUE_BYTES + elements * memory(&element);
            assert_eq!(taken <= VALUE_MEMORY_MAX, is_kept, "{element}: {taken}");
        }
    }

    #[test]
    fn values_are_counted_as_they_are_read() {
        fn values(value: &Value) -> usize {
            1 + match value {
                Value::Array(items) => items.iter().map(values).sum(),
                Value::Object(members) => members.values().map(values).sum(),
                _ => 0,
            }
        }
        for text in [
            "7",
            " [ ] ",
            r#"" [,] \" [" "#,
            r#"{"a": [1, -2.5e3, "x\"y\\", true, null, {}, [], [[ ]]], "ä\u00e9[,": {"b": false}}"#,
            r#"[[1,2],[3],[],{},{"k":[{}]}]"#,
        ] {
            assert_eq!(count_values(text), values(&serde_json::from_str(text).unwrap()), "{text}");
        }
    }
}
