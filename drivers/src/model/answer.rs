//! The result of a model's tool, from a completion.

use std::collections::BTreeMap;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{Completion, Finish, ToolCall};
use ostler_kernel::run::FailureCategory;
use serde_json::{Map, Value, json};

use super::provider_mark;
use super::schema::drop_added_nulls;
use crate::tool::tool_spec::failure;

/// The kind of answer that a call asks for.
pub(super) enum Wanted {
    Text,
    /// A JSON value of this schema.
    Json(Value),
    /// Calls of tools, with the schemas of their parameters by name.
    Calls(BTreeMap<String, Value>),
}

/// The result of the model `by`: the JSON value, `{text, calls}`, or `{text}`. A text and calls come with the opaque data of the
/// provider, if there are any, and calls with the ids that the provider gave them: an assistant message of the next call takes
/// both. Whether a value satisfies its schema is for the contract of the node.
pub(super) fn result(
    completion: Completion,
    wanted: &Wanted,
    by: &str,
    max_tokens: u32,
) -> Result<Value, Failure> {
    match completion.finish {
        Finish::Refusal => {
            let words = completion.refusal.filter(|words| !words.is_empty()).unwrap_or(completion.text);
            return Err(invalid(format!("the model refuses: {}", excerpt(&words))));
        }
        Finish::ContentFilter => {
            return Err(invalid("a content filter of the provider removed the answer".to_owned()));
        }
        Finish::Length if !matches!(wanted, Wanted::Text) => {
            return Err(invalid(format!(
                "cut at {max_tokens} tokens; raise max_output_tokens of the call, or of [models.{by}]"
            )));
        }
        Finish::Unknown if matches!(wanted, Wanted::Calls(_)) && !completion.tool_calls.is_empty() => {
            return Err(invalid("the provider does not say that the answer is complete".to_owned()));
        }
        Finish::Stop | Finish::Length | Finish::ToolCalls | Finish::StopSequence | Finish::Unknown => {}
    }
    let data = completion.provider_data.and_then(|data| provider_mark::marked(data, by));
    let with_data = |mut answer: Map<String, Value>| {
        answer.extend(data.map(|data| ("provider_data".to_owned(), data)));
        Ok(Value::Object(answer))
    };
    match wanted {
        Wanted::Text => with_data(Map::from_iter([("text".to_owned(), completion.text.into())])),
        Wanted::Json(schema) => {
            let mut value = parse(&completion.text)?;
            drop_added_nulls(&mut value, schema);
            Ok(value)
        }
        Wanted::Calls(schemas) => {
            let calls = completion.tool_calls.into_iter().map(|call| self::call(call, schemas));
            let calls: Vec<Value> = calls.collect::<Result<_, Failure>>()?;
            let text = Some(completion.text).filter(|text| !text.is_empty());
            with_data(Map::from_iter([("text".to_owned(), text.into()), ("calls".to_owned(), calls.into())]))
        }
    }
}

fn call(
    ToolCall { id, name, arguments }: ToolCall,
    schemas: &BTreeMap<String, Value>,
) -> Result<Value, Failure> {
    match arguments {
        Ok(params) => {
            let mut params = Value::Object(params);
            if let Some(schema) = schemas.get(&name) {
                drop_added_nulls(&mut params, schema);
            }
            let mut call = json!({"tool": name, "params": params});
            if let Some(id) = id {
                call["id"] = id.into();
            }
            Ok(call)
        }
        Err(text) => {
            Err(invalid(format!("the arguments of a call of {name} are no JSON object: {}", excerpt(&text))))
        }
    }
}

/// Parses an answer. Models without an enforced schema put thoughts before it and Markdown around it.
fn parse(text: &str) -> Result<Value, Failure> {
    let answer = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer).trim();
    let bare = answer
        .strip_prefix("```")
        .and_then(|fenced| fenced.strip_suffix("```"))
        .and_then(|fenced| fenced.split_once('\n'))
        .map_or(answer, |(_, inner)| inner);
    let parsed = serde_json::from_str(text.trim()).or_else(|_| serde_json::from_str(bare));
    parsed.map_err(|error| invalid(format!("the answer is not JSON ({error}): {}", excerpt(text))))
}

fn invalid(message: String) -> Failure {
    failure(FailureCategory::InvalidOutput, message)
}

fn excerpt(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let mut excerpt: String = text.chars().take(CHARS_MAX).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    format!("{excerpt:?}")
}
