//! The Anthropic Messages dialect.

use serde_json::Value;

use super::answer::{Answer, Delta, Finish};
use super::calls::Calls;
use super::failure::{Class, Failure};
use super::json::{self, Object};
use super::openai::by_content;
use super::usage::AnthropicUsage;

/// State of the message so far.
#[derive(Default)]
pub(super) struct Anthropic {
    model: Option<String>,
    response_id: Option<String>,
    blocks: Vec<Block>,
    calls: Calls,
    saw_start: bool,
    /// The last stop reason.
    stop_reason: Option<String>,
    refusal: Option<String>,
    usage: AnthropicUsage,
}

/// A content block, in the order of the starts.
struct Block {
    index: Option<i64>,
    content: Content,
}

enum Content {
    Text(String),
    Thinking(String),
    /// The place of the call.
    ToolUse {
        at: usize,
        input: Option<Value>,
    },
    /// Redacted thinking, and tools that the provider has run itself.
    Other,
}

/// Continues or ends the stream.
#[derive(PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Over,
}

impl Anthropic {
    /// Takes an event of a stream; `name` is its event name.
    pub(super) fn event(
        &mut self,
        name: &str,
        event: &Object,
        deltas: &mut Vec<Delta>,
    ) -> Result<Progress, Failure> {
        check_error(event)?;
        let index = event.get("index").and_then(Value::as_i64);
        match json::text(event, "type").unwrap_or(name) {
            "message_start" => {
                self.saw_start = true;
                if let Some(message) = json::object(event, "message") {
                    self.head(message);
                }
            }
            "content_block_start" => {
                if let Some(block) = json::object(event, "content_block") {
                    self.start_block(index, block, deltas);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = json::object(event, "delta") {
                    self.delta(index, delta, deltas);
                }
            }
            "message_delta" => {
                if let Some(delta) = json::object(event, "delta") {
                    self.stop(delta);
                }
                self.usage.see(event.get("usage"));
            }
            "message_stop" => return Ok(Progress::Over),
            _ => {}
        }
        Ok(Progress::More)
    }

    /// Takes a document.
    pub(super) fn document(&mut self, document: &Object) -> Result<(), Failure> {
        check_error(document)?;
        let content = json::list(document, "content").ok_or_else(|| Failure::bare(Class::InvalidOutput))?;
        self.saw_start = true;
        self.head(document);
        for block in content.iter().filter_map(Value::as_object) {
            self.start_block(None, block, &mut Vec::new());
        }
        self.stop(document);
        Ok(())
    }

    /// True after a stop reason.
    pub(super) fn is_finished(&self) -> bool {
        self.stop_reason.is_some()
    }

    /// The answer, once a document was read or a stream is over.
    pub(super) fn finish(mut self) -> Result<Answer, Failure> {
        if !self.saw_start && self.blocks.is_empty() {
            return Err(Failure::bare(Class::InvalidOutput));
        }
        let (mut text, mut reasoning) = (String::new(), String::new());
        for Block { content, .. } in std::mem::take(&mut self.blocks) {
            match content {
                Content::Text(piece) => text.push_str(&piece),
                Content::Thinking(piece) => reasoning.push_str(&piece),
                Content::ToolUse { at, input } => {
                    // The input of the start counts only where no pieces followed.
                    if let Some(input) = input.filter(|_| self.calls.lacks_arguments(at)) {
                        self.calls.add_arguments(at, &input, &mut Vec::new());
                    }
                }
                Content::Other => {}
            }
        }
        let stop = match self.stop_reason.as_deref().unwrap_or("") {
            "end_turn" => Finish::Stop,
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "tool_use" => Finish::ToolCalls,
            "stop_sequence" => Finish::StopSequence,
            "refusal" => Finish::Refusal,
            _ => Finish::Unknown,
        };
        let refusal = self.refusal.filter(|_| stop == Finish::Refusal);
        let finish = by_content(stop, refusal.is_some(), !self.calls.is_empty());
        Ok(Answer {
            text,
            reasoning,
            tool_calls: self.calls.finish(finish == Finish::Length),
            finish,
            refusal,
            usage: self.usage.finish(),
            model: self.model,
            response_id: self.response_id,
        })
    }

    fn head(&mut self, message: &Object) {
        for (place, key) in [(&mut self.model, "model"), (&mut self.response_id, "id")] {
            if place.is_none() {
                *place = json::text(message, key).map(str::to_owned);
            }
        }
        self.usage.see(message.get("usage"));
    }

    fn stop(&mut self, object: &Object) {
        if let Some(reason) = json::text(object, "stop_reason") {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(details) = json::object(object, "stop_details") {
            self.refusal = json::text(details, "explanation").map(str::to_owned);
        }
    }

    fn start_block(&mut self, index: Option<i64>, block: &Object, deltas: &mut Vec<Delta>) {
        let words = |key| json::text(block, key).unwrap_or("").to_owned();
        let content = match json::text(block, "type").unwrap_or("") {
            "text" => Content::Text(words("text")),
            "thinking" => Content::Thinking(words("thinking")),
            "tool_use" => {
                let (id, name) = (json::text(block, "id"), json::text(block, "name").unwrap_or(""));
                let at = self.calls.open_named(id, name, deltas);
                let input = block.get("input").filter(|input| json::is_trueish(input)).cloned();
                Content::ToolUse { at, input }
            }
            _ => Content::Other,
        };
        match &content {
            Content::Text(text) if !text.is_empty() => deltas.push(Delta::Text(text.clone())),
            Content::Thinking(text) if !text.is_empty() => deltas.push(Delta::Reasoning(text.clone())),
            _ => {}
        }
        self.blocks.push(Block { index, content });
    }

    /// Takes a delta of the block that was last started with this index.
    fn delta(&mut self, index: Option<i64>, delta: &Object, deltas: &mut Vec<Delta>) {
        let Some(block) = self.blocks.iter_mut().rev().find(|block| block.index == index) else { return };
        match (&mut block.content, json::text(delta, "type").unwrap_or("")) {
            (Content::Text(text), "text_delta") => {
                let piece = json::text(delta, "text").unwrap_or("");
                text.push_str(piece);
                deltas.push(Delta::Text(piece.to_owned()));
            }
            (Content::Thinking(text), "thinking_delta") => {
                let piece = json::text(delta, "thinking").unwrap_or("");
                text.push_str(piece);
                deltas.push(Delta::Reasoning(piece.to_owned()));
            }
            (Content::ToolUse { at, .. }, "input_json_delta") => {
                if let Some(piece @ Value::String(_)) = delta.get("partial_json") {
                    self.calls.add_arguments(*at, piece, deltas);
                }
            }
            _ => {}
        }
    }
}

fn check_error(object: &Object) -> Result<(), Failure> {
    if json::has(object, "error") || json::text(object, "type") == Some("error") {
        return Err(Failure::of_object(object));
    }
    Ok(())
}
