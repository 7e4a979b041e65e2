//! Declares tools, parses their parameters and constructs their failures.

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{ParamProblem, ToolSpec};
use ostler_kernel::run::FailureCategory;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(crate) const READ: CallClass = CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural };

pub(crate) const PURE: CallClass = CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural };

pub(crate) const WORST: CallClass =
    CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };

pub(crate) fn spec(name: &str, description: &str, params: Value, result: Value) -> ToolSpec {
    ToolSpec { name: name.into(), version: "1".into(), description: description.into(), params, result }
}

/// Schema of an object with exactly these properties, of which `required` are mandatory.
pub(crate) fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

pub(crate) fn params<T: DeserializeOwned>(permit: Permit) -> Result<T, Failure> {
    parse(permit.into_params())
}

/// Parses parameters that passed the schema. A value outside the Rust type is a structural failure.
pub(crate) fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(params)).map_err(|error| structural(format!("parameters: {error}")))
}

/// Implements [`Tool::check`](ostler_kernel::port::Tool::check) for one string parameter: `judge` returns its fault, if any.
pub(crate) fn check_text(
    params: &Map<String, Value>,
    name: &str,
    help: &str,
    judge: impl FnOnce(&str) -> Result<(), String>,
) -> Vec<ParamProblem> {
    let text = params.get(name).and_then(Value::as_str);
    let wrong = text.and_then(|text| judge(text).err());
    let (name, help) = (name.to_owned(), help.to_owned());
    wrong.map(|what| ParamProblem { name, what, help, line: None }).into_iter().collect()
}

/// A retry cannot help; other parameters may.
pub(crate) fn structural(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Structural, message)
}

/// A retry may help; nothing was done.
pub(crate) fn transient(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Transient, message)
}

/// A named limit was reached.
pub(crate) fn exhausted(message: impl Into<String>) -> Failure {
    failure(FailureCategory::ResourceExhaustion, message)
}

pub(crate) fn crash(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Crash, message)
}

pub(crate) fn failure(category: FailureCategory, message: impl Into<String>) -> Failure {
    Failure { category, message: message.into() }
}
