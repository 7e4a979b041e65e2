//! Strict typing of numbers: 1 is an integer; 1.0 and 1e0 are not, and neither equals 1.
//!
//! JSON Schema accepts 1.0 as an integer, and a tool might not.

use serde_json::Value;

/// True if a value holds a double without a fraction, which JSON Schema accepts as an integer.
pub(super) fn has_whole_double(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|it| it.fract() == 0.0),
        Value::Array(items) => items.iter().any(has_whole_double),
        Value::Object(members) => members.values().any(has_whole_double),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// True if a schema-valid value also passes strict typing of integers and listed values. Covers `type`, `enum`, `const`,
/// `properties`, `items` and `anyOf`; other keywords keep their verdict.
pub(super) fn fits(schema: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else { return true };
    let named = |name: &str| match words.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(names)) => names.iter().any(|it| it == name),
        _ => false,
    };
    let is_double = value.is_f64();
    if is_double && named("integer") && !named("number") {
        return false;
    }
    let listed = words.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value));
    if !listed || words.get("const").is_some_and(|only| only != value) {
        return false;
    }
    if let Some(parts) = words.get("anyOf").and_then(Value::as_array)
        && !parts.iter().any(|part| may_be(part, value) && fits(part, value))
    {
        return false;
    }
    match value {
        Value::Array(items) => {
            words.get("items").is_none_or(|schema| items.iter().all(|item| fits(schema, item)))
        }
        Value::Object(members) => {
            let properties = words.get("properties").and_then(Value::as_object);
            members.iter().all(|(name, inner)| {
                properties.and_then(|known| known.get(name)).is_none_or(|schema| fits(schema, inner))
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// True if the schema names the type of the value.
fn may_be(schema: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("number" | "integer") => value.is_number(),
        _ => true,
    };
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(is),
        Some(name) => is(name),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_double_is_no_integer_and_no_other_listed_value() {
        let schema = json!({"properties": {
            "n": {"type": "integer"}, "x": {"type": "number"}, "e": {"enum": [1, "a"]}, "d": {"enum": [2.0]},
            "l": {"type": "array", "items": {"type": "integer"}},
            "a": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "b": {"type": ["integer", "number"]}, "i": {"type": ["integer", "null"]}, "c": {"const": 1},
            "t": true, "p": {"anyOf": [{"type": ["string", "integer"]}, {"const": 0.5}]},
        }});
        for (value, expected) in [
            (json!({"n": 1, "x": 1.0, "e": 1, "d": 2.0, "l": [1], "a": 1, "b": 1.0}), true),
            (json!({"n": 1.0}), false),
            (json!({"e": 1.0}), false),
            (json!({"d": 2}), false),
            (json!({"l": [1, 2.0]}), false),
            (json!({"a": 1.0}), false),
            (json!({"a": "x"}), true),
            (json!({"i": 1, "c": 1}), true),
            (json!({"i": null}), true),
            (json!({"i": 1.0}), false),
            (json!({"c": 1.0}), false),
            (json!({"t": 1.0, "p": 1}), true),
            (json!({"p": 0.5}), true),
            (json!({"p": 1.0}), false),
            (json!({"x": 1.0, "n": 1.0}), false),
        ] {
            assert_eq!(fits(&schema, &value), expected, "{value}");
        }
        for other in ["null", "boolean", "string", "array", "object"] {
            let schema = json!({"anyOf": [{"type": other}, {"type": "integer"}]});
            assert!(fits(&schema, &json!(1)) && !fits(&schema, &json!(1.0)), "{other}");
        }
        for number in ["integer", "number"] {
            let schema =
                json!({"anyOf": [{"type": number}, {"type": "array", "items": {"type": "integer"}}]});
            assert!(fits(&schema, &json!([1])) && !fits(&schema, &json!([1.0])), "{number}");
        }
        assert!(has_whole_double(&json!([1, {"a": 1e2}])) && !has_whole_double(&json!([1, 1.5, "1.0"])));
    }
}
