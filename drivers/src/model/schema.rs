//! JSON Schemas of answers, in the forms that providers enforce.

use serde_json::{Map, Value, json};

/// Maximum nesting of a schema that is made strict.
const NESTING_MAX: usize = 32;

/// Keywords that strict mode takes.
const STRICT_KEYWORDS: [&str; 22] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Formats that strict mode takes.
const STRICT_FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// Keywords without effect on what is valid, or checked again by the contract of the node.
const DROPPED_KEYWORDS: [&str; 7] =
    ["$schema", "$id", "$comment", "default", "examples", "maxLength", "minLength"];

/// The schema with every object closed and every property required; an optional property may be null instead. `None` if strict
/// mode cannot express the schema.
pub(super) fn strict(schema: &Value) -> Option<Value> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if is_object { strict_part(schema, NESTING_MAX) } else { None }
}

fn strict_part(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let mut strict = Map::new();
    for (keyword, value) in schema.as_object()? {
        let value = match keyword.as_str() {
            name if DROPPED_KEYWORDS.contains(&name) => continue,
            name if !STRICT_KEYWORDS.contains(&name) => return None,
            "required" => continue,
            // Other formats, such as `path`, are refused; the gate knows them.
            "format" if !value.as_str().is_some_and(|format| STRICT_FORMATS.contains(&format)) => continue,
            "additionalProperties" if *value != json!(false) => return None,
            "properties" => properties(value, schema.get("required"), depth)?,
            "$defs" | "definitions" => each(value, depth)?,
            "items" => strict_part(value, depth)?,
            "anyOf" => {
                let parts = value.as_array()?.iter().map(|part| strict_part(part, depth));
                parts.collect::<Option<Vec<Value>>>()?.into()
            }
            _ => value.clone(),
        };
        strict.insert(keyword.clone(), value);
    }
    if admits_type(schema, "object") {
        // An object without known properties is open, which strict mode does not have.
        let names: Vec<&String> = strict.get("properties")?.as_object()?.keys().collect();
        let names = json!(names);
        strict.insert("required".to_owned(), names);
        strict.insert("additionalProperties".to_owned(), false.into());
    }
    Some(Value::Object(strict))
}

fn each(schemas: &Value, depth: usize) -> Option<Value> {
    let parts = schemas.as_object()?.iter();
    let parts = parts.map(|(name, part)| Some((name.clone(), strict_part(part, depth)?)));
    parts.collect::<Option<Map<String, Value>>>().map(Value::Object)
}

fn properties(schemas: &Value, required: Option<&Value>, depth: usize) -> Option<Value> {
    let mut strict = each(schemas, depth)?;
    for (name, part) in strict.as_object_mut()? {
        if !is_required(required, name) && !admits_null(part) {
            *part = json!({"anyOf": [part.take(), {"type": "null"}]});
        }
    }
    Some(strict)
}

/// Removes null from optional properties that do not admit it: models write null for what they leave out, and strict mode
/// makes them.
pub(super) fn drop_added_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
            let required = schema.get("required");
            fields.retain(|name, field| {
                !field.is_null()
                    || is_required(required, name)
                    || properties.get(name).is_none_or(admits_null)
            });
            for (name, field) in fields {
                if let Some(part) = properties.get(name) {
                    drop_added_nulls(field, part);
                }
            }
        }
        Value::Array(items) => {
            if let Some(part) = schema.get("items") {
                items.iter_mut().for_each(|item| drop_added_nulls(item, part));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_required(required: Option<&Value>, name: &str) -> bool {
    required.and_then(Value::as_array).is_some_and(|names| names.iter().any(|required| required == name))
}

/// True if the schema may admit null; a reference or composition is not followed and may.
fn admits_null(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return true };
    if let Some(values) = fields.get("enum").and_then(Value::as_array) {
        return values.contains(&Value::Null);
    }
    if let Some(value) = fields.get("const") {
        return value.is_null();
    }
    if let Some(parts) = fields.get("anyOf").and_then(Value::as_array) {
        return parts.iter().any(admits_null);
    }
    if fields.contains_key("type") { admits_type(schema, "null") } else { !fields.contains_key("properties") }
}

fn admits_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(types)) => types.iter().any(|one| one == name),
        _ => false,
    }
}

/// The instruction for servers that cannot enforce a schema.
pub(super) fn instruction(schema: &Value) -> String {
    format!(
        "Answer with one JSON value that this JSON Schema describes, and with nothing else, no Markdown:\n{schema}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_property_may_be_null_and_is_dropped_again() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "maxLength": 5, "format": "path"},
            "b": {"type": "integer"},
            "c": {"type": ["string", "null"]},
            "d": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
        }});
        let made = strict(&schema).unwrap();
        assert_eq!(made["required"], json!(["a", "b", "c", "d"]));
        assert_eq!(made["additionalProperties"], json!(false));
        assert_eq!(made["properties"]["a"], json!({"type": "string"}));
        assert_eq!(made["properties"]["b"], json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}));
        assert_eq!(made["properties"]["c"], json!({"type": ["string", "null"]}));
        let mut answer = json!({"a": null, "b": null, "c": null, "d": [{"x": null}], "e": null});
        drop_added_nulls(&mut answer, &schema);
        assert_eq!(answer, json!({"a": null, "c": null, "d": [{}], "e": null}));
    }

    #[test]
    fn what_strict_mode_lacks_is_not_made_strict() {
        for schema in [
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "additionalProperties": true}),
            json!({"type": "object", "properties": {"a": {"type": "object"}}}),
            json!({"type": "object", "properties": {"a": {"oneOf": []}}}),
            json!({"type": "object", "properties": {"a": true}}),
            json!(true),
        ] {
            assert_eq!(strict(&schema), None, "{schema}");
        }
        let deep =
            (0..40).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
        assert_eq!(strict(&json!({"type": "object", "properties": {"a": deep}})), None);
    }
}
