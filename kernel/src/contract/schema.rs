//! JSON Schema, compiled once and bounded.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::excerpt;
use crate::json::canonical;

/// Largest schema, in bytes of canonical JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Largest compiled pattern, in bytes, and largest cache of its automaton.
pub(super) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Why a schema is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is larger than [`SCHEMA_BYTES_MAX`], nested too deep, or holds a number that JSON cannot carry.
    #[error("schema of {bytes} bytes, at most {SCHEMA_BYTES_MAX} are allowed")]
    TooLarge {
        /// Bytes of its canonical JSON.
        bytes: usize,
    },
    /// It has no canonical form.
    #[error("schema: {0}")]
    NotCanonical(#[from] crate::json::JsonError),
    /// It is no JSON Schema, or refers to something outside itself.
    #[error("schema at {place:?}: {what}")]
    Invalid {
        /// JSON pointer into the schema.
        place: String,
        /// What is wrong.
        what: String,
    },
}

/// Compiles a schema. References outside the schema are refused, patterns take time linear in their input.
///
/// # Errors
///
/// See [`SchemaError`].
pub(crate) fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    let bytes = canonical(schema)?.as_str().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(SchemaError::TooLarge { bytes });
    }
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options().offline().with_pattern_options(patterns).build(schema).map_err(|error| {
        SchemaError::Invalid { place: excerpt(error.instance_path()), what: excerpt(&error) }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_leads_back_to_itself_comes_to_an_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"$defs": {"a": {"not": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x"}}, "$ref": "#/$defs/a"}),
            json!({"anyOf": [{"type": "string"}, {"if": {"$ref": "#"}}]}),
        ] {
            let validator = compile(&schema).unwrap();
            assert_eq!(validator.is_valid(&json!(1)), validator.is_valid(&json!(2)), "{schema}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        for (schema, fault) in [
            (
                json!({"type": "nonsense"}),
                "schema at \"/type\": \"nonsense\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            ),
            (
                json!({"$ref": "http://example.com/schema"}),
                "schema at \"\": Resource 'http://example.com/schema' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch http://example.com/schema",
            ),
            (json!({"maximum": 1e20}), "schema: integer at byte 0 is beyond 2^53"),
            (
                json!({"const": "x".repeat(SCHEMA_BYTES_MAX)}),
                "schema of 262156 bytes, at most 262144 are allowed",
            ),
        ] {
            assert_eq!(compile(&schema).unwrap_err().to_string(), fault);
        }
        for pattern in ["(", "(a{1000}){1000}"] {
            assert!(compile(&json!({ "pattern": pattern })).is_err(), "{pattern}");
        }
    }
}
