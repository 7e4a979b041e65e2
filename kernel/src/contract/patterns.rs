//! Accounting of compiled pattern sizes. The size depends little on the length of the text, so a pattern is
//! compiled to find the size.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Largest compiled pattern, and largest cache of its automaton, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Most bytes of compiled patterns in one contract. Each pattern counts as the smallest size class that
/// holds the pattern.
pub const CONTRACT_PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;

const SIZES: [usize; 5] = [4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024, PATTERN_BYTES_MAX];

/// Smallest cache of an automaton; a smaller cache would be cleared constantly.
const CACHE_BYTES_MIN: usize = 64 * 1024;

pub(crate) const PATTERNS_HELP: &str = "use fewer patterns, or smaller ones: {1,1000} repeats what stands before it a thousand times, and \\w holds \
     the letters of all scripts, [a-z] only those";

pub(super) fn compile(pattern: &str) -> Result<(Regex, usize), regex::Error> {
    let built = |size: usize| {
        let cache = size.max(CACHE_BYTES_MIN);
        RegexBuilder::new(pattern).size_limit(size).dfa_size_limit(cache).build().map(|regex| (regex, size))
    };
    let mut last = built(SIZES[0]);
    for &size in &SIZES[1..] {
        match last {
            Err(regex::Error::CompiledTooBig(_)) => last = built(size),
            settled => return settled,
        }
    }
    last
}

/// The distinct patterns of a schema, each with its size class in bytes.
#[derive(Debug)]
pub(super) struct PatternSizes {
    sizes: BTreeMap<String, usize>,
    /// Number of patterns.
    pub(super) count: usize,
    /// The size classes in all. Counting stops beyond [`CONTRACT_PATTERNS_BYTES_MAX`].
    pub(super) bytes: usize,
}

impl PatternSizes {
    pub(super) fn of_schema(schema: &Value) -> PatternSizes {
        let mut patterns = BTreeSet::new();
        collect(schema, &mut patterns);
        let mut sizes = PatternSizes { sizes: BTreeMap::new(), count: patterns.len(), bytes: 0 };
        for pattern in patterns {
            // Translated as the schema engine does.
            let read = jsonschema_regex::to_rust_regex(pattern).ok();
            let size = read.and_then(|read| compile(&read).ok()).map_or(PATTERN_BYTES_MAX, |(_, size)| size);
            sizes.sizes.insert(pattern.to_owned(), size);
            sizes.bytes += size;
            if sizes.bytes > CONTRACT_PATTERNS_BYTES_MAX {
                break;
            }
        }
        sizes
    }

    /// Size class of a pattern. A pattern that was not counted has the largest.
    pub(super) fn of(&self, pattern: &str) -> usize {
        self.sizes.get(pattern).copied().unwrap_or(PATTERN_BYTES_MAX)
    }
}

/// Upper bound on the pattern size of a schema.
pub(super) fn at_most(schema: &Value) -> usize {
    let mut patterns = BTreeSet::new();
    collect(schema, &mut patterns);
    (patterns.len() * PATTERN_BYTES_MAX).min(CONTRACT_PATTERNS_BYTES_MAX)
}

fn collect<'a>(schema: &'a Value, patterns: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect(item, patterns)),
        Value::Object(members) => {
            for (key, value) in members {
                match (key.as_str(), value) {
                    // Literal values, not schemas.
                    ("enum" | "const" | "default" | "examples", _) => continue,
                    ("pattern", Value::String(pattern)) => drop(patterns.insert(pattern)),
                    ("patternProperties", Value::Object(named)) => {
                        patterns.extend(named.keys().map(String::as_str));
                    }
                    _ => {}
                }
                collect(value, patterns);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_counts_as_the_least_size_that_it_fits_into() {
        for (pattern, size) in [
            ("", 4),
            ("^[a-z]+$", 4),
            ("(?i)error|warning|fail", 4),
            (r"\d+", 16),
            (r"\w+", 64),
            (r"[^\n]{200}", 256),
            ("(a{1000}){20}", 1024),
        ] {
            assert_eq!(compile(pattern).map(|(_, size)| size / 1024), Ok(size), "{pattern}");
        }
        let told = compile(r"\w{1000}").map(drop).unwrap_err();
        assert_eq!(told, regex::Error::CompiledTooBig(PATTERN_BYTES_MAX));
        assert!(matches!(compile("("), Err(regex::Error::Syntax(_))));
    }

    #[test]
    fn the_patterns_of_a_schema_are_those_it_is_compiled_with() {
        for (schema, counted) in [
            (json!({"type": "string"}), (0, 0)),
            (json!({"pattern": "a", "items": [{"pattern": "a"}, {"pattern": "b"}]}), (2, 8)),
            (json!({"$defs": {"x": {"patternProperties": {"^x-": {"pattern": r"^\w{1,50}$"}}}}}), (2, 20)),
            (json!({"pattern": r"[^[\w\]]{2}\\w\D"}), (1, 4)),
            (json!({"pattern": r"^\cA$"}), (1, 4)),
            (json!({"pattern": "("}), (1, 1024)),
            (json!({"enum": [{"pattern": "*"}], "examples": [{"pattern": "*"}]}), (0, 0)),
            (json!({"properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}), (0, 0)),
        ] {
            let PatternSizes { count, bytes, .. } = PatternSizes::of_schema(&schema);
            assert_eq!((count, bytes / 1024), counted, "{schema}");
        }
    }
}
