//! How a tool describes itself, reads its parameters and says what went wrong.

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{ToolSpec, ParamProblem};
use ostler_kernel::run::FailureCategory;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Looking, and nothing else.
pub(super) const READ: CallClass = CallClass { impact: 0, effect: Effect::Read, idem: Idempotency::Natural };

/// Not even looking: a function of its parameters.
pub(super) const PURE: CallClass = CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural };

/// The worst a call can be.
pub(super) const WORST: CallClass =
    CallClass { impact: 2, effect: Effect::External, idem: Idempotency::None };

/// A spec whose parameters and result are objects with exactly the given fields.
pub(super) fn spec(name: &str, description: &str, params: Value, result: Value) -> ToolSpec {
    ToolSpec { name: name.into(), version: "1".into(), description: description.into(), params, result }
}

/// The schema of an object with exactly these properties; those in `required` must be there.
pub(super) fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

/// The parameters of a permit, as the type the tool works with.
pub(super) fn params<T: DeserializeOwned>(permit: Permit) -> Result<T, Failure> {
    parse(permit.into_params())
}

/// Parameters that were judged by the schema; a value that fits the schema and not the type is structural.
pub(super) fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(params)).map_err(|error| structural(format!("parameters: {error}")))
}

/// What [`Tool::check`](ostler_kernel::port::Tool::check) says of one parameter: `judge` gets its text, if it is there
/// and a text, and gives what is wrong with it.
pub(super) fn check_text(
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

/// Trying again cannot help; other parameters may.
pub(super) fn structural(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Structural, message)
}

/// Trying again may help, and nothing was done.
pub(super) fn transient(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Transient, message)
}

/// A named limit was reached.
pub(super) fn exhausted(message: impl Into<String>) -> Failure {
    failure(FailureCategory::ResourceExhaustion, message)
}

/// It broke off; what it did until then is not known.
pub(super) fn crash(message: impl Into<String>) -> Failure {
    failure(FailureCategory::Crash, message)
}

/// A failure of a category.
pub(super) fn failure(category: FailureCategory, message: impl Into<String>) -> Failure {
    Failure { category, message: message.into() }
}
