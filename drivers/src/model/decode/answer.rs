//! The normalised reading of an answer.

use serde_json::{Map, Value, json};

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Text, never trimmed.
    pub text: String,
    /// Reasoning that the provider shows.
    pub reasoning: String,
    /// Tool calls in order of appearance.
    pub tool_calls: Vec<ToolCall>,
    /// The model's reason to stop.
    pub finish: Finish,
    /// The provider's words of refusal.
    pub refusal: Option<String>,
    /// Token counts.
    pub usage: Usage,
    /// Name of the model, as the response gives it.
    pub model: Option<String>,
    /// Id of the response, as the response gives it.
    pub response_id: Option<String>,
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id for the tool result, if the provider gave one.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// The arguments; the raw text if it is no JSON object.
    pub arguments: Result<Map<String, Value>, String>,
}

/// Reasons of a model to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The token limit cut the answer.
    Length,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// A filter of the provider removed content.
    ContentFilter,
    /// The model refuses.
    Refusal,
    /// The answer reached a stop sequence of the request.
    StopSequence,
    /// The provider gave no known reason; the answer may be incomplete.
    Unknown,
}

impl Finish {
    /// The name in cases and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::ContentFilter => "content_filter",
            Finish::Refusal => "refusal",
            Finish::StopSequence => "stop_sequence",
            Finish::Unknown => "unknown",
        }
    }
}

/// Token counts of a call; `None` where the provider gave none.
///
/// As in the OpenTelemetry GenAI conventions, `input` includes cached and cache-writing tokens, and `output` includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Answer tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

/// A piece of an answer, as soon as it arrives. Pieces are for display; only [`Answer`] is complete and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// The tool call at this place in the answer begins.
    Call {
        /// Place among the tool calls, from 0.
        at: usize,
        /// Name of the tool, as far as it is known.
        name: String,
    },
    /// More argument text of the tool call at this place.
    Arguments {
        /// Place among the tool calls, from 0.
        at: usize,
        /// The text.
        text: String,
    },
}

impl Answer {
    /// The answer in the form of the conformance cases.
    pub fn to_json(&self) -> Value {
        let calls: Vec<Value> = self.tool_calls.iter().map(ToolCall::to_json).collect();
        let Usage { input, output, cache_read, cache_write, reasoning } = self.usage;
        let mut value = json!({
            "text": self.text,
            "reasoning": self.reasoning,
            "tool_calls": calls,
            "finish": self.finish.as_str(),
            "usage": {
                "input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write,
                "reasoning": reasoning,
            },
            "model": self.model,
            "response_id": self.response_id,
        });
        if let Some(refusal) = &self.refusal {
            value["refusal"] = json!(refusal);
        }
        value
    }
}

impl ToolCall {
    fn to_json(&self) -> Value {
        let arguments = match &self.arguments {
            Ok(arguments) => Value::Object(arguments.clone()),
            Err(text) => json!({"invalid": text}),
        };
        json!({"id": self.id, "name": self.name, "arguments": arguments})
    }
}
