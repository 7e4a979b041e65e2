//! Errors in the `spec` of a rule, with help for the author.

use std::fmt;

use serde_json::{Map, Value};

use super::excerpt;
use crate::plan::nearest;

pub(super) const PAIRS_MAX: usize = 100_000;

/// An error in the `spec` of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// JSON pointer into the spec; empty for the whole spec.
    pub pointer: String,
    /// Problem, a sentence without a full stop.
    pub what: String,
    /// Suggested fix, a sentence without a full stop.
    pub help: String,
}

impl SpecError {
    pub(super) fn new(pointer: &str, what: impl Into<String>, help: impl Into<String>) -> SpecError {
        SpecError { pointer: pointer.to_owned(), what: what.into(), help: help.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

pub(super) fn known_keys(spec: &Map<String, Value>, known: &[&str]) -> Result<(), SpecError> {
    let Some(unknown) = spec.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let help = match nearest(unknown, known.iter().copied(), &mut PAIRS_MAX.clone()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("remove it; known keys: {}", known.join(", ")),
    };
    let pointer = format!("/{}", unknown.replace('~', "~0").replace('/', "~1"));
    Err(SpecError { pointer, what: format!("unknown key {:?}", excerpt(unknown)), help })
}

/// Describes the kind of a value in the words of plan files: `a text`, `a list`.
pub fn describe_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) if number.as_f64().is_some_and(|number| number < 0.0) => "a negative number",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A regular expression error in one line, without the parser's drawing.
pub fn regex_error(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(bytes) => format!("it compiles to more than {bytes} bytes"),
        other => {
            let told = other.to_string();
            let last = told.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it cannot be read");
            excerpt(last.trim().trim_start_matches("error: "))
        }
    }
}
