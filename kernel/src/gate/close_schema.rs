//! Closes object schemas, so that a tool rejects parameters that its schema does not declare.

use jsonschema::Draft;
use serde_json::{Map, Value};

const PARTS: [&str; 7] = ["allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas"];

/// Keywords with subschemas that apply together: no single one declares all properties.
const JOINED: [&str; 5] = ["allOf", "if", "then", "else", "dependentSchemas"];

const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords that state explicitly which undeclared properties are accepted.
const EXPLICIT: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// First draft that knows `unevaluatedProperties`.
const DRAFT_2019_09: &str = "https://json-schema.org/draft/2019-09/schema";

/// Closes every object schema without an explicit rule for undeclared properties.
///  
/// JSON Schema accepts undeclared properties by default. A misspelt or smuggled parameter would then reach the tool
/// unchecked, so the gate inverts the default:
///  
/// - A schema that declares properties directly gets `additionalProperties: false`.
/// - A schema that also applies subschemas to the same value (`allOf`, `$ref`, `if`, ..) gets
///   `unevaluatedProperties: false`, because `additionalProperties` ignores properties declared by subschemas.
/// - The parts of `allOf`, `if` and `dependentSchemas` stay open; the schema around them is closed over all parts.
/// - Each alternative of `anyOf` and `oneOf` is closed on its own.
/// - `if` and `not` are conditions and stay unchanged, so that closing never flips a decision.
///  
/// A schema of an older draft is moved to 2019-09 if it needs `unevaluatedProperties`.
pub(super) fn close_objects(schema: &mut Value) {
    let draft = Draft::default().detect(schema);
    let mut closer = Closer { needs_unevaluated: false };
    closer.close(schema);
    let is_older = matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
    if let Some(members) = schema.as_object_mut().filter(|_| closer.needs_unevaluated && is_older) {
        members.insert("$schema".into(), DRAFT_2019_09.into());
    }
}

struct Closer {
    /// Some schema got `unevaluatedProperties`.
    needs_unevaluated: bool,
}

impl Closer {
    fn close(&mut self, schema: &mut Value) {
        let Value::Object(members) = schema else { return };
        if declares_properties(members) && !has(members, &EXPLICIT) {
            let is_composed = has(members, &PARTS);
            self.needs_unevaluated |= is_composed;
            let word = if is_composed { "unevaluatedProperties" } else { "additionalProperties" };
            members.insert(word.into(), Value::Bool(false));
        }
        for (word, inner) in members.iter_mut() {
            if ALTERNATIVES.contains(&word.as_str()) {
                each(inner, &mut |schema| self.close(schema));
            } else {
                self.close_within(word, inner);
            }
        }
    }

    /// Closes the schemas of nested values. Parts that apply to the same value stay open, since the schema around them closes
    /// them.
    fn close_within(&mut self, word: &str, inner: &mut Value) {
        match word {
            "properties" | "patternProperties" | "$defs" | "definitions" => {
                each_named(inner, &mut |schema| self.close(schema));
            }
            "items" | "prefixItems" | "additionalItems" | "additionalProperties" => {
                each(inner, &mut |schema| self.close(schema));
            }
            "allOf" | "anyOf" | "oneOf" | "then" | "else" => each(inner, &mut |part| self.close_part(part)),
            "dependentSchemas" => each_named(inner, &mut |part| self.close_part(part)),
            _ => {}
        }
    }

    fn close_part(&mut self, part: &mut Value) {
        for (word, inner) in part.as_object_mut().into_iter().flatten() {
            self.close_within(word, inner);
        }
    }
}

/// True if a schema declares properties, by itself or through parts that apply together.
fn declares_properties(members: &Map<String, Value>) -> bool {
    let of_object = match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    of_object
        || has(members, &["properties", "patternProperties", "required"])
        || members.iter().filter(|(word, _)| JOINED.contains(&word.as_str())).any(part_declares_properties)
}

fn part_declares_properties((word, inner): (&String, &Value)) -> bool {
    let names = |part: &Value| {
        part.as_object().is_some_and(|members| {
            let alternatives = members.iter().filter(|(word, _)| ALTERNATIVES.contains(&word.as_str()));
            declares_properties(members) || { alternatives }.any(part_declares_properties)
        })
    };
    match inner {
        Value::Array(parts) => parts.iter().any(names),
        Value::Object(parts) if word == "dependentSchemas" => parts.values().any(names),
        part => names(part),
    }
}

fn has(members: &Map<String, Value>, words: &[&str]) -> bool {
    words.iter().any(|&word| members.contains_key(word))
}

/// Visits each schema of a list, or a single schema.
fn each(schemas: &mut Value, done: &mut dyn FnMut(&mut Value)) {
    match schemas {
        Value::Array(listed) => listed.iter_mut().for_each(done),
        schema => done(schema),
    }
}

fn each_named(schemas: &mut Value, done: &mut dyn FnMut(&mut Value)) {
    schemas.as_object_mut().into_iter().flatten().for_each(|(_, schema)| done(schema));
}
