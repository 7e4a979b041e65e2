//! Cases of `ostler simulate model`: a recorded HTTP response, and its expected decoding.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_kernel::port::{Completion, ModelError, ToolCall, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Decoder, Protocol};

/// Longest body of a case, in bytes.
const CASE_BODY_MAX: usize = 256 << 20;

/// A line that is not a case; the message names the problem.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadCase(String);

/// A recorded response and its expected decoding.
#[derive(Debug, Deserialize)]
pub struct RecordedCase {
    /// Id of the case.
    pub id: String,
    protocol: String,
    response: Response,
    chunks: Option<Vec<usize>>,
    expect: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Response {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_b64: Option<String>,
    body_gen: Option<Vec<(String, usize)>>,
}

/// Decoding of one case.
#[derive(Debug)]
pub struct CaseResult {
    /// Id of the case.
    pub id: String,
    /// The decoded answer or failure, in the form of `expect`.
    pub actual: Value,
    /// The expected decoding, if the case has one.
    pub expected: Option<Value>,
    /// The decoding of the body in pieces at `chunks`, if it differs from `actual`.
    pub split: Option<Value>,
}

impl CaseResult {
    /// The first difference between expectation and decoding, or between the whole body and its pieces.
    pub fn difference(&self) -> Option<String> {
        if let Some(split) = &self.split {
            return Some(format!("split at `chunks`: {split}, in one piece: {}", self.actual));
        }
        difference("expect", self.expected.as_ref()?, &self.actual)
    }
}

/// Decodes one case, a line of a file of cases: the body in one piece, and in pieces at the offsets of `chunks`.
///
/// # Errors
///
/// [`BadCase`]: the line is not a case.
pub fn decode_case(line: &str) -> Result<CaseResult, BadCase> {
    let case = RecordedCase::read(line)?;
    let (protocol, body) = (case.protocol()?, case.response.bytes()?);
    let decode = |pieces: &[&[u8]]| {
        let mut decoder = Decoder::new(protocol, case.status(), case.headers());
        for piece in pieces {
            decoder.push(piece);
        }
        decoded_json(&decoder.end())
    };
    let actual = decode(&[&body]);
    let split = decode(&pieces(&body, case.chunks.as_deref().unwrap_or_default())?);
    let split = Some(split).filter(|split| *split != actual);
    Ok(CaseResult { id: case.id, actual, expected: case.expect, split })
}

impl RecordedCase {
    /// Reads a line of a file of cases.
    ///
    /// # Errors
    ///
    /// [`BadCase`]: the line is not a case.
    pub fn read(line: &str) -> Result<RecordedCase, BadCase> {
        serde_json::from_str(line).map_err(|error| BadCase(error.to_string()))
    }

    /// The dialect of the response.
    ///
    /// # Errors
    ///
    /// [`BadCase`]: the case names another dialect.
    pub fn protocol(&self) -> Result<Protocol, BadCase> {
        match self.protocol.as_str() {
            "openai" => Ok(Protocol::OpenAi),
            "anthropic" => Ok(Protocol::Anthropic),
            other => Err(BadCase(format!("protocol {other:?}: use \"openai\" or \"anthropic\""))),
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status
    }

    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.response.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The body, split at the offsets of `chunks`.
    ///
    /// # Errors
    ///
    /// [`BadCase`]: the body or an offset is invalid.
    pub fn body(&self) -> Result<Vec<Vec<u8>>, BadCase> {
        let body = self.response.bytes()?;
        let pieces = pieces(&body, self.chunks.as_deref().unwrap_or_default())?;
        Ok(pieces.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// The first difference between the expected decoding and a reading of the response.
    pub fn difference(&self, decoded: &Result<Completion, ModelError>) -> Option<String> {
        difference("expect", self.expect.as_ref()?, &decoded_json(decoded))
    }
}

fn decoded_json(decoded: &Result<Completion, ModelError>) -> Value {
    decoded.as_ref().map_or_else(error_json, completion_json)
}

fn completion_json(answer: &Completion) -> Value {
    let calls: Vec<Value> = answer.tool_calls.iter().map(call_json).collect();
    let Usage { input, output, cache_read, cache_write, reasoning } = answer.usage;
    let mut value = json!({
        "text": answer.text,
        "reasoning": answer.reasoning,
        "tool_calls": calls,
        "finish": answer.finish.as_str(),
        "usage": {
            "input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write,
            "reasoning": reasoning,
        },
        "model": answer.model,
        "response_id": answer.response_id,
    });
    if let Some(refusal) = &answer.refusal {
        value["refusal"] = json!(refusal);
    }
    value
}

fn call_json(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Ok(arguments) => Value::Object(arguments.clone()),
        Err(text) => json!({"invalid": text}),
    };
    json!({"id": call.id, "name": call.name, "arguments": arguments})
}

fn error_json(error: &ModelError) -> Value {
    json!({"error": {
        "class": error.class.as_str(),
        "status": error.status,
        "message_contains": error.message,
        "retry_after_s": error.retry_after_s,
    }})
}

impl Response {
    fn bytes(&self) -> Result<Vec<u8>, BadCase> {
        let bad = |text: &str| BadCase(text.to_owned());
        match (&self.body, &self.body_b64, &self.body_gen) {
            (Some(body), None, None) => Ok(body.clone().into_bytes()),
            (None, Some(body), None) => {
                STANDARD.decode(body).map_err(|error| BadCase(format!("body_b64: {error}")))
            }
            (None, None, Some(parts)) => {
                let length = parts.iter().try_fold(0usize, |sum, (text, count)| {
                    text.len().checked_mul(*count).and_then(|more| sum.checked_add(more))
                });
                if length.is_none_or(|length| length > CASE_BODY_MAX) {
                    return Err(BadCase(format!("body_gen: longer than {CASE_BODY_MAX} bytes")));
                }
                Ok(parts.iter().map(|(text, count)| text.repeat(*count)).collect::<String>().into_bytes())
            }
            _ => Err(bad("response: give one of `body`, `body_b64` and `body_gen`")),
        }
    }
}

fn pieces<'a>(body: &'a [u8], offsets: &[usize]) -> Result<Vec<&'a [u8]>, BadCase> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    for &offset in offsets.iter().chain([&body.len()]) {
        let Some(piece) = body.get(from..offset) else {
            return Err(BadCase(format!("chunks: {offset} is not between {from} and {}", body.len())));
        };
        pieces.push(piece);
        from = offset;
    }
    Ok(pieces)
}

/// The first difference. Numbers compare by value; `message_contains` compares as a part of the message.
fn difference(place: &str, expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(given)) => {
            if let Some(name) = given.keys().find(|name| !wanted.contains_key(*name)) {
                return Some(format!("{place}.{name}: expected nothing, got {}", given[name]));
            }
            wanted.iter().find_map(|(name, value)| {
                let place = format!("{place}.{name}");
                match given.get(name) {
                    None => Some(format!("{place}: expected {value}, got nothing")),
                    Some(Value::String(text))
                        if name == "message_contains"
                            && value.as_str().is_some_and(|part| text.contains(part)) =>
                    {
                        None
                    }
                    Some(given) => difference(&place, value, given),
                }
            })
        }
        (Value::Array(wanted), Value::Array(given)) if wanted.len() == given.len() => {
            let pairs = wanted.iter().zip(given).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (wanted, given))| difference(&format!("{place}[{at}]"), wanted, given))
        }
        (Value::Number(wanted), Value::Number(given)) if wanted.as_f64() == given.as_f64() => None,
        _ if expected == actual => None,
        _ => Some(format!("{place}: expected {expected}, got {actual}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(protocol: &str, status: u16, body: &str, expected: Option<&str>) {
        let expect = r#"{"text":"hi","reasoning":"","tool_calls":[],"finish":"stop",
            "usage":{"input":2,"output":1,"cache_read":null,"cache_write":null,"reasoning":null},"model":"m","response_id":"r"}"#;
        let case = serde_json::json!({"id": "c", "protocol": protocol,
            "response": {"status": status, "body": body},
            "expect": serde_json::from_str::<Value>(expect).unwrap_or_default()});
        let result = decode_case(&case.to_string()).unwrap_or_else(|error| panic!("{error}"));
        let difference = result.difference();
        assert_eq!(difference.as_deref(), expected, "{}", result.actual);
    }

    #[test]
    fn a_difference_names_its_place() {
        let body = r#"{"id":"r","model":"m","choices":[{"message":{"content":"ho"},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":2,"completion_tokens":1}}"#;
        check("openai", 200, body, Some("expect.text: expected \"hi\", got \"ho\""));
    }

    #[test]
    fn a_line_that_is_no_case_names_the_problem() {
        for (line, told) in [
            ("{", "EOF"),
            (r#"{"id":"c","protocol":"smtp","response":{"status":200,"body":""}}"#, "protocol \"smtp\""),
            (r#"{"id":"c","protocol":"openai","response":{"status":200}}"#, "give one of"),
            (r#"{"id":"c","protocol":"openai","response":{"status":200,"body_b64":"*"}}"#, "body_b64"),
            (
                r#"{"id":"c","protocol":"openai","response":{"status":200,"body":"ab"},"chunks":[3]}"#,
                "chunks: 3",
            ),
            (
                r#"{"id":"c","protocol":"openai","response":{"status":200,"body_gen":[["ab",18446744073709551615]]}}"#,
                "body_gen",
            ),
        ] {
            let error = decode_case(line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
