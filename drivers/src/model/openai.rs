//! Requests in the dialect of OpenAI's chat completions.

use ostler_kernel::port::{Message, ModelRequest, ToolCall, ToolChoice};
use serde_json::{Map, Value, json};

use super::call_ids;
use super::profile::{Quirks, SchemaMode};
use super::schema;
use super::tool_names::ToolNames;
use super::wire::WireRequest;

/// Name of the schema in a request.
const SCHEMA_NAME: &str = "answer";

/// The request. What stays the same from call to call comes first: providers cache prompts by their beginning. serde_json sorts
/// the keys of objects, so tools and schemas are the same bytes each time.
pub(super) fn request(model: &str, request: &ModelRequest, max_tokens: u32, quirks: Quirks) -> WireRequest {
    let names = ToolNames::of(&request.tools, &[]);
    let mut messages: Vec<Value> = Vec::new();
    let format = request.schema.as_ref().map(|schema| format(schema, quirks));
    if let Some((_, Some(instruction))) = &format {
        messages.push(json!({"role": "system", "content": instruction}));
    }
    call_ids::walk(&request.messages, |message, ids| messages.push(self::message(message, &ids, &names)));
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(model)),
        ("messages".to_owned(), messages.into()),
        ("stream".to_owned(), true.into()),
        (quirks.max_tokens.to_owned(), max_tokens.into()),
    ]);
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    set("stream_options", quirks.asks_usage.then(|| json!({"include_usage": true})));
    set("response_format", format.and_then(|(format, _)| format));
    // Some servers write calls as text if they see tools that must not be called.
    if !request.tools.is_empty() && request.tool_choice != ToolChoice::None {
        set("tools", Some(tools(request, &names, quirks)));
        let choice = if request.tool_choice == ToolChoice::Required { quirks.required } else { "auto" };
        set("tool_choice", Some(choice.into()));
    }
    let sampling = &request.sampling;
    set("temperature", sampling.temperature.map(Value::from));
    set("top_p", sampling.top_p.map(Value::from));
    set(quirks.seed, sampling.seed.map(Value::from));
    set("stop", (!sampling.stop.is_empty()).then(|| json!(sampling.stop)));
    WireRequest { path: "chat/completions", body: Value::Object(body), names, answer_tool: None }
}

/// `response_format`, and an instruction for what the format cannot enforce.
fn format(schema: &Value, quirks: Quirks) -> (Option<Value>, Option<String>) {
    let with = |schema: Value, strict: bool| json!({"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "strict": strict, "schema": schema}});
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    match quirks.schema {
        SchemaMode::Plain => (Some(with(schema.clone(), true)), None),
        SchemaMode::Strict => match schema::strict(schema) {
            Some(strict) => (Some(with(strict, true)), None),
            None if is_object => (Some(with(schema.clone(), false)), Some(schema::instruction(schema))),
            None => (None, Some(schema::instruction(schema))),
        },
        SchemaMode::JsonObject => {
            (is_object.then(|| json!({"type": "json_object"})), Some(schema::instruction(schema)))
        }
    }
}

fn tools(request: &ModelRequest, names: &ToolNames, quirks: Quirks) -> Value {
    let tools = request.tools.iter().map(|tool| {
        let strict = if quirks.strict_tools { schema::strict(&tool.params) } else { None };
        let mut function = json!({
            "name": names.sent(&tool.name),
            "description": tool.description,
            "parameters": strict.as_ref().unwrap_or(&tool.params),
        });
        if strict.is_some() {
            function["strict"] = true.into();
        }
        json!({"type": "function", "function": function})
    });
    tools.collect()
}

fn message(message: &Message, ids: &[String], names: &ToolNames) -> Value {
    match message {
        Message::System(text) => json!({"role": "system", "content": text}),
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Assistant { text, calls, provider_data } => {
            let data = provider_data.as_ref().and_then(|data| data.get("openai"));
            // Fields of the provider first, so that none replaces one of ours.
            let mut fields = data
                .and_then(|data| data.get("message"))
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            fields.insert("role".to_owned(), "assistant".into());
            let content =
                if text.is_empty() && !calls.is_empty() { Value::Null } else { text.clone().into() };
            fields.insert("content".to_owned(), content);
            if !calls.is_empty() {
                let extras = data.and_then(|data| data.get("calls")).and_then(Value::as_array);
                let calls = calls.iter().zip(ids).enumerate().map(|(at, (call, id))| {
                    self::call(call, id, extras.and_then(|extras| extras.get(at)), names)
                });
                fields.insert("tool_calls".to_owned(), calls.collect());
            }
            Value::Object(fields)
        }
        Message::Tool { content, .. } => {
            json!({"role": "tool", "tool_call_id": ids.first(), "content": content})
        }
    }
}

fn call(call: &ToolCall, id: &str, extra: Option<&Value>, names: &ToolNames) -> Value {
    let ToolCall { name, arguments, .. } = call;
    let arguments = match arguments {
        Ok(arguments) => Value::Object(arguments.clone()).to_string(),
        // Servers refuse a history with arguments that are no JSON.
        Err(text) => json!({"invalid": text}).to_string(),
    };
    let mut fields = extra.and_then(Value::as_object).cloned().unwrap_or_default();
    fields.insert("id".to_owned(), id.into());
    fields.insert("type".to_owned(), "function".into());
    fields.insert("function".to_owned(), json!({"name": names.sent(name), "arguments": arguments}));
    Value::Object(fields)
}
