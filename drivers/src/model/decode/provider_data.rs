//! Opaque data of OpenAI-compatible providers, which must come back unchanged with the answer in the next request.

use serde_json::{Map, Value, json};

use super::calls::Calls;
use super::json::{self, Object};

#[derive(Default)]
pub(super) struct OpenAiData {
    /// Entries of `reasoning_details`.
    details: Vec<Value>,
    /// The last `extra_content` of the message.
    extra: Option<Value>,
    /// The reasoning came as `reasoning_content`, which some providers want back with the results of tool calls.
    pub(super) has_reasoning_content: bool,
}

impl OpenAiData {
    /// Takes a message (`is_whole`) or a delta, whose details may continue earlier ones.
    pub(super) fn see(&mut self, message: &Object, is_whole: bool) {
        for detail in json::list(message, "reasoning_details").unwrap_or_default() {
            if is_whole || !self.details.last_mut().is_some_and(|last| continues(last, detail)) {
                self.details.push(detail.clone());
            }
        }
        if let Some(extra) = message.get("extra_content").filter(|extra| json::is_trueish(extra)) {
            self.extra = Some(extra.clone());
        }
        self.has_reasoning_content |= json::text(message, "reasoning_content").is_some();
    }

    /// `{"openai": {"message": {..}, "calls": [..]}}`: fields of the message, and of each of its calls.
    pub(super) fn finish(self, reasoning: &str, calls: &Calls) -> Option<Value> {
        let mut message = Map::new();
        if !self.details.is_empty() {
            message.insert("reasoning_details".to_owned(), self.details.into());
        }
        if let Some(extra) = self.extra {
            message.insert("extra_content".to_owned(), extra);
        }
        if self.has_reasoning_content && !calls.is_empty() {
            message.insert("reasoning_content".to_owned(), reasoning.into());
        }
        let of_calls: Vec<Value> = calls
            .extras()
            .map(|extra| extra.map_or(Value::Null, |extra| json!({"extra_content": extra})))
            .collect();
        let has_extras = of_calls.iter().any(|extra| !extra.is_null());
        if message.is_empty() && !has_extras {
            return None;
        }
        let mut data = Map::from_iter([("message".to_owned(), Value::Object(message))]);
        if has_extras {
            data.insert("calls".to_owned(), of_calls.into());
        }
        Some(json!({"openai": data}))
    }
}

/// Appends a piece of a streamed detail to the detail before it; `false` if the piece is another detail.
fn continues(last: &mut Value, piece: &Value) -> bool {
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else { return false };
    let same = |key: &str| piece.get(key).is_none_or(|value| value.is_null() || last.get(key) == Some(value));
    let is_text = matches!(json::text(piece, "type"), Some("reasoning.text" | "reasoning.summary"));
    if !is_text || json::text(last, "type") != json::text(piece, "type") || !same("index") || !same("id") {
        return false;
    }
    for (key, value) in piece {
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if key == "text" || key == "summary" => {
                text.push_str(more);
            }
            (None | Some(Value::Null), _) => {
                last.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    true
}
