//! Checks the parameters of a call before the run starts, when some are literals and others refer to results still to come.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use super::tool::{GatedTool, TOO_LARGE_HELP, UNPLACED};
use crate::contract::{describe_kind, excerpt};
use crate::plan::{BadParam, nearest};
use crate::port::ParamProblem;

const BAD_PARAMS_MAX: usize = 64;

const PAIRS_MAX: usize = 100_000;

/// Fault of a parameter with a reserved name, see [`is_reserved`].
pub(super) const RESERVED: &str = "reserved parameter name: a call cannot set its own authority";

/// True if a name denotes the authority or the author of a call. No tool's parameter may have such a name.
pub fn is_reserved(name: &str) -> bool {
    matches!(name, "intent" | "impact" | "scope" | "scopes" | "cap" | "clearance" | "author" | "epoch")
}

impl GatedTool {
    /// Checks a partial set of parameters: `literal` holds the known ones, `referred` names those still to come.
    ///  
    /// Reports violations of the schema that the missing parameters cannot repair, and what the tool's own check finds. Faults
    /// do not quote values.
    pub fn judge(&self, literal: &Map<String, Value>, referred: &BTreeSet<&str>) -> Vec<BadParam> {
        let schema = &self.tool().spec().params;
        let mut params = self.with_defaults(literal);
        params.retain(|name, _| literal.contains_key(name) || !referred.contains(name.as_str()));
        let mut bad = self.unknown_references(schema, referred);
        let whole = Value::Object(params);
        let mut refused = |what: String| {
            let help = TOO_LARGE_HELP.to_owned();
            bad.push(BadParam::Wrong { pointer: String::new(), what, help, line: None });
        };
        match self.validator(&whole) {
            Ok(validator) if validator.is_valid(&whole) => {}
            Ok(_) if !self.can_list_violations(&whole) => refused(UNPLACED.to_owned()),
            Ok(validator) => {
                let errors = validator.iter_errors(&whole).take(BAD_PARAMS_MAX);
                for error in errors.filter(|error| is_conclusive(error, referred)) {
                    bad.extend(bad_params(&error, schema));
                }
            }
            Err(what) => refused(what),
        }
        bad.extend(reserved(&bad, literal.keys().map(String::as_str).chain(referred.iter().copied())));
        let mut checked = catch_unwind(AssertUnwindSafe(|| self.tool().check(literal))).unwrap_or_default();
        checked.retain(|wrong| !bad.iter().any(|bad| top(pointer_of(bad)) == wrong.name));
        bad.extend(checked.into_iter().map(|ParamProblem { name, what, help, line }| BadParam::Wrong {
            pointer: format!("/{}", escaped(&name)),
            what,
            help,
            line,
        }));
        bad
    }

    /// References to parameters that the schema does not declare.
    fn unknown_references(&self, schema: &Value, referred: &BTreeSet<&str>) -> Vec<BadParam> {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
            || ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"]
                .iter()
                .any(|&word| schema.get(word).is_some());
        let unknown = referred.iter().filter(|&&name| !open && !known.contains_key(name));
        unknown
            .map(|&name| BadParam::Unknown {
                pointer: format!("/{}", escaped(name)),
                name: name.to_owned(),
                known: known.keys().cloned().collect(),
            })
            .collect()
    }
}

/// Reserved names among the parameters, without those already in `bad`.
fn reserved<'a>(bad: &[BadParam], names: impl Iterator<Item = &'a str>) -> Vec<BadParam> {
    let pointers = names.filter(|name| is_reserved(name)).map(|name| format!("/{name}"));
    let missing =
        pointers.filter(|pointer| !bad.iter().any(|bad| pointer_of(bad) == pointer)).map(|pointer| {
            BadParam::Wrong { pointer, what: RESERVED.to_owned(), help: "remove it".to_owned(), line: None }
        });
    missing.collect()
}

/// True if a schema error stands regardless of the parameters still to come. True for errors about a known parameter or
/// about a parameter's name; false for a missing parameter that a reference will supply, and for conditions over several
/// parameters.
fn is_conclusive(error: &ValidationError<'_>, referred: &BTreeSet<&str>) -> bool {
    if referred.is_empty() {
        return true;
    }
    match error.kind() {
        ValidationErrorKind::Required { property } if error.instance_path().as_str().is_empty() => {
            error.schema_path().as_str() == "/required"
                && property.as_str().is_none_or(|name| !referred.contains(name))
        }
        ValidationErrorKind::AdditionalProperties { .. } => true,
        _ => error.schema_path().as_str().starts_with("/properties/"),
    }
}

fn bad_params(error: &ValidationError<'_>, schema: &Value) -> Vec<BadParam> {
    let pointer = error.instance_path().as_str().to_owned();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = named_beside(error, schema);
            let unknown = unexpected.iter().map(|name| BadParam::Unknown {
                pointer: format!("{pointer}/{}", escaped(name)),
                name: name.clone(),
                known: known.clone(),
            });
            unknown.collect()
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default().to_owned();
            let path = error.schema_path().as_str().trim_end_matches("/required");
            let says = schema.pointer(&format!("{path}/properties/{}", escaped(&name)));
            let says = says.and_then(|inner| inner.get("description")).and_then(Value::as_str);
            vec![BadParam::Missing { pointer, name, says: says.unwrap_or_default().to_owned() }]
        }
        kind => {
            let (what, help) = value_fault(kind, error);
            vec![BadParam::Wrong { pointer, what, help, line: None }]
        }
    }
}

/// The properties declared by the schema that rejected a property.
fn named_beside(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let path = error.schema_path().as_str();
    let place = path.rsplit_once('/').map_or("", |(place, _)| place);
    let named = schema.pointer(&format!("{place}/properties")).and_then(Value::as_object);
    named.map(|named| named.keys().cloned().collect()).unwrap_or_default()
}

fn value_fault(kind: &ValidationErrorKind, error: &ValidationError<'_>) -> (String, String) {
    let found = describe_kind(error.instance());
    let must = |what: String| (format!("must be {what}, found {found}"), format!("give it {what}"));
    let be = |what: String| (format!("must be {what}"), format!("give it {what}"));
    let size = |what: String| (format!("must have {what}"), format!("give it {what}"));
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(wanted) } => {
            let (what, help) = must(word(*wanted).to_owned());
            (what, requoted(error.instance(), *wanted).unwrap_or(help))
        }
        ValidationErrorKind::Type { kind: TypeKind::Multiple(wanted) } => {
            let words: Vec<&str> = wanted.iter().map(word).collect();
            must(words.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options.as_array().into_iter().flatten().map(plain).collect();
            let help = error
                .instance()
                .as_str()
                .and_then(|found| nearest(found, options.iter().map(String::as_str), &mut PAIRS_MAX.clone()));
            let listed = excerpt(options.join(", "));
            let otherwise = format!("use one of {listed}");
            let help = help.map_or(otherwise, |meant| format!("did you mean {meant:?}?"));
            (format!("must be one of {listed}"), help)
        }
        ValidationErrorKind::Constant { expected_value } => must(excerpt(plain(expected_value))),
        ValidationErrorKind::Minimum { limit } => be(format!("{limit} or more")),
        ValidationErrorKind::Maximum { limit } => be(format!("{limit} or less")),
        ValidationErrorKind::ExclusiveMinimum { limit } => be(format!("more than {limit}")),
        ValidationErrorKind::ExclusiveMaximum { limit } => be(format!("less than {limit}")),
        ValidationErrorKind::MinLength { limit: 1 } => {
            ("must not be empty".to_owned(), "write something".to_owned())
        }
        ValidationErrorKind::MinLength { limit } => size(format!("{limit} characters or more")),
        ValidationErrorKind::MaxLength { limit } => size(format!("{limit} characters or fewer")),
        ValidationErrorKind::MinItems { limit: 1 } => {
            ("must not be empty".to_owned(), "give it an item".to_owned())
        }
        ValidationErrorKind::MinItems { limit } => size(format!("{limit} items or more")),
        ValidationErrorKind::MaxItems { limit } => size(format!("{limit} items or fewer")),
        ValidationErrorKind::Pattern { pattern } => {
            (format!("must match /{}/", excerpt(pattern)), "give a value that matches".to_owned())
        }
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => (
            "matches none of the allowed forms".to_owned(),
            "see the parameter schema of the tool".to_owned(),
        ),
        _ => (excerpt(error.masked()), "see the parameter schema of the tool".to_owned()),
    }
}

/// Help for a value that only lacks quotes, or has some that it must not have. Does not repeat the value, which may be
/// a secret.
fn requoted(found: &Value, wanted: JsonType) -> Option<String> {
    let help = match (found, wanted) {
        (Value::Number(_) | Value::Bool(_), JsonType::String) => "write it in quotes",
        (Value::String(text), JsonType::Array) if text.contains(' ') => {
            "write a list with an item for each word, such as [ls, -l]"
        }
        (Value::String(text), JsonType::Integer | JsonType::Number | JsonType::Boolean) => {
            let bare: Value = serde_json::from_str(text).ok()?;
            let fits = match wanted {
                JsonType::Integer => bare.is_i64() || bare.is_u64(),
                JsonType::Number => bare.is_number(),
                _ => bare.is_boolean(),
            };
            fits.then_some("remove the quotes")?
        }
        _ => return None,
    };
    Some(help.to_owned())
}

fn word(wanted: JsonType) -> &'static str {
    match wanted {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "a map",
        JsonType::String => "a text",
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn pointer_of(bad: &BadParam) -> &str {
    match bad {
        BadParam::Unknown { pointer, .. }
        | BadParam::Missing { pointer, .. }
        | BadParam::Wrong { pointer, .. } => pointer,
    }
}

fn top(pointer: &str) -> &str {
    pointer.split('/').nth(1).unwrap_or_default()
}
