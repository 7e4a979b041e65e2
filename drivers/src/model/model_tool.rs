//! The tools `model.NAME`: a call of a model as a call of a tool.

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::model_tool;
use ostler_kernel::port::{
    BoxFuture, CallContext, Completion, ModelError, ModelErrorClass, ModelRequest, ModelTerms, ModelTurn,
    ParamProblem, PricedCall, Tool, ToolResult, ToolSpec,
};
use serde_json::{Map, Value};

use super::answer::{Wanted, result};
use super::config::ModelConfig;
use super::meter::CallMeter;
use super::models::ConfiguredModel;
use super::provider_mark;
use super::tokens::{estimate_tokens, request_bytes};
use super::tool_params::{self, Params};
use crate::tool::tool_spec::{PURE, failure};

/// Calls a model. If the model is overloaded, broken or too small, its fallbacks are called in turn.
///
/// The result is the JSON value of the answer with `schema`, `{text, calls}` with `tools`, and `{text}` otherwise.
#[derive(Debug)]
pub struct ModelTool {
    spec: ToolSpec,
    /// The model, then its fallbacks.
    models: Vec<Arc<ConfiguredModel>>,
}

impl ModelTool {
    /// The tool of the first model; the others are its fallbacks.
    ///
    /// # Panics
    ///
    /// `models` is empty.
    pub fn new(models: Vec<Arc<ConfiguredModel>>) -> ModelTool {
        let first = models.first().expect("a tool has a model");
        let provider = first.config.provider.as_str();
        let described = first.config.model.as_deref().unwrap_or(provider);
        let spec = ToolSpec {
            name: model_tool(&first.name),
            // An answer of a fallback is a result of this tool as well.
            version: models.iter().map(|model| model.version.as_str()).collect::<Vec<_>>().join("-"),
            description: format!(
                "Ask the language model {described}. The result is text, or a value of `schema`, or calls of `tools`."
            ),
            params: tool_params::schema(),
            result: Value::Null,
        };
        ModelTool { spec, models }
    }

    async fn answer(&self, params: Map<String, Value>, context: CallContext) -> ToolResult {
        let params = Params::read(params)?;
        let is_turn = params.asks_for_turn();
        let (request, schema) = params.request(context.origin.clone())?;
        let wanted = match schema {
            Some(schema) => Wanted::Json(schema),
            None if is_turn => {
                let schemas = request.tools.iter().map(|offer| (offer.name.clone(), offer.params.clone()));
                Wanted::Calls(schemas.collect())
            }
            None => Wanted::Text,
        };
        let mut last = None;
        for (at, model) in self.models.iter().enumerate() {
            let (called, max_tokens) = call(model, request.clone(), &context).await?;
            match called {
                Ok(completion) => return result(completion, &wanted, &model.name, max_tokens),
                Err(error) => {
                    let goes_on = at + 1 < self.models.len() && helps_to_change(error.class);
                    last = Some(explain(model, &error));
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        Err(last.expect("a tool has a model"))
    }
}

/// Calls one model in its turn and within the budget, and reports the call, also if the caller drops it. The call is made again
/// while the provider asks to wait and the attempt does. The number is the most tokens that the answer could have.
///
/// # Errors
///
/// The budget does not allow the call, which was not made.
pub(super) async fn call(
    model: &ConfiguredModel,
    mut request: ModelRequest,
    context: &CallContext,
) -> Result<(Result<Completion, ModelError>, u32), Failure> {
    let max = model.config.max_output_tokens;
    let max_output_tokens = request.sampling.max_output_tokens.map_or(max, |asked| asked.clamp(1, max));
    request.sampling.max_output_tokens = Some(max_output_tokens);
    if let Some(error) = too_long(&model.config, &request) {
        return Ok((Err(error), max_output_tokens));
    }
    provider_mark::keep_own(&mut request.messages, &model.name);
    let input_bytes = request_bytes(&request);
    let turn = ModelTurn {
        model: &model.name,
        prompt_tokens: estimate_tokens(input_bytes),
        answer_tokens_max: max_output_tokens.into(),
    };
    let priced = PricedCall { model: &model.name, input_bytes, max_output_tokens, price: model.price };
    loop {
        context.attempt.model_turn(turn).await;
        // The log gives the turn of a refused call back.
        let grant = context.attempt.reserve_call(priced).await?;
        request.sampling.max_output_tokens = Some(grant.max_output_tokens);
        let mut meter = CallMeter::start(model, &request, input_bytes, context.attempt.clone(), grant);
        let called = model.model.call(request.clone(), &mut |delta| meter.piece(&delta)).await;
        let calls_again = meter.end(&called);
        if !calls_again {
            return Ok((called, grant.max_output_tokens));
        }
        request.origin.refusals += 1;
    }
}

/// The error of a prompt that is larger than the model's context by estimate, which spares a call that the provider refuses.
fn too_long(config: &ModelConfig, request: &ModelRequest) -> Option<ModelError> {
    let (estimate, most) = (estimate_tokens(request_bytes(request)), u64::from(config.context_tokens?));
    (estimate > most).then(|| ModelError {
        class: ModelErrorClass::ContextTooLong,
        status: None,
        message: format!(
            "the prompt has about {estimate} tokens, and context_tokens is {most}; no call was made"
        ),
        retry_after_s: None,
        is_unsent: false,
    })
}

/// True if another model may answer where this one did not.
fn helps_to_change(class: ModelErrorClass) -> bool {
    match class {
        ModelErrorClass::Overloaded
        | ModelErrorClass::Connection
        | ModelErrorClass::ContextTooLong
        | ModelErrorClass::Server => true,
        ModelErrorClass::RateLimited
        | ModelErrorClass::InvalidRequest
        | ModelErrorClass::Auth
        | ModelErrorClass::NotFound
        | ModelErrorClass::Refused
        | ModelErrorClass::InvalidOutput => false,
    }
}

pub(super) fn explain(model: &ConfiguredModel, error: &ModelError) -> Failure {
    let name = &model.name;
    let mut message = format!("model {name}: {error}");
    if let Some(wait) = error.retry_after_s {
        message.push_str(&format!("; the provider asks to wait {wait} s"));
    }
    let variable = model.config.api_key_env.as_ref().and_then(|variable| variable.name());
    match error.class {
        ModelErrorClass::Auth if model.has_key => match variable {
            Some(variable) => {
                message.push_str(&format!("; check the key in {variable}, its rights and its balance"))
            }
            None => message.push_str(&format!("; set api_key_env in [models.{name}]")),
        },
        ModelErrorClass::NotFound => {
            message.push_str(&format!("; check model and base_url in [models.{name}]"));
        }
        ModelErrorClass::ContextTooLong => {
            message.push_str("; shorten the prompt, or name a model with a larger context in fallback");
        }
        _ => {}
    }
    failure(error.class.category(), message)
}

impl Tool for ModelTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Those of the first model: fallbacks are called when it fails.
    fn model_terms(&self) -> Option<ModelTerms> {
        let ConfiguredModel { config, price, .. } = &**self.models.first()?;
        Some(ModelTerms { max_output_tokens: config.max_output_tokens, price: *price })
    }

    /// A call changes nothing: after a lost result it is made again, which can cost its price twice.
    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        PURE
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<ParamProblem> {
        tool_params::check(params)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(self.answer(permit.into_params(), context))
    }
}
