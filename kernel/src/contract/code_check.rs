//! Code checks: predicates over one path of an output.

use regex::Regex;
use serde_json::Value;

use super::keyword_cost::{Extent, matching_steps};
use super::spec_error::{PAIRS_MAX, SpecError, describe_kind, known_keys, regex_error};
use super::{excerpt, patterns};
use crate::json::{Json, canonical};
use crate::plan::nearest;
use crate::template::project;

/// Longest pattern, in bytes.
const PATTERN_TEXT_BYTES_MAX: usize = 4096;

/// Default path of the `status` check.
const STATUS_PATH: &str = "status";

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
    /// The pattern and its accounted size in bytes.
    Matches(Box<Regex>, usize),
    Equals(Json),
    Status(Vec<i64>),
}

const CHECKS: [&str; 6] = ["non_empty", "max_bytes", "min_items", "matches", "equals", "status"];

impl CodeCheck {
    pub(super) fn compile(spec: &Value) -> Result<CodeCheck, SpecError> {
        let Value::Object(spec) = spec else {
            return Err(SpecError::new(
                "",
                format!("the `spec` of a code rule must be a map, found {}", describe_kind(spec)),
                SHAPE,
            ));
        };
        known_keys(spec, &["check", "path", "value"])?;
        let check = match spec.get("check") {
            Some(Value::String(check)) => check.as_str(),
            Some(other) => {
                let what = format!("`check` must be the name of a check, found {}", describe_kind(other));
                return Err(SpecError::new("/check", what, one_of_the_checks()));
            }
            None => return Err(SpecError::new("", "`check` is missing", one_of_the_checks())),
        };
        let default_path = if check == "status" { STATUS_PATH } else { "" };
        let path = match spec.get("path") {
            None | Some(Value::Null) => default_path.to_owned(),
            Some(Value::String(path)) => path.clone(),
            Some(other) => {
                let what = format!("`path` must be a text, found {}", describe_kind(other));
                return Err(SpecError::new("/path", what, "give a path, such as path: matches.0.line"));
            }
        };
        Ok(CodeCheck { path, question: question(check, spec.get("value"))? })
    }

    /// Accounted size of the compiled pattern, 0 without a pattern.
    pub(super) fn pattern_bytes(&self) -> usize {
        if let Question::Matches(_, size) = &self.question { *size } else { 0 }
    }

    /// Upper bound on the steps to check an output.
    pub(super) fn steps(&self, output: &Value) -> u64 {
        let Some(value) = project(output, &self.path) else { return 1 };
        let text = || match value {
            Value::String(text) => (1, text.len() as u64),
            other => {
                let extent = Extent::of(other);
                (extent.writing_steps(), extent.written_bytes())
            }
        };
        match &self.question {
            Question::NonEmpty | Question::MinItems(_) | Question::Status(_) => 1,
            Question::Matches(_, pattern_bytes) => {
                let (writing, bytes) = text();
                matching_steps(*pattern_bytes, bytes).saturating_add(writing)
            }
            Question::MaxBytes(_) => text().0,
            Question::Equals(_) => Extent::of(value).writing_steps(),
        }
    }

    /// Checks an output; the error is the expected and the found value.
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
            Question::Matches(pattern, _) => {
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

const SHAPE: &str = "give a `check`, and a `path` and a `value` if the check needs them";

fn one_of_the_checks() -> String {
    format!("use one of {}", CHECKS.join(", "))
}

fn question(check: &str, value: Option<&Value>) -> Result<Question, SpecError> {
    let must = |wanted: &str| {
        let what = match value {
            Some(value) => format!("`value` of {check} must be {wanted}, found {}", describe_kind(value)),
            None => format!("{check} needs a `value`: {wanted}"),
        };
        SpecError::new(if value.is_some() { "/value" } else { "" }, what, format!("give it {wanted}"))
    };
    let number = || value.and_then(Value::as_u64).ok_or_else(|| must("a whole number of 0 or more"));
    match check {
        "non_empty" if value.is_some() => {
            Err(SpecError::new("/value", "non_empty takes no `value`", "remove `value`"))
        }
        "non_empty" => Ok(Question::NonEmpty),
        "max_bytes" => number().map(Question::MaxBytes),
        "min_items" => number().map(Question::MinItems),
        "matches" => matches(value.and_then(Value::as_str).ok_or_else(|| must("a pattern as text"))?),
        "equals" => {
            let value = value.ok_or_else(|| must("what to compare with"))?;
            canonical(value)
                .map(Question::Equals)
                .map_err(|error| SpecError::new("/value", error.to_string(), "compare with another value"))
        }
        "status" => statuses(value)
            .map(Question::Status)
            .ok_or_else(|| must("a whole number, or a list of one or more")),
        other => {
            let meant = nearest(other, CHECKS, &mut PAIRS_MAX.clone());
            let help = meant.map_or_else(one_of_the_checks, |meant| format!("did you mean {meant:?}?"));
            Err(SpecError::new("/check", format!("unknown check {:?}", excerpt(other)), help))
        }
    }
}

fn matches(pattern: &str) -> Result<Question, SpecError> {
    let wrong = |what: String| {
        SpecError::new("/value", what, "write a regular expression of the `regex` crate: no look-around")
    };
    if pattern.len() > PATTERN_TEXT_BYTES_MAX {
        let bytes = pattern.len();
        return Err(wrong(format!(
            "the pattern has {bytes} bytes, at most {PATTERN_TEXT_BYTES_MAX} are allowed"
        )));
    }
    patterns::compile(pattern)
        .map(|(regex, size)| Question::Matches(Box::new(regex), size))
        .map_err(|error| wrong(format!("the pattern is not a regular expression: {}", regex_error(&error))))
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

/// A string as is, any other value as canonical JSON; `None` without a canonical form.
fn text_of(value: &Value) -> Option<std::borrow::Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        other => canonical(other).ok().map(|json| json.as_str().to_owned().into()),
    }
}
