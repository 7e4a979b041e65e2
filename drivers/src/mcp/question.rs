//! A server's question to the user amid a call (elicitation) becomes a question to a person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ostler_kernel::port::{AttemptLog, WorkspaceTurn};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

/// Time limit of a question, in milliseconds: a day.
pub const MCP_QUESTION_MS: i64 = 24 * 3_600 * 1_000;

/// Most rounds of questions in one call.
pub const MCP_QUESTION_ROUNDS_MAX: usize = 8;

/// Most questions in one call; more are declined unseen.
pub const MCP_QUESTIONS_MAX: usize = 8;

/// Longest question, in bytes, with the values that a yes answers; a longer one is declined, because a person answers only what is
/// shown whole.
pub const MCP_QUESTION_BYTES_MAX: usize = 4 * 1_024;

/// Call of a tool that a question belongs to.
#[derive(Clone)]
pub(super) struct Asking {
    /// Name of the tool in plans.
    pub(super) tool: String,
    pub(super) attempt: Arc<dyn AttemptLog>,
    /// Number of the attempt.
    ordinal: u32,
    /// The turn of a call after which the server may write.
    pub(super) turn: Option<Arc<dyn WorkspaceTurn>>,
    asked: Arc<AtomicUsize>,
    /// The call ended without an answer of the server.
    pub(super) given_up: Arc<AtomicBool>,
}

impl Asking {
    /// `ordinal` is the number of the attempt.
    pub(super) fn new(
        tool: &str,
        attempt: Arc<dyn AttemptLog>,
        ordinal: u32,
        turn: Option<Arc<dyn WorkspaceTurn>>,
    ) -> Asking {
        Asking {
            tool: tool.to_owned(),
            attempt,
            ordinal,
            turn,
            asked: Arc::default(),
            given_up: Arc::default(),
        }
    }
}

/// Asks a person. Declines a form with a value that no yes can express, a question that is too long to be shown whole, and every
/// question without an answer.
pub(super) async fn ask(asking: &Asking, request: ElicitRequestParams) -> ElicitResult {
    let number = asking.asked.fetch_add(1, Ordering::Relaxed) + 1;
    if number > MCP_QUESTIONS_MAX {
        tracing::warn!(tool = %asking.tool, "an MCP server asks more than {MCP_QUESTIONS_MAX} questions in one call");
        return ElicitResult::new(ElicitationAction::Decline);
    }
    let (message, content) = match &request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            match content_of_yes(requested_schema) {
                Some(content) => (with_values(message, &content), Some(content)),
                None => return ElicitResult::new(ElicitationAction::Decline),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            (format!("{message} (it wants you to open {url})"), None)
        }
        _ => return ElicitResult::new(ElicitationAction::Decline),
    };
    if message.len() > MCP_QUESTION_BYTES_MAX {
        tracing::warn!(tool = %asking.tool, "an MCP server asks a question of more than {MCP_QUESTION_BYTES_MAX} bytes");
        return ElicitResult::new(ElicitationAction::Decline);
    }
    let text = format!("The server of {} asks amid a call: {message}", asking.tool);
    // An answer counts for one question: neither for another text, nor for the same text once more, in the same attempt or a later one.
    let hash = &blake3::hash(text.as_bytes()).to_hex()[..16];
    let step = format!("question-{}-{number}-{hash}", asking.ordinal);
    match asking.attempt.ask_person(&step, &text, MCP_QUESTION_MS).await {
        Ok(true) => {
            let accepted = ElicitResult::new(ElicitationAction::Accept);
            match content {
                Some(content) => accepted.with_content(Value::Object(content)),
                None => accepted,
            }
        }
        Ok(false) => ElicitResult::new(ElicitationAction::Decline),
        Err(error) => {
            tracing::warn!(%error, tool = %asking.tool, "a question of an MCP server is not asked");
            ElicitResult::new(ElicitationAction::Cancel)
        }
    }
}

fn with_values(message: &str, content: &Map<String, Value>) -> String {
    if content.is_empty() {
        return message.to_owned();
    }
    format!("{message} (a yes answers {})", json!(content))
}

/// Values of a form for a yes: true for a required boolean, else the default. `None` if a required value is neither boolean nor has a
/// default.
fn content_of_yes(schema: &ElicitationSchema) -> Option<Map<String, Value>> {
    let schema = json!(schema);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut content = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&name.as_str());
        let value = match property.get("default") {
            _ if is_required && property["type"] == "boolean" => Some(json!(true)),
            Some(default) => Some(default.clone()),
            None if is_required => return None,
            None => None,
        };
        content.extend(value.map(|value| (name.clone(), value)));
    }
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_stands_for_values_that_are_known() {
        let content = |schema: Value| {
            let schema: ElicitationSchema = serde_json::from_value(schema).unwrap();
            content_of_yes(&schema).map(Value::Object)
        };
        let sure = json!({"type": "object", "required": ["sure"], "properties": {
            "sure": {"type": "boolean", "default": false}, "note": {"type": "string"},
            "times": {"type": "integer", "default": 2},
        }});
        assert_eq!(content(sure), Some(json!({"sure": true, "times": 2})));
        let named =
            json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
        assert_eq!(content(named), None, "a yes is no name");
        assert_eq!(content(json!({"type": "object", "properties": {}})), Some(json!({})));
    }
}
