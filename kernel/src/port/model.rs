//! Language models: requests, completions, and the trait [`Model`].

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BoxFuture;
use crate::id::{Digest, NodeId, Ticks};
use crate::ledger::Price;
use crate::run::FailureCategory;

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelRequest {
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// Tools that the model may ask for; sent in this order, so that prefix caches of providers hit.
    pub tools: Vec<ToolOffer>,
    /// Which tools the model may or must ask for.
    pub tool_choice: ToolChoice,
    /// JSON Schema of the answer; `None`: text.
    pub schema: Option<Value>,
    /// Sampling.
    pub sampling: Sampling,
    /// The asking node and its role; never sent to a provider.
    pub origin: CallOrigin,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Instructions.
    System(String),
    /// A text of the user.
    User(String),
    /// An earlier completion of the model.
    Assistant {
        /// The text.
        text: String,
        /// The tool calls that it asked for.
        calls: Vec<ToolCall>,
        /// Opaque data of the provider, sent back unchanged.
        provider_data: Option<Value>,
    },
    /// The result of a tool call.
    Tool {
        /// Id of the call; a model without ids gets the results in order.
        call: Option<String>,
        /// Name of the tool.
        name: String,
        /// The result as text.
        content: String,
    },
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// Name, such as `fs.read`. Drivers write it in the form that their provider accepts.
    pub name: String,
    /// One line.
    pub description: String,
    /// JSON Schema of the parameters.
    pub params: Value,
}

/// Which tools a model may or must ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// At least one tool.
    Required,
    /// No tool.
    None,
}

/// Sampling of a call; absent values are the provider's defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// Temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// Nucleus sampling, above 0 and at most 1.
    pub top_p: Option<f64>,
    /// Seed, for providers that repeat answers.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Most tokens of the answer; `None`: the configured limit of the model.
    pub max_output_tokens: Option<u32>,
}

/// The attempt behind a call: for traces, and for answers from a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOrigin {
    /// Role of the caller, such as `planner` or `executor`.
    pub role: String,
    /// The node; `None` outside of a plan.
    pub node: Option<NodeId>,
    /// Number of the call among the calls of this role in the run, or of the attempt of a plan's node; from 1.
    pub ordinal: u32,
    /// Calls before this one that the provider refused for now, of the same ordinal.
    pub refusals: u32,
}

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
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
    /// Opaque data of the provider, to be sent back with this answer in the next request of a conversation.
    pub provider_data: Option<Value>,
    /// Seconds until the provider admits another call, if its headers say that this one was the last for now.
    pub next_call_s: Option<f64>,
}

/// A tool call that a model asks for.
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
    /// Every reason.
    pub const ALL: [Finish; 7] = [
        Finish::Stop,
        Finish::Length,
        Finish::ToolCalls,
        Finish::ContentFilter,
        Finish::Refusal,
        Finish::StopSequence,
        Finish::Unknown,
    ];

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A piece of an answer, as soon as it arrives. Pieces are for display; only [`Completion`] is complete and checked.
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

/// The form of an answer that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// Text, possibly with calls of tools.
    Text,
    /// JSON of a schema.
    Json,
}

/// A call of a model that ended, successful or not, as the records keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Name of the model in the configuration.
    pub model: String,
    /// Name of the model, as the provider gives it.
    pub answered_by: Option<String>,
    /// Id of the response, as the provider gives it.
    pub response_id: Option<String>,
    /// The model's reason to stop, or the class of the error.
    pub finish: String,
    /// Tokens of the prompt: the provider's count, or an estimate if the provider gave none.
    pub input_tokens: u64,
    /// Tokens of the answer: the provider's count, or an estimate if the provider gave none.
    pub output_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Price in billionths of a US dollar; `None`: the price is unknown.
    pub nano_usd: Option<u64>,
    /// Digest of the prices that `nano_usd` follows from; `None`: the price is unknown.
    pub prices: Option<Digest>,
    /// Time until the first piece of the answer, in milliseconds; `None` without a piece.
    pub first_piece_ms: Option<u64>,
    /// Duration of the call, in milliseconds.
    pub took_ms: u64,
    /// When the call ended; the log of the attempt sets it, by the clock of the journal.
    pub ended_at: Ticks,
    /// Kind of the provider, such as `openai`.
    pub provider: String,
    /// Name of the model, as the request gives it to the provider.
    pub requested: Option<String>,
}

impl ModelCall {
    /// `finish` of a call that its caller dropped.
    pub const CANCELLED: &'static str = "cancelled";

    /// The reason to end as one of a closed set of names.
    pub fn end(&self) -> &'static str {
        let finishes = Finish::ALL.into_iter().map(Finish::as_str);
        let classes = ModelErrorClass::ALL.into_iter().map(ModelErrorClass::as_str);
        let mut known = finishes.chain(classes).chain([ModelCall::CANCELLED]);
        known.find(|end| *end == self.finish).unwrap_or(Finish::Unknown.as_str())
    }

    /// True if the call ended with an answer of the model.
    pub fn is_answered(&self) -> bool {
        Finish::ALL.into_iter().any(|finish| finish.as_str() == self.finish)
    }
}

/// What bounds the price of a call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTerms {
    /// Most tokens of an answer.
    pub max_output_tokens: u32,
    /// The price; `None`: unknown.
    pub price: Option<Price>,
}

/// A call of a model that is about to be made, as its rate limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTurn<'a> {
    /// Name of the model in the configuration.
    pub model: &'a str,
    /// Tokens of the prompt, estimated from its bytes.
    pub prompt_tokens: u64,
    /// Most tokens of the answer.
    pub answer_tokens_max: u64,
}

/// The end of a call that had its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelTurnEnd<'a> {
    /// Name of the model in the configuration.
    pub model: &'a str,
    /// Tokens of prompt and answer: the provider's count, or an estimate.
    pub tokens: u64,
    /// The provider refused the call because of its rate limits.
    pub is_refused: bool,
    /// Milliseconds for which the provider admits no other call, as it says.
    pub next_call_ms: Option<u64>,
}

/// Classes of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorClass {
    /// Too many requests or tokens for now.
    RateLimited,
    /// The provider has no room for now.
    Overloaded,
    /// The prompt does not fit the model.
    ContextTooLong,
    /// The request is wrong, and stays so.
    InvalidRequest,
    /// Key, rights or money are missing.
    Auth,
    /// No such model or path.
    NotFound,
    /// A policy of the provider refuses the request.
    Refused,
    /// An error of the provider.
    Server,
    /// The response is no answer.
    InvalidOutput,
    /// The connection failed, or the bytes stopped early.
    Connection,
}

impl ModelErrorClass {
    /// Every class.
    pub const ALL: [ModelErrorClass; 10] = [
        ModelErrorClass::RateLimited,
        ModelErrorClass::Overloaded,
        ModelErrorClass::ContextTooLong,
        ModelErrorClass::InvalidRequest,
        ModelErrorClass::Auth,
        ModelErrorClass::NotFound,
        ModelErrorClass::Refused,
        ModelErrorClass::Server,
        ModelErrorClass::InvalidOutput,
        ModelErrorClass::Connection,
    ];

    /// The name in cases and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ModelErrorClass::RateLimited => "rate_limited",
            ModelErrorClass::Overloaded => "overloaded",
            ModelErrorClass::ContextTooLong => "context_too_long",
            ModelErrorClass::InvalidRequest => "invalid_request",
            ModelErrorClass::Auth => "auth",
            ModelErrorClass::NotFound => "not_found",
            ModelErrorClass::Refused => "refused",
            ModelErrorClass::Server => "server",
            ModelErrorClass::InvalidOutput => "invalid_output",
            ModelErrorClass::Connection => "connection",
        }
    }

    /// The failure category of an attempt that ends with such an error.
    pub fn category(self) -> FailureCategory {
        match self {
            ModelErrorClass::RateLimited => FailureCategory::RateLimit,
            ModelErrorClass::Overloaded | ModelErrorClass::Server | ModelErrorClass::Connection => {
                FailureCategory::Transient
            }
            ModelErrorClass::ContextTooLong => FailureCategory::ResourceExhaustion,
            ModelErrorClass::InvalidOutput | ModelErrorClass::Refused => FailureCategory::InvalidOutput,
            ModelErrorClass::InvalidRequest | ModelErrorClass::Auth | ModelErrorClass::NotFound => {
                FailureCategory::Structural
            }
        }
    }
}

/// A failed call of a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct ModelError {
    /// The class.
    pub class: ModelErrorClass,
    /// HTTP status, if the failure has one.
    pub status: Option<u16>,
    /// The provider's words, for operators; never a key.
    pub message: String,
    /// Earliest next attempt, in seconds from now.
    pub retry_after_s: Option<f64>,
    /// The request never left, so it costs nothing.
    pub is_unsent: bool,
}

impl ModelError {
    fn sentence(&self) -> String {
        let class = self.class.as_str();
        match (self.status, self.message.is_empty()) {
            (Some(status), false) => format!("{class} (status {status}): {}", self.message),
            (Some(status), true) => format!("{class} (status {status})"),
            (None, false) => format!("{class}: {}", self.message),
            (None, true) => class.to_owned(),
        }
    }
}

/// A language model: one request, pieces of the answer as they arrive, one completion or error.
pub trait Model: Send + Sync + 'static {
    /// Calls the model. `delta` gets every piece of the answer as it arrives, and must return at once. Dropping the future
    /// ends the request at once; the provider may charge the tokens produced until then.
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;
}

impl ModelRequest {
    /// The form of the answer.
    pub fn answer_form(&self) -> AnswerForm {
        if self.schema.is_some() { AnswerForm::Json } else { AnswerForm::Text }
    }
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}
