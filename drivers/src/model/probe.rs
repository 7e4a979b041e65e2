//! What a model can do, found out with four tiny calls.

use std::time::Duration;

use ostler_kernel::port::{
    CallOrigin, Completion, Delta, Message, ModelError, ModelErrorClass, ModelRequest, Sampling, ToolChoice,
    ToolOffer,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::models::ConfiguredModel;
use super::tokens::{completion_bytes, estimate_tokens, request_bytes};
use ostler_kernel::ledger::Tokens;

/// Maximum tokens of each answer; models that reason need some before the first word.
const PROBE_TOKENS_MAX: u32 = 256;

/// The integers that the schemas allow.
const DIGITS: [i64; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

/// Role of the calls, for scripts.
const ROLE: &str = "probe";

/// The abilities of a model, each found by a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The provider answered, with whatever status.
    pub is_reachable: bool,
    /// The calls, in order; none follows one that found no provider, no key or no model.
    pub checks: Vec<ProbeCheck>,
    /// Price of all calls in billionths of a US dollar; `None`: unknown.
    pub nano_usd: Option<u64>,
}

/// One call of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeCheck {
    /// `text`, `stream`, `schema` or `tool`.
    pub name: &'static str,
    /// The working ability.
    pub outcome: Result<String, ProbeFailure>,
    /// Duration of the call.
    pub duration: Duration,
    /// Time until the first piece of the answer.
    pub first_piece: Option<Duration>,
}

/// A call of a probe that did not show its ability.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeFailure {
    /// The call had no answer.
    Call(ModelError),
    /// The model answered something else, and how.
    Answer(String),
}

impl std::fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProbeFailure::Call(error) => error.fmt(f),
            ProbeFailure::Answer(told) => f.write_str(told),
        }
    }
}

/// Calls a model four times: for text, for a text in pieces, for a value of a schema, for a call of a tool.
pub async fn probe(model: &ConfiguredModel) -> Probe {
    let mut probe = Probe { is_reachable: false, checks: Vec::new(), nano_usd: model.price.map(|_| 0) };
    for (at, (name, request, judge)) in calls().into_iter().enumerate() {
        let request = ModelRequest {
            origin: CallOrigin { role: ROLE.to_owned(), node: None, ordinal: at as u32 + 1, refusals: 0 },
            sampling: Sampling {
                max_output_tokens: Some(PROBE_TOKENS_MAX.min(model.config.max_output_tokens)),
                ..Sampling::default()
            },
            ..request
        };
        let bytes = request_bytes(&request);
        let (started, mut pieces, mut first_piece) = (Instant::now(), 0usize, None);
        let mut count = |_: Delta| {
            pieces += 1;
            first_piece.get_or_insert_with(|| started.elapsed());
        };
        let called = model.model.call(request, &mut count).await;
        let goes_on = goes_on(&called);
        probe.is_reachable |= is_reached(&called);
        if let (Some(sum), Some(price), Ok(completion)) = (&mut probe.nano_usd, model.price, &called) {
            *sum += price.nano_usd(tokens(completion, bytes));
        }
        let outcome = called
            .map_err(ProbeFailure::Call)
            .and_then(|answer| judge(&answer, pieces).map_err(ProbeFailure::Answer));
        probe.checks.push(ProbeCheck { name, outcome, duration: started.elapsed(), first_piece });
        if !goes_on {
            break;
        }
    }
    probe
}

/// Judges an answer that came in so many pieces.
type Judge = fn(&Completion, usize) -> Result<String, String>;

fn calls() -> [(&'static str, ModelRequest, Judge); 4] {
    let ask = |text: &str| ModelRequest {
        messages: vec![Message::System("Answer briefly.".to_owned()), Message::User(text.to_owned())],
        ..ModelRequest::default()
    };
    // A small model writes digits without an end where any integer is allowed.
    let digit = json!({"type": "integer", "enum": DIGITS});
    let schema = json!({
        "type": "object",
        "properties": {"sum": digit},
        "required": ["sum"],
        "additionalProperties": false,
    });
    let tool = ToolOffer {
        name: "math.add".to_owned(),
        description: "Adds two integers.".to_owned(),
        params: json!({
            "type": "object",
            "properties": {"a": digit, "b": digit},
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
    };
    [
        ("text", ask("Say hello."), text),
        ("stream", ask("Count from one to five."), stream),
        ("schema", ModelRequest { schema: Some(schema), ..ask("What is 2 plus 3?") }, value),
        (
            "tool",
            ModelRequest {
                tools: vec![tool],
                tool_choice: ToolChoice::Required,
                ..ask("Add 2 and 3 with the tool.")
            },
            call,
        ),
    ]
}

fn text(answer: &Completion, _: usize) -> Result<String, String> {
    if answer.text.trim().is_empty() {
        return Err(format!("an empty text (finish {})", answer.finish.as_str()));
    }
    Ok(format!("{} bytes", answer.text.len()))
}

fn stream(_: &Completion, pieces: usize) -> Result<String, String> {
    match pieces {
        0 => Err("no piece came before the end".to_owned()),
        1 => Err("the whole answer came in one piece".to_owned()),
        _ => Ok(format!("{pieces} pieces")),
    }
}

fn value(answer: &Completion, _: usize) -> Result<String, String> {
    match serde_json::from_str::<Value>(&answer.text) {
        Ok(value) if value["sum"].as_i64().is_some_and(|sum| DIGITS.contains(&sum)) => Ok(value.to_string()),
        Ok(_) => {
            Err("JSON, but not of the schema; answers are checked locally and asked for again".to_owned())
        }
        Err(error) => Err(format!("no JSON: {error}")),
    }
}

fn call(answer: &Completion, _: usize) -> Result<String, String> {
    let Some(call) = answer.tool_calls.first() else { return Err("no call of the tool".to_owned()) };
    match &call.arguments {
        _ if call.name != "math.add" => Err(format!("a call of {:?}, which was not offered", call.name)),
        Ok(arguments) => Ok(Value::Object(arguments.clone()).to_string()),
        Err(_) => Err("a call whose arguments are no JSON object".to_owned()),
    }
}

fn tokens(completion: &Completion, request_bytes: u64) -> Tokens {
    let usage = completion.usage;
    Tokens {
        input: usage.input.unwrap_or_else(|| estimate_tokens(request_bytes)),
        output: usage.output.unwrap_or_else(|| estimate_tokens(completion_bytes(completion))),
        cache_read: usage.cache_read.unwrap_or(0),
        cache_write: usage.cache_write.unwrap_or(0),
    }
}

fn is_reached(called: &Result<Completion, ModelError>) -> bool {
    match called {
        Ok(_) => true,
        Err(error) => error.status.is_some() || error.class == ModelErrorClass::InvalidOutput,
    }
}

/// False if no further call can succeed.
fn goes_on(called: &Result<Completion, ModelError>) -> bool {
    let Err(error) = called else { return true };
    match error.class {
        ModelErrorClass::Connection | ModelErrorClass::Auth | ModelErrorClass::NotFound => false,
        ModelErrorClass::RateLimited
        | ModelErrorClass::Overloaded
        | ModelErrorClass::ContextTooLong
        | ModelErrorClass::InvalidRequest
        | ModelErrorClass::Refused
        | ModelErrorClass::Server
        | ModelErrorClass::InvalidOutput => true,
    }
}
