//! The Anthropic Messages dialect.

use ostler_kernel::port::{Completion, Delta, Finish, ModelError, ModelErrorClass, ToolCall};
use serde_json::{Value, json};

use super::Limits;
use super::calls::Calls;
use super::failure;
use super::json::{self, Object};
use super::openai::by_content;
use super::plain::{PlainBlockDelta, PlainBlockPiece, Text};
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
    Thinking {
        text: String,
        /// The provider's proof that the thinking is its own; it refuses the next turn without.
        signature: String,
    },
    /// Encrypted thinking, as it came.
    Redacted(Value),
    /// The place of the call.
    ToolUse {
        at: usize,
        input: Option<Value>,
    },
    /// Tools that the provider has run itself.
    Other,
}

/// Maximum content blocks of a message.
const BLOCKS_MAX: usize = 4_096;

/// Continues or ends the stream.
#[derive(PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Over,
}

impl Anthropic {
    pub(super) fn new(limits: Limits) -> Anthropic {
        Anthropic { calls: Calls::at_most(limits.calls), ..Anthropic::default() }
    }

    /// Takes an event of a stream; `name` is its event name.
    pub(super) fn event(
        &mut self,
        name: &str,
        event: &Object,
        deltas: &mut Vec<Delta>,
    ) -> Result<Progress, ModelError> {
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
        self.check()?;
        Ok(Progress::More)
    }

    /// Takes an event that brings a piece of a block and nothing else; `false` if it brings more.
    pub(super) fn plain_piece(&mut self, data: &str, deltas: &mut Vec<Delta>) -> bool {
        let Ok(PlainBlockPiece { kind: Text(kind), index, delta }) = serde_json::from_str(data) else {
            return false;
        };
        let block = self.blocks.iter_mut().rev().find(|block| block.index == Some(index));
        let Some(block) = block.filter(|_| kind == "content_block_delta") else { return false };
        let PlainBlockDelta { kind: Text(kind), text, thinking, partial_json } = delta;
        match (&mut block.content, &*kind, text, thinking, partial_json) {
            (Content::Text(text), "text_delta", Some(Text(piece)), None, None) => {
                text.push_str(&piece);
                deltas.push(Delta::Text(piece.into_owned()));
            }
            (Content::Thinking { text, .. }, "thinking_delta", None, Some(Text(piece)), None) => {
                text.push_str(&piece);
                deltas.push(Delta::Reasoning(piece.into_owned()));
            }
            (Content::ToolUse { at, .. }, "input_json_delta", None, None, Some(Text(piece))) => {
                self.calls.add_text(*at, &piece, deltas);
            }
            _ => return false,
        }
        true
    }

    /// Takes a document.
    pub(super) fn document(&mut self, document: &Object) -> Result<(), ModelError> {
        check_error(document)?;
        let content =
            json::list(document, "content").ok_or_else(|| failure::bare(ModelErrorClass::InvalidOutput))?;
        self.saw_start = true;
        self.head(document);
        for block in content.iter().filter_map(Value::as_object) {
            self.start_block(None, block, &mut Vec::new());
        }
        self.stop(document);
        self.check()
    }

    /// True after a stop reason.
    pub(super) fn is_finished(&self) -> bool {
        self.stop_reason.is_some()
    }

    /// The answer, once a document was read or a stream is over.
    pub(super) fn finish(mut self) -> Result<Completion, ModelError> {
        if !self.saw_start && self.blocks.is_empty() {
            return Err(failure::bare(ModelErrorClass::InvalidOutput));
        }
        let (mut text, mut reasoning) = (String::new(), String::new());
        for Block { content, .. } in &mut self.blocks {
            match content {
                Content::Text(piece) => text.push_str(piece),
                Content::Thinking { text: piece, .. } => reasoning.push_str(piece),
                Content::ToolUse { at, input } => {
                    // The input of the start counts only where no pieces followed.
                    if let Some(input) = input.take().filter(|_| self.calls.lacks_arguments(*at)) {
                        self.calls.add_arguments(*at, &input, &mut Vec::new());
                    }
                }
                Content::Redacted(_) | Content::Other => {}
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
        let tool_calls = self.calls.finish(finish == Finish::Length);
        Ok(Completion {
            next_call_s: None,
            text,
            reasoning,
            provider_data: provider_data(self.blocks, &tool_calls),
            tool_calls,
            finish,
            refusal,
            usage: self.usage.finish(),
            model: self.model,
            response_id: self.response_id,
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.blocks.len() > BLOCKS_MAX {
            return Err(failure::beyond("content blocks", BLOCKS_MAX));
        }
        self.calls.check()
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
            "thinking" => Content::Thinking { text: words("thinking"), signature: words("signature") },
            "redacted_thinking" => Content::Redacted(Value::Object(block.clone())),
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
            Content::Thinking { text, .. } if !text.is_empty() => deltas.push(Delta::Reasoning(text.clone())),
            _ => {}
        }
        // One block beyond the limit is kept, so that the end of the event reports it.
        if self.blocks.len() <= BLOCKS_MAX {
            self.blocks.push(Block { index, content });
        }
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
            (Content::Thinking { text, .. }, "thinking_delta") => {
                let piece = json::text(delta, "thinking").unwrap_or("");
                text.push_str(piece);
                deltas.push(Delta::Reasoning(piece.to_owned()));
            }
            (Content::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(json::text(delta, "signature").unwrap_or(""));
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

/// All blocks in order, if one of them is thinking that the provider must get back; the order of thinking and calls counts.
fn provider_data(blocks: Vec<Block>, calls: &[ToolCall]) -> Option<Value> {
    let must_return = |block: &Block| match &block.content {
        Content::Thinking { signature, .. } => !signature.is_empty(),
        Content::Redacted(_) => true,
        Content::Text(_) | Content::ToolUse { .. } | Content::Other => false,
    };
    if !blocks.iter().any(must_return) {
        return None;
    }
    let blocks = blocks.into_iter().filter_map(|block| match block.content {
        Content::Text(text) if !text.is_empty() => Some(json!({"type": "text", "text": text})),
        Content::Thinking { text, signature } if !signature.is_empty() => {
            Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
        }
        Content::Redacted(block) => Some(block),
        Content::ToolUse { at, .. } => {
            let ToolCall { id, name, arguments } = calls.get(at)?;
            let input = arguments.as_ref().map_or_else(|text| json!({"invalid": text}), |input| json!(input));
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
        }
        Content::Text(_) | Content::Thinking { .. } | Content::Other => None,
    });
    Some(json!({"anthropic": {"content": blocks.collect::<Vec<Value>>()}}))
}

fn check_error(object: &Object) -> Result<(), ModelError> {
    if json::has(object, "error") || json::text(object, "type") == Some("error") {
        return Err(failure::of_object(object));
    }
    Ok(())
}
