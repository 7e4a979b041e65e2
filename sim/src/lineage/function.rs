//! Functions of steps: an expression over parameters, references, fields and source.

use std::collections::BTreeMap;

use ostler_kernel::json::{Json, JsonError, canonical, canonicalize_numbers};
use ostler_kernel::lineage;
use ostler_kernel::template::project;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Function {
    Const(Value),
    Param(String),
    Ref(String),
    Field(String),
    Source(bool),
    Execution(bool),
    ByExec(Vec<Function>),
    Obj(BTreeMap<String, Function>),
    List(Vec<Function>),
    Concat(Vec<Function>),
    Pick(Box<Function>, String),
    Sort(Box<Function>),
    Len(Box<Function>),
    Hash(Vec<Function>),
}

/// Inputs of an execution.
pub(super) struct Scope<'a> {
    pub(super) node: &'a Map<String, Value>,
    pub(super) refs: &'a BTreeMap<String, Value>,
    pub(super) source: &'a Value,
    /// Number of executions of the function, this one included.
    pub(super) execution: u64,
}

impl Function {
    /// The value.
    ///
    /// # Errors
    ///
    /// A part has to be spelled, and has no canonical form.
    pub(super) fn value(&self, scope: &Scope<'_>) -> Result<Value, JsonError> {
        let all =
            |parts: &[Function]| parts.iter().map(|part| part.value(scope)).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Function::Const(value) => value.clone(),
            Function::Param(name) => {
                scope.node.get("params").and_then(|params| params.get(name)).cloned().unwrap_or_default()
            }
            Function::Ref(name) => scope.refs.get(name).cloned().unwrap_or_default(),
            Function::Field(name) => scope.node.get(name).cloned().unwrap_or_default(),
            Function::Source(true) => scope.source.clone(),
            Function::Execution(true) => Value::from(scope.execution),
            Function::Source(false) | Function::Execution(false) => Value::Null,
            Function::ByExec(list) => {
                let at = usize::try_from(scope.execution).unwrap_or(usize::MAX).saturating_sub(1);
                match list.get(at).or(list.last()) {
                    Some(function) => function.value(scope)?,
                    None => Value::Null,
                }
            }
            Function::Obj(parts) => {
                let parts = parts.iter().map(|(key, part)| Ok((key.clone(), part.value(scope)?)));
                Value::Object(parts.collect::<Result<_, JsonError>>()?)
            }
            Function::List(parts) => Value::Array(all(parts)?),
            Function::Concat(parts) => {
                let mut text = String::new();
                for part in all(parts)? {
                    text.push_str(&spelled(&part)?);
                }
                Value::String(text)
            }
            Function::Pick(of, path) => project(&of.value(scope)?, path).cloned().unwrap_or_default(),
            Function::Sort(of) => sorted(of.value(scope)?),
            Function::Len(of) => match of.value(scope)? {
                Value::Array(items) => Value::from(items.len()),
                Value::String(text) => Value::from(text.chars().count()),
                _ => Value::Null,
            },
            Function::Hash(parts) => {
                let mut digest = lineage::value(&canonical(&Value::Array(all(parts)?))?).to_string();
                digest.truncate(16);
                Value::String(digest)
            }
        })
    }
}

/// A string as is, any other value as canonical JSON.
fn spelled(value: &Value) -> Result<String, JsonError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => canonical(other).map(|json| json.as_str().to_owned()),
    }
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut items) = value else { return Value::Null };
    if !items.iter().all(Value::is_string) {
        return Value::Null;
    }
    items.sort_by(|left, right| {
        let units = |value: &Value| value.as_str().unwrap_or_default().encode_utf16().collect::<Vec<u16>>();
        units(left).cmp(&units(right))
    });
    Value::Array(items)
}

/// The value, converted to its medium.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    pub(super) media: String,
    pub(super) bytes: String,
    pub(super) value: Value,
}

impl Content {
    /// `None` if the medium cannot hold the value.
    pub(super) fn new(media: &str, value: &Value) -> Option<Content> {
        let bytes = if media == ostler_kernel::port::JSON {
            canonical(value).ok()?.as_str().to_owned()
        } else if media.starts_with("text/") {
            value.as_str()?.to_owned()
        } else {
            return None;
        };
        let mut value = value.clone();
        canonicalize_numbers(&mut value);
        Some(Content { media: media.to_owned(), bytes, value })
    }

    pub(super) fn digest(&self) -> ostler_kernel::id::Digest {
        lineage::artifact(&self.media, self.bytes.as_bytes())
    }
}

/// Canonical JSON of a part of the case.
pub(super) fn text_of(value: &Value) -> Result<Json, crate::graph::CaseError> {
    canonical(value)
        .map_err(|error| crate::graph::CaseError::Shape(format!("a value has no canonical form: {error}")))
}
