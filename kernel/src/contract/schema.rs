//! Compilation of JSON Schema with bounds on size, patterns and evaluation steps.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::excerpt;
use super::keyword_cost::Extent;
use super::patterns::{CONTRACT_PATTERNS_BYTES_MAX, PATTERN_BYTES_MAX, PATTERNS_HELP, PatternSizes};
use super::schema_cost::{SCHEMA_CHAIN_MAX, SCHEMA_STEPS_MAX, SchemaCost};
use super::schema_graph::{Subschema, schema_graph};
use crate::json::canonical;

/// Largest schema, in bytes of canonical JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Most bytes of violations that are collected to name the first one: branches are all tried, to their last violation.
const VIOLATIONS_BYTES_MAX: u64 = 64 << 20;

/// Reason to reject a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema exceeds [`SCHEMA_BYTES_MAX`].
    #[error("schema of {bytes} bytes, at most {SCHEMA_BYTES_MAX} are allowed")]
    TooLarge {
        /// Bytes of canonical JSON.
        bytes: usize,
    },
    /// The schema has no canonical form.
    #[error("schema: {0}")]
    NotCanonical(#[from] crate::json::JsonError),
    /// Invalid JSON Schema, or a reference to an external resource.
    #[error("schema at {place:?}: {what}")]
    Invalid {
        /// JSON pointer into the schema.
        place: String,
        /// The problem.
        what: String,
    },
    /// The patterns exceed [`CONTRACT_PATTERNS_BYTES_MAX`].
    #[error("the compiled patterns of the schema exceed {CONTRACT_PATTERNS_BYTES_MAX} bytes")]
    Patterns,
    /// One value may take more than [`SCHEMA_STEPS_MAX`] steps.
    #[error(
        "the schema takes more than {SCHEMA_STEPS_MAX} evaluation steps for one value, with every reference followed"
    )]
    TooManySteps,
    /// More than [`SCHEMA_CHAIN_MAX`] subschemas lead to each other for one value.
    #[error(
        "a chain of more than {SCHEMA_CHAIN_MAX} subschemas applies to one value, with every reference followed"
    )]
    Chain,
    /// A reference leads back to itself without descending into the value.
    #[error("the schema never ends: the reference {reference:?} leads back to itself for the same value")]
    Endless {
        /// The reference.
        reference: String,
    },
    /// Parameter names have a format judged by the gate, and the gate judges values only.
    #[error(
        "`propertyNames` with `format: {format}`: parameter names are not checked; pass them as values, \
         such as {{properties: {{names: {{type: array, items: {{type: string, format: {format}}}}}}}}}"
    )]
    JudgedNames {
        /// The format.
        format: &'static str,
    },
    /// The target of a dynamic reference would depend on the evaluation path.
    #[error("the schema has more than one `$dynamicAnchor` or `$recursiveAnchor`, at most one is allowed")]
    DynamicAnchors,
}

impl SchemaError {
    /// The remedy, as a sentence without a full stop.
    pub fn help(&self) -> &'static str {
        match self {
            SchemaError::TooLarge { .. } | SchemaError::NotCanonical(_) | SchemaError::Invalid { .. } => {
                "use a JSON Schema, such as {type: object}"
            }
            SchemaError::Patterns => PATTERNS_HELP,
            SchemaError::TooManySteps => {
                "use fewer nested references: allOf, anyOf, oneOf and similar keywords multiply the steps"
            }
            SchemaError::Chain => "use fewer references that lead to references",
            SchemaError::Endless { .. } => {
                "let the reference descend into the value, such as {properties: {children: {items: {$ref: '#'}}}}"
            }
            SchemaError::JudgedNames { .. } => "pass the names as values",
            SchemaError::DynamicAnchors => "use `$ref` with an `$anchor` or a pointer",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) validator: Validator,
    cost: SchemaCost,
    has_branches: bool,
    /// Accounted size of the compiled patterns, in bytes.
    pub(super) pattern_bytes: usize,
}

impl Schema {
    /// Upper bound on the steps to evaluate a value; the more exact, the nearer to `most` it is.
    pub(crate) fn steps(&self, value: &Value, extent: Extent, most: u64) -> u64 {
        self.cost.of_value(value, extent, most)
    }

    /// The first violation by a value that is not valid; `None` if the search for it may take too much memory.
    pub(crate) fn first_violation<'v>(
        &self,
        value: &'v Value,
        extent: Extent,
    ) -> Option<jsonschema::ValidationError<'v>> {
        // Without branches the engine ends at the first violation.
        let is_small = !self.has_branches || self.can_list_violations(extent);
        is_small.then(|| self.validator.validate(value).err()).flatten()
    }

    /// True if the engine can list all violations by a value of this extent.
    pub(crate) fn can_list_violations(&self, extent: Extent) -> bool {
        self.cost.violation_bytes(extent) <= VIOLATIONS_BYTES_MAX
    }
}

/// Checks a schema as the contracts of nodes do, for schemas that stand in parameters.
///
/// # Errors
///
/// See [`SchemaError`].
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    compile(schema).map(drop)
}

/// Compiles a schema. External references are rejected, patterns match in linear time, and the number of
/// evaluation steps is bounded.
///
/// # Errors
///
/// See [`SchemaError`].
pub(crate) fn compile(schema: &Value) -> Result<Schema, SchemaError> {
    let bytes = canonical(schema)?.as_str().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(SchemaError::TooLarge { bytes });
    }
    let sizes = PatternSizes::of_schema(schema);
    if sizes.bytes > CONTRACT_PATTERNS_BYTES_MAX {
        return Err(SchemaError::Patterns);
    }
    // Before the engine compiles, which takes time and stack for every reference.
    let cost = SchemaCost::of(schema, &sizes)?;
    let cache = PATTERN_BYTES_MAX.min(CONTRACT_PATTERNS_BYTES_MAX / sizes.count.max(1));
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(cache);
    let built = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    let validator = built.map_err(|error| SchemaError::Invalid {
        place: excerpt(error.instance_path()),
        what: excerpt(&error),
    })?;
    let branches = |subschema: &Subschema<'_>| {
        subschema.edges.iter().any(|edge| ["anyOf", "oneOf"].contains(&edge.keyword))
    };
    let has_branches = schema_graph(schema, branches)?.contains(&true);
    Ok(Schema { validator, cost, has_branches, pattern_bytes: sizes.bytes })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        for (schema, fault) in [
            (
                json!({"type": "nonsense"}),
                "schema at \"/type\": \"nonsense\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            ),
            (
                json!({"$ref": "http://example.com/schema"}),
                "schema at \"\": Resource 'http://example.com/schema' is not present in a registry and retrieving it failed: Default retriever does not fetch resources",
            ),
            (json!({"maximum": 1e20}), "schema: integer at byte 0 is beyond 2^53"),
            (
                json!({"const": "x".repeat(SCHEMA_BYTES_MAX)}),
                "schema of 262156 bytes, at most 262144 are allowed",
            ),
        ] {
            assert_eq!(compile(&schema).unwrap_err().to_string(), fault);
        }
        let each = |count: usize| -> Value {
            (0..count)
                .map(|at| (format!("p{at}"), json!({"pattern": format!("(a{{1000}}){{20}}{at}")})))
                .collect()
        };
        let most = CONTRACT_PATTERNS_BYTES_MAX / PATTERN_BYTES_MAX;
        assert_eq!(
            compile(&json!({"properties": each(most)})).unwrap().pattern_bytes,
            CONTRACT_PATTERNS_BYTES_MAX
        );
        assert_eq!(compile(&json!({"properties": each(most + 1)})).map(drop), Err(SchemaError::Patterns));
        for pattern in ["(", "(a{1000}){1000}"] {
            assert!(compile(&json!({ "pattern": pattern })).is_err(), "{pattern}");
        }
    }
}
