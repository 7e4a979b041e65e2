//! Requests in the dialect of Anthropic's messages.

use ostler_kernel::port::{Message, ModelRequest, ToolCall, ToolChoice};
use serde_json::{Map, Value, json};

use super::call_ids;
use super::schema;
use super::tool_names::ToolNames;
use super::wire::WireRequest;

/// Headers of every request.
pub(super) const HEADERS: [(&str, &str); 1] = [("anthropic-version", "2023-06-01")];

/// Name of the tool whose arguments are the answer, for calls with a schema.
const ANSWER_TOOL: &str = "answer";

/// The request. Tools and system text stay the same from call to call and come first; the last of them carries the mark up to
/// which the provider caches.
pub(super) fn request(model: &str, request: &ModelRequest, max_tokens: u32) -> WireRequest {
    let is_object = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("object");
    let answer = request.schema.as_ref().filter(is_object);
    let reserved: &[&str] = if answer.is_some() { &[ANSWER_TOOL] } else { &[] };
    let names = ToolNames::of(&request.tools, reserved);
    let mut body = Map::from_iter([
        ("model".to_owned(), json!(model)),
        ("max_tokens".to_owned(), max_tokens.into()),
        ("stream".to_owned(), true.into()),
        ("messages".to_owned(), messages(&request.messages, &names)),
    ]);
    let mut system: Vec<&str> = Vec::new();
    let instruction = request.schema.as_ref().filter(|_| answer.is_none()).map(schema::instruction);
    system.extend(instruction.as_deref());
    system.extend(request.messages.iter().filter_map(|message| match message {
        Message::System(text) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    }));
    let mut system: Vec<Value> = system.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let mut tools = tools(request, answer, &names);
    let marked = if system.is_empty() { tools.last_mut() } else { system.last_mut() };
    if let Some(marked) = marked {
        marked["cache_control"] = json!({"type": "ephemeral"});
    }
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    set("system", (!system.is_empty()).then(|| system.into()));
    let choice = choice(request, answer.is_some());
    set("tool_choice", (!tools.is_empty()).then_some(choice));
    set("tools", (!tools.is_empty()).then(|| tools.into()));
    let sampling = &request.sampling;
    // The provider takes 0 to 1.
    set("temperature", sampling.temperature.map(|temperature| temperature.min(1.0).into()));
    set("top_p", sampling.top_p.map(Value::from));
    set("stop_sequences", (!sampling.stop.is_empty()).then(|| json!(sampling.stop)));
    let answer_tool = answer.is_some().then_some(ANSWER_TOOL);
    WireRequest { path: "v1/messages", body: Value::Object(body), names, answer_tool }
}

/// With a schema, the answer is a call of its tool; where other tools may be called, any call will do.
fn choice(request: &ModelRequest, has_answer: bool) -> Value {
    let offers = !request.tools.is_empty();
    match (request.tool_choice, has_answer) {
        (ToolChoice::None, true) => json!({"type": "tool", "name": ANSWER_TOOL}),
        (ToolChoice::None, false) => json!({"type": "none"}),
        (ToolChoice::Auto | ToolChoice::Required, true) if !offers => {
            json!({"type": "tool", "name": ANSWER_TOOL})
        }
        (ToolChoice::Auto, false) => json!({"type": "auto"}),
        (ToolChoice::Auto, true) | (ToolChoice::Required, _) => json!({"type": "any"}),
    }
}

fn tools(request: &ModelRequest, answer: Option<&Value>, names: &ToolNames) -> Vec<Value> {
    let tool = |name: String, description: &str, schema: &Value| json!({"name": name, "description": description, "input_schema": schema});
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|offer| tool(names.sent(&offer.name), &offer.description, &offer.params))
        .collect();
    if let Some(schema) = answer {
        tools.push(tool(ANSWER_TOOL.to_owned(), "Gives the final answer.", schema));
    }
    tools
}

/// The conversation. Neighbours of the same role become one message, as the provider wants roles to alternate.
fn messages(messages: &[Message], names: &ToolNames) -> Value {
    let mut all: Vec<(&str, Vec<Value>)> = Vec::new();
    call_ids::walk(messages, |message, ids| {
        let (role, blocks) = match message {
            Message::System(_) => return,
            Message::User(text) => ("user", text_block(text)),
            Message::Assistant { text, calls, provider_data } => {
                ("assistant", assistant(text, calls, &ids, provider_data.as_ref(), names))
            }
            Message::Tool { content, .. } => {
                ("user", vec![json!({"type": "tool_result", "tool_use_id": ids.first(), "content": content})])
            }
        };
        match all.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => all.push((role, blocks)),
        }
    });
    all.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn assistant(
    text: &str,
    calls: &[ToolCall],
    ids: &[String],
    data: Option<&Value>,
    names: &ToolNames,
) -> Vec<Value> {
    // Signed thinking counts only in its place among the blocks, so the provider gets its own blocks back.
    let own = data.and_then(|data| data.get("anthropic")).and_then(|data| data.get("content"));
    if let Some(blocks) = own.and_then(Value::as_array) {
        return blocks.clone();
    }
    let mut blocks = text_block(text);
    for (ToolCall { name, arguments, .. }, id) in calls.iter().zip(ids) {
        let input = arguments.as_ref().map_or_else(|text| json!({"invalid": text}), |input| json!(input));
        blocks.push(json!({"type": "tool_use", "id": id, "name": names.sent(name), "input": input}));
    }
    blocks
}

/// The provider refuses empty text.
fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({"type": "text", "text": text})] }
}
