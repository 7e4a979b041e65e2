//! Cassettes from answers that are known otherwise than by a recorded exchange.
//!
//! Requests are made as a played cassette makes them, and the response is a document of the same dialect, so the cassette answers
//! what is asked again, whatever provider answered first.

use ostler_kernel::port::{CallOrigin, Finish, ModelRequest, Usage};
use serde_json::{Map, Value, json};

use super::cassette::{Exchange, Header, Request, Response};
use super::config::{Dialect, MAX_OUTPUT_TOKENS_DEFAULT};
use super::profile::Profile;
use super::tool_params::Params;
use super::wire::WireRequest;
use super::{anthropic, openai};

/// Field of a result with opaque data of the provider.
const DATA: &str = "provider_data";

/// An answered call of a tool `model.NAME`.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredCall {
    /// Parameters of the tool.
    pub params: Map<String, Value>,
    /// Result of the tool.
    pub result: Value,
    /// The model's reason to stop, as [`Finish::as_str`] names it.
    pub finish: String,
    /// Name of the model, as the response gave it.
    pub model: Option<String>,
    /// Id of the response.
    pub response_id: Option<String>,
    /// Token counts.
    pub usage: Usage,
}

/// The lines of a cassette that answers these calls, the header first. Opaque data of Anthropic make it a cassette of that
/// dialect, so that a conversation goes on as it did; any other is one of OpenAI's dialect.
///
/// # Errors
///
/// The place and problem of the first call with parameters that no model's tool takes.
pub fn cassette(calls: &[AnsweredCall]) -> Result<Vec<String>, (usize, String)> {
    let is_signed =
        |call: &AnsweredCall| call.result.get(DATA).is_some_and(|data| data.get("anthropic").is_some());
    let dialect = if calls.iter().any(is_signed) { Dialect::Anthropic } else { Dialect::Openai };
    let header = Header::new(dialect, Profile::Generic, "exported");
    let mut lines = vec![json!(header).to_string()];
    for (at, call) in calls.iter().enumerate() {
        let params = Params::read(call.params.clone()).map_err(|failure| (at, failure.message))?;
        let request = params.request(CallOrigin::default());
        let (request, schema) = request.map_err(|failure| (at, failure.message))?;
        let wire = wire(&header, &request);
        let body = match dialect {
            Dialect::Openai => openai_document(call, &wire, schema.is_some()),
            Dialect::Anthropic => anthropic_document(call, &wire, schema.is_some()),
        };
        let request = Request { path: wire.path.to_owned(), body: wire.body };
        lines.push(json!(Exchange { request, response: Response::document(&body) }).to_string());
    }
    Ok(lines)
}

/// The request as a model makes it whose configuration says nothing but the cassette.
fn wire(header: &Header, request: &ModelRequest) -> WireRequest {
    let asked = request.sampling.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS_DEFAULT);
    let max_tokens = asked.clamp(1, MAX_OUTPUT_TOKENS_DEFAULT);
    match header.dialect {
        Dialect::Openai => openai::request(&header.model, request, max_tokens, header.profile.quirks()),
        Dialect::Anthropic => anthropic::request(&header.model, request, max_tokens),
    }
}

/// The text of an answer: that of the result, or the value of its schema.
fn text(call: &AnsweredCall, has_schema: bool) -> String {
    if has_schema {
        call.result.to_string()
    } else {
        call.result["text"].as_str().unwrap_or_default().to_owned()
    }
}

fn calls(call: &AnsweredCall) -> impl Iterator<Item = &Value> {
    call.result.get("calls").and_then(Value::as_array).into_iter().flatten()
}

fn openai_document(call: &AnsweredCall, wire: &WireRequest, has_schema: bool) -> Value {
    let data = call.result.get(DATA).and_then(|data| data.get("openai"));
    let fields = |of: Option<&Value>| of.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut message = fields(data.and_then(|data| data.get("message")));
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), text(call, has_schema).into());
    let extras = data.and_then(|data| data.get("calls")).and_then(Value::as_array);
    let of_calls: Vec<Value> = calls(call)
        .enumerate()
        .map(|(at, asked)| {
            let mut fields = fields(extras.and_then(|extras| extras.get(at)));
            let name = wire.names.sent(asked["tool"].as_str().unwrap_or_default());
            fields.extend(asked.get("id").map(|id| ("id".to_owned(), id.clone())));
            fields.insert("type".to_owned(), "function".into());
            let function = json!({"name": name, "arguments": asked["params"].to_string()});
            fields.insert("function".to_owned(), function);
            Value::Object(fields)
        })
        .collect();
    if !of_calls.is_empty() {
        message.insert("tool_calls".to_owned(), of_calls.into());
    }
    let finish = match finish(call) {
        Finish::Stop | Finish::StopSequence => Some("stop"),
        Finish::Length => Some("length"),
        Finish::ToolCalls => Some("tool_calls"),
        Finish::ContentFilter | Finish::Refusal => Some("content_filter"),
        Finish::Unknown => None,
    };
    let usage = &call.usage;
    json!({
        "id": call.response_id,
        "model": call.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        },
    })
}

fn anthropic_document(call: &AnsweredCall, wire: &WireRequest, has_schema: bool) -> Value {
    let own =
        call.result.get(DATA).and_then(|data| data.get("anthropic")).and_then(|data| data.get("content"));
    let content: Vec<Value> = match (own.and_then(Value::as_array), wire.answer_tool) {
        (Some(blocks), _) => blocks.clone(),
        (None, Some(tool)) if has_schema && call.result.is_object() => {
            vec![json!({"type": "tool_use", "id": "answer", "name": tool, "input": call.result})]
        }
        (None, _) => {
            let said = Some(text(call, has_schema)).filter(|text| !text.is_empty());
            let said = said.map(|text| json!({"type": "text", "text": text})).into_iter();
            let calls = calls(call).enumerate().map(|(at, asked)| {
                let id = asked.get("id").cloned().unwrap_or_else(|| format!("call{at:05}").into());
                let name = wire.names.sent(asked["tool"].as_str().unwrap_or_default());
                json!({"type": "tool_use", "id": id, "name": name, "input": asked["params"]})
            });
            said.chain(calls).collect()
        }
    };
    let stop = match finish(call) {
        Finish::Stop => Some("end_turn"),
        Finish::StopSequence => Some("stop_sequence"),
        Finish::Length => Some("max_tokens"),
        Finish::ToolCalls => Some("tool_use"),
        Finish::ContentFilter | Finish::Refusal => Some("refusal"),
        Finish::Unknown => None,
    };
    // The provider counts cached tokens apart.
    let usage = &call.usage;
    let cached = usage.cache_read.unwrap_or(0);
    json!({
        "type": "message",
        "id": call.response_id,
        "model": call.model,
        "content": content,
        "stop_reason": stop,
        "usage": {
            "input_tokens": usage.input.map(|input| input.saturating_sub(cached)),
            "cache_read_input_tokens": cached,
            "output_tokens": usage.output,
        },
    })
}

fn finish(call: &AnsweredCall) -> Finish {
    Finish::ALL.into_iter().find(|finish| finish.as_str() == call.finish).unwrap_or(Finish::Unknown)
}
