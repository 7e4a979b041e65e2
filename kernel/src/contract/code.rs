//! Code checks: small questions about one place of an output.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use super::{excerpt, schema::PATTERN_BYTES_MAX};
use crate::json::{Json, canonical};
use crate::template::project;

/// Longest pattern, in bytes.
const PATTERN_TEXT_BYTES_MAX: usize = 4096;

/// Where `status` looks unless told otherwise.
const STATUS_PATH: &str = "status";

/// A code check, ready to judge.
#[derive(Debug)]
pub(super) struct CodeCheck {
    path: String,
    question: Question,
}

#[derive(Debug)]
enum Question {
    NonEmpty,
    MaxBytes(u64),
    MinItems(u64),
    Matches(Box<Regex>),
    Equals(Json),
    Status(Vec<i64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of `check`, `path` and `value`")]
struct Spec {
    check: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

/// A value that is null is there.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl CodeCheck {
    pub(super) fn compile(spec: &Value) -> Result<CodeCheck, String> {
        let Spec { check, path, value } =
            Spec::deserialize(spec).map_err(|error| format!("code: {}", excerpt(error)))?;
        let number = || value.as_ref().and_then(Value::as_u64).ok_or("a whole number, 0 or more");
        let question = match check.as_str() {
            "non_empty" if value.is_some() => return Err("non_empty: takes no `value`".into()),
            "non_empty" => Ok(Question::NonEmpty),
            "max_bytes" => number().map(Question::MaxBytes),
            "min_items" => number().map(Question::MinItems),
            "matches" => match value.as_ref().and_then(Value::as_str) {
                Some(pattern) => {
                    return Ok(CodeCheck { path: path.unwrap_or_default(), question: matches(pattern)? });
                }
                None => Err("a pattern as text"),
            },
            "equals" => match &value {
                Some(value) => {
                    let value = canonical(value).map_err(|error| format!("equals: {error}"))?;
                    Ok(Question::Equals(value))
                }
                None => Err("a value to compare with"),
            },
            "status" => statuses(value.as_ref()).map(Question::Status).ok_or("an integer or a list of them"),
            other => {
                return Err(format!(
                    "code: `check` is one of non_empty, max_bytes, min_items, matches, equals, status, found {:?}",
                    excerpt(other)
                ));
            }
        };
        let question = question.map_err(|wanted| format!("{check}: `value` must be {wanted}"))?;
        let default_path = if check == "status" { STATUS_PATH } else { "" };
        Ok(CodeCheck { path: path.unwrap_or_else(|| default_path.to_owned()), question })
    }

    /// Holds, or gives what was expected and what was found.
    pub(super) fn judge(&self, output: &Value) -> Result<(), (String, String)> {
        let place = if self.path.is_empty() { String::new() } else { format!(" at {}", excerpt(&self.path)) };
        let Some(value) = project(output, &self.path) else {
            return Err((format!("something{place}"), "nothing".into()));
        };
        let (holds, expected) = match &self.question {
            Question::NonEmpty => (!is_empty(value), "something that is not empty".to_owned()),
            Question::MaxBytes(most) => {
                let bytes = text_of(value).map_or(u64::MAX, |text| text.len() as u64);
                (bytes <= *most, format!("at most {most} bytes"))
            }
            Question::MinItems(least) => {
                let holds = value.as_array().is_some_and(|items| items.len() as u64 >= *least);
                (holds, format!("a list of at least {least} items"))
            }
            Question::Matches(pattern) => {
                let holds = text_of(value).is_some_and(|text| pattern.is_match(&text));
                (holds, format!("a match of /{}/", excerpt(pattern.as_str())))
            }
            Question::Equals(wanted) => {
                let holds = canonical(value).is_ok_and(|found| found == *wanted);
                (holds, excerpt(wanted.as_str()))
            }
            Question::Status(allowed) => {
                let holds = value.as_i64().is_some_and(|status| allowed.contains(&status));
                (holds, format!("status {}", excerpt(format_args!("{allowed:?}"))))
            }
        };
        if holds { Ok(()) } else { Err((format!("{expected}{place}"), excerpt(value))) }
    }
}

fn matches(pattern: &str) -> Result<Question, String> {
    if pattern.len() > PATTERN_TEXT_BYTES_MAX {
        return Err(format!(
            "matches: a pattern of {} bytes, at most {PATTERN_TEXT_BYTES_MAX}",
            pattern.len()
        ));
    }
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map(|regex| Question::Matches(Box::new(regex)))
        .map_err(|error| format!("matches: {}", excerpt(error)))
}

fn statuses(value: Option<&Value>) -> Option<Vec<i64>> {
    match value? {
        Value::Array(allowed) if allowed.is_empty() => None,
        Value::Array(allowed) => allowed.iter().map(Value::as_i64).collect(),
        single => single.as_i64().map(|status| vec![status]),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A string as it is, anything else as canonical JSON; `None` if it has none.
fn text_of(value: &Value) -> Option<std::borrow::Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        other => canonical(other).ok().map(|json| json.as_str().to_owned().into()),
    }
}
