//! Parameters of the tools `model.NAME`, as a request.

use ostler_kernel::contract::{SchemaError, check_schema};
use ostler_kernel::event::Failure;
use ostler_kernel::port::{
    CallOrigin, Message, ModelRequest, ParamProblem, Sampling, ToolCall, ToolChoice, ToolOffer,
};
use ostler_kernel::template::{self, TemplateError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::tool::tool_spec::{object, parse, structural};

/// Maximum messages of a call.
pub const MESSAGES_MAX: usize = 1_024;
/// Maximum tools offered to a model.
pub const OFFERS_MAX: usize = 256;
/// Maximum faulty answers shown to a model again.
pub const FEEDBACK_MAX: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    prompt: Option<String>,
    #[serde(default)]
    messages: Vec<Written>,
    #[serde(default)]
    values: Map<String, Value>,
    system: Option<String>,
    pub(super) schema: Option<Value>,
    /// An empty list asks for the form of turns, with nothing to call.
    tools: Option<Vec<Offer>>,
    tool_choice: Option<Choice>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    seed: Option<u64>,
    #[serde(default)]
    stop: Vec<String>,
    max_output_tokens: Option<u32>,
    role: Option<String>,
    ordinal: Option<u32>,
    feedback: Option<Told>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
enum Written {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        #[serde(default)]
        content: String,
        #[serde(default)]
        calls: Vec<WrittenCall>,
        provider_data: Option<Map<String, Value>>,
    },
    Tool {
        tool: String,
        call: Option<String>,
        content: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    id: Option<String>,
    tool: String,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Offer {
    name: String,
    #[serde(default)]
    description: String,
    params: Value,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Auto,
    Required,
    None,
}

/// What was wrong with earlier answers: the words of the run or of a person about the last one, or the answers themselves.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Told {
    Words(String),
    Answers(Vec<Feedback>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Feedback {
    answer: Value,
    #[serde(default)]
    faults: Vec<String>,
}

/// JSON Schema of the parameters.
pub(super) fn schema() -> Value {
    let text = || json!({"type": "string"});
    let open = || json!({"type": "object", "additionalProperties": true});
    let call = object(&["tool"], json!({"id": text(), "tool": text(), "params": open()}));
    let message = object(
        &["role"],
        json!({
            "role": {"enum": ["system", "user", "assistant", "tool"]},
            "content": text(),
            "calls": {"type": "array", "items": call},
            "call": text(),
            "tool": text(),
            "provider_data": open(),
        }),
    );
    let offer = object(&["name", "params"], json!({"name": text(), "description": text(), "params": open()}));
    let feedback = object(&["answer"], json!({"answer": {}, "faults": {"type": "array", "items": text()}}));
    object(
        &[],
        json!({
            "prompt": text(),
            "messages": {"type": "array", "items": message, "minItems": 1, "maxItems": MESSAGES_MAX},
            "values": open(),
            "system": text(),
            "schema": open(),
            "tools": {"type": "array", "items": offer, "maxItems": OFFERS_MAX},
            "tool_choice": {"enum": ["auto", "required", "none"]},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "seed": {"type": "integer", "minimum": 0},
            "stop": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 4},
            "max_output_tokens": {"type": "integer", "minimum": 1},
            "role": text(),
            "ordinal": {"type": "integer", "minimum": 1},
            "feedback": {"type": ["string", "array"], "items": feedback, "maxItems": FEEDBACK_MAX},
        }),
    )
}

/// Problems that the schema does not find.
pub(super) fn check(params: &Map<String, Value>) -> Vec<ParamProblem> {
    let problem = |name: &str, what: &str, help: &str| ParamProblem {
        name: name.to_owned(),
        what: what.to_owned(),
        help: help.to_owned(),
        line: None,
    };
    let mut problems = Vec::new();
    let has = |name: &str| params.contains_key(name);
    if has("prompt") && has("messages") {
        problems.push(problem("messages", "excluded by prompt", "give one of prompt and messages"));
    }
    if has("schema") && has("tools") {
        problems.push(problem("tools", "excluded by schema", "ask for a schema or offer tools, not both"));
    }
    if has("tool_choice") && !has("tools") {
        problems.push(problem("tool_choice", "without tools", "add tools, or remove tool_choice"));
    }
    let prompt = params.get("prompt").and_then(Value::as_str);
    if let Some(error) = prompt.and_then(|prompt| template::check_template(prompt).err()) {
        let TemplateError { what, help, line } = error.into();
        problems.push(ParamProblem { name: "prompt".to_owned(), what, help, line });
    }
    let offers = params.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let schemas = params.get("schema").map(|schema| ("schema", schema)).into_iter();
    for (name, schema) in
        schemas.chain(offers.iter().filter_map(|offer| Some(("tools", offer.get("params")?))))
    {
        if let Err(error) = check_schema(schema) {
            let what = match &error {
                // The reason quotes the schema, and a problem repeats no value.
                SchemaError::Invalid { place, .. } => format!("no JSON Schema at {place:?}"),
                error => error.to_string(),
            };
            problems.push(problem(name, &what, error.help()));
        }
    }
    problems
}

impl Params {
    pub(super) fn read(params: Map<String, Value>) -> Result<Params, Failure> {
        if let Some(ParamProblem { name, what, help, .. }) = check(&params).into_iter().next() {
            return Err(structural(format!("{name}: {what}; {help}")));
        }
        parse(params)
    }

    /// True if the answer has the form `{text, calls}`.
    pub(super) fn asks_for_turn(&self) -> bool {
        self.tools.is_some()
    }

    /// The request. The same parameters give the same request.
    pub(super) fn request(self, origin: CallOrigin) -> Result<(ModelRequest, Option<Value>), Failure> {
        let mut messages: Vec<Message> = self.system.into_iter().map(Message::System).collect();
        if let Some(prompt) = self.prompt {
            let text = template::render(&prompt, &self.values)
                .map_err(|error| structural(format!("prompt: {error}")))?;
            messages.push(Message::User(text));
        }
        messages.extend(self.messages.into_iter().map(Written::message));
        if !messages.iter().any(|message| !matches!(message, Message::System(_))) {
            return Err(structural("prompt: missing; give prompt, or messages with one of the user"));
        }
        match self.feedback {
            None => {}
            Some(Told::Words(words)) => {
                let again = "Answer again, in full, without this fault.";
                messages.push(Message::User(format!("Your last answer is not acceptable: {words}\n{again}")));
            }
            Some(Told::Answers(answers)) => messages.extend(answers.into_iter().flat_map(Feedback::messages)),
        }
        let offers = self.tools.into_iter().flatten().map(|Offer { name, description, params }| ToolOffer {
            name,
            description,
            params,
        });
        let request = ModelRequest {
            messages,
            tools: offers.collect(),
            tool_choice: match self.tool_choice {
                None | Some(Choice::Auto) => ToolChoice::Auto,
                Some(Choice::Required) => ToolChoice::Required,
                Some(Choice::None) => ToolChoice::None,
            },
            schema: self.schema.clone(),
            sampling: Sampling {
                temperature: self.temperature,
                top_p: self.top_p,
                seed: self.seed,
                stop: self.stop,
                max_output_tokens: self.max_output_tokens,
            },
            origin: CallOrigin {
                role: self.role.unwrap_or(origin.role),
                node: origin.node,
                ordinal: self.ordinal.unwrap_or(origin.ordinal),
                refusals: 0,
            },
        };
        Ok((request, self.schema))
    }
}

impl Written {
    fn message(self) -> Message {
        match self {
            Written::System { content } => Message::System(content),
            Written::User { content } => Message::User(content),
            Written::Assistant { content, calls, provider_data } => {
                let calls = calls.into_iter().map(|WrittenCall { id, tool, params }| ToolCall {
                    id,
                    name: tool,
                    arguments: Ok(params),
                });
                let provider_data = provider_data.map(Value::Object);
                Message::Assistant { text: content, calls: calls.collect(), provider_data }
            }
            Written::Tool { tool, call, content } => Message::Tool { call, name: tool, content },
        }
    }
}

impl Feedback {
    /// The faulty answer and what is wrong with it, as the conversation goes on.
    fn messages(self) -> [Message; 2] {
        let text = match self.answer {
            Value::String(text) => text,
            answer => answer.to_string(),
        };
        let mut words = "This answer is not acceptable:\n".to_owned();
        for fault in &self.faults {
            words.push_str("- ");
            words.push_str(fault);
            words.push('\n');
        }
        words.push_str("Answer again, in full, without these faults.");
        [Message::Assistant { text, calls: Vec::new(), provider_data: None }, Message::User(words)]
    }
}
