//! Closing the schemas of parameters: who names what a tool takes need not say that it takes nothing else.

use jsonschema::Draft;
use serde_json::{Map, Value};

/// Keywords that put a schema together of parts, which are about the same value.
const PARTS: [&str; 7] = ["allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas"];

/// Keywords whose parts hold beside each other, so that none of them names all that is taken.
const JOINED: [&str; 5] = ["allOf", "if", "then", "else", "dependentSchemas"];

/// Keywords whose parts are alternatives.
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords by which a schema says what it takes beside what it names.
const SAID: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// The first draft in which a schema sees what its parts name.
const SEES_PARTS: &str = "https://json-schema.org/draft/2019-09/schema";

/// Closes every schema of an object that does not say that it takes more than it names: `additionalProperties: false`, or where it
/// is put together of parts, which name properties as well, `unevaluatedProperties: false`. Of a schema that is nothing but
/// parts, those that hold beside each other are closed together, and alternatives each by itself.
///
/// A schema of a draft that does not know `unevaluatedProperties` is read by the first that does, if it needs it.
pub(super) fn close_objects(schema: &mut Value) {
    let draft = Draft::default().detect(schema);
    let mut closing = Closing { sees_parts: false };
    closing.close(schema);
    if let Some(members) = schema.as_object_mut().filter(|_| closing.sees_parts && draft < Draft::Draft201909)
    {
        members.insert("$schema".into(), SEES_PARTS.into());
    }
}

struct Closing {
    /// Whether a schema was closed by what its parts name.
    sees_parts: bool,
}

impl Closing {
    fn close(&mut self, schema: &mut Value) {
        let Value::Object(members) = schema else { return };
        if names_keys(members) && !has(members, &SAID) {
            let put_together = has(members, &PARTS);
            self.sees_parts |= put_together;
            let word = if put_together { "unevaluatedProperties" } else { "additionalProperties" };
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

    /// Closes what a keyword says of the values within a value. Its parts stay as open as they are: what they are part of
    /// closes them. A condition stays what it is, so that closing decides nothing else.
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

/// Whether a schema says which keys an object has: itself, or by parts that hold beside each other.
fn names_keys(members: &Map<String, Value>) -> bool {
    let of_object = match members.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    of_object
        || has(members, &["properties", "patternProperties", "required"])
        || members.iter().filter(|(word, _)| JOINED.contains(&word.as_str())).any(parts_name_keys)
}

fn parts_name_keys((word, inner): (&String, &Value)) -> bool {
    let names = |part: &Value| {
        part.as_object().is_some_and(|members| {
            let alternatives = members.iter().filter(|(word, _)| ALTERNATIVES.contains(&word.as_str()));
            names_keys(members) || { alternatives }.any(parts_name_keys)
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

/// Each schema of a list, or the one that stands alone.
fn each(schemas: &mut Value, done: &mut dyn FnMut(&mut Value)) {
    match schemas {
        Value::Array(listed) => listed.iter_mut().for_each(done),
        schema => done(schema),
    }
}

fn each_named(schemas: &mut Value, done: &mut dyn FnMut(&mut Value)) {
    schemas.as_object_mut().into_iter().flatten().for_each(|(_, schema)| done(schema));
}
