//! The OpenAI-compatible dialect: one answer from a document or from the chunks of a stream.

use ostler_kernel::port::{Completion, Delta, Finish, ModelError, ModelErrorClass};
use serde_json::Value;

use super::Limits;
use super::calls::Calls;
use super::failure;
use super::json::{self, Object};
use super::plain::{PlainChunk, Text};
use super::provider_data::OpenAiData;
use super::usage::OpenAiUsage;

/// State of choice 0 so far; other choices are ignored.
#[derive(Default)]
pub(super) struct OpenAi {
    model: Option<String>,
    response_id: Option<String>,
    words: Words,
    calls: Calls,
    saw_choice: bool,
    /// The first finish reason, in lower case.
    finish: Option<String>,
    has_stop_string: bool,
    native_finish: Option<String>,
    /// The last `message` beside the deltas of a stream.
    message: Option<Object>,
    usage: OpenAiUsage,
    data: OpenAiData,
}

/// Text, reasoning and refusal: of one message, or of all so far.
#[derive(Default)]
struct Words {
    text: String,
    reasoning: String,
    refusal: String,
}

impl OpenAi {
    pub(super) fn new(limits: Limits) -> OpenAi {
        OpenAi { calls: Calls::at_most(limits.calls), ..OpenAi::default() }
    }

    /// Takes a chunk of a stream.
    pub(super) fn chunk(&mut self, chunk: &Object, deltas: &mut Vec<Delta>) -> Result<(), ModelError> {
        self.envelope(chunk)?;
        let is_repeat = self.finish.is_some();
        let choices = json::list(chunk, "choices").unwrap_or_default();
        for choice in choices.iter().filter_map(Value::as_object).filter(|choice| is_first(choice)) {
            self.saw_choice = true;
            if let Some(delta) = json::object(choice, "delta") {
                self.delta(delta, is_repeat, deltas);
            }
            if let Some(message) = json::object(choice, "message") {
                self.message = Some(message.clone());
            }
            self.choice(choice)?;
        }
        self.calls.check()
    }

    /// Takes a chunk that brings text, reasoning or arguments and nothing else; `false` if it brings more.
    pub(super) fn plain_chunk(&mut self, data: &str, deltas: &mut Vec<Delta>) -> bool {
        if self.finish.is_some() {
            return false;
        }
        let Ok(PlainChunk { id, model, choices: [choice], .. }) = serde_json::from_str(data) else {
            return false;
        };
        // With text beside it, the order of the pieces would count.
        if let Some([piece]) = &choice.delta.tool_calls
            && (choice.delta.content.is_some()
                || choice.delta.reasoning_content.is_some()
                || !self.calls.take_arguments(piece.index, &piece.function.arguments.0, deltas))
        {
            return false;
        }
        for (place, name) in [(&mut self.model, model), (&mut self.response_id, id)] {
            if place.is_none() {
                *place = name.map(|Text(name)| name.into_owned()).filter(|name| !name.is_empty());
            }
        }
        self.saw_choice = true;
        if let Some(Text(text)) = choice.delta.content.filter(|Text(text)| !text.is_empty()) {
            self.words.text.push_str(&text);
            deltas.push(Delta::Text(text.into_owned()));
        }
        if let Some(Text(text)) = choice.delta.reasoning_content.filter(|Text(text)| !text.is_empty()) {
            self.words.reasoning.push_str(&text);
            self.data.has_reasoning_content = true;
            deltas.push(Delta::Reasoning(text.into_owned()));
        }
        true
    }

    /// Takes a document.
    pub(super) fn document(&mut self, document: &Object) -> Result<(), ModelError> {
        self.envelope(document)?;
        let choices = json::list(document, "choices").unwrap_or_default();
        let objects = || choices.iter().filter_map(Value::as_object);
        let choice = objects().find(|choice| is_first(choice)).or_else(|| objects().next());
        let choice = choice.ok_or_else(|| failure::bare(ModelErrorClass::InvalidOutput))?;
        self.saw_choice = true;
        self.choice(choice)?;
        let message =
            json::object(choice, "message").ok_or_else(|| failure::bare(ModelErrorClass::InvalidOutput))?;
        self.message(message);
        self.calls.check()
    }

    /// True after a finish reason.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The answer, once a document was read or a stream is over.
    pub(super) fn finish(mut self) -> Result<Completion, ModelError> {
        if !self.saw_choice {
            return Err(failure::bare(ModelErrorClass::InvalidOutput));
        }
        if self.words.is_empty()
            && self.calls.is_empty()
            && let Some(message) = self.message.take()
        {
            self.message(&message);
        }
        let finish = self.finish_reason();
        let provider_data = self.data.finish(&self.words.reasoning, &self.calls);
        let Words { text, reasoning, refusal } = self.words;
        Ok(Completion {
            next_call_s: None,
            text,
            reasoning,
            tool_calls: self.calls.finish(finish == Finish::Length),
            finish,
            refusal: (!refusal.is_empty()).then_some(refusal),
            usage: self.usage.finish(),
            model: self.model,
            response_id: self.response_id,
            provider_data,
        })
    }

    /// Ids, usage and errors of a chunk or document, whatever its choices are.
    fn envelope(&mut self, object: &Object) -> Result<(), ModelError> {
        let says_error = |key| json::text(object, key) == Some("error");
        let lacks_choices = json::list(object, "choices").is_none();
        if json::has(object, "error") || (lacks_choices && (says_error("object") || says_error("type"))) {
            return Err(failure::of_object(object));
        }
        for (place, key) in [(&mut self.model, "model"), (&mut self.response_id, "id")] {
            if place.is_none() {
                *place = json::text(object, key).map(str::to_owned);
            }
        }
        self.usage.see(object);
        Ok(())
    }

    /// Reads usage, errors and the finish reason of a choice.
    fn choice(&mut self, choice: &Object) -> Result<(), ModelError> {
        self.usage.see_choice(choice);
        if json::has(choice, "error") {
            return Err(failure::of_object(choice));
        }
        self.has_stop_string |= json::text(choice, "stop_reason").is_some();
        if self.native_finish.is_none() {
            self.native_finish = json::text(choice, "native_finish_reason").map(str::to_lowercase);
        }
        if let Some(reason) = json::text(choice, "finish_reason").map(str::to_lowercase) {
            match reason.as_str() {
                "error" => return Err(failure::bare(ModelErrorClass::Server)),
                "insufficient_system_resource" => return Err(failure::bare(ModelErrorClass::Overloaded)),
                _ => {}
            }
            self.finish.get_or_insert(reason);
        }
        Ok(())
    }

    /// `is_repeat`: an earlier chunk brought the finish reason, so what equals everything so far is sent twice.
    fn delta(&mut self, delta: &Object, is_repeat: bool, deltas: &mut Vec<Delta>) {
        let words = Words::of(delta);
        if !is_repeat {
            self.data.see(delta, false);
        }
        if let Some(text) = add(&mut self.words.text, words.text, is_repeat) {
            deltas.push(Delta::Text(text));
        }
        if let Some(reasoning) = add(&mut self.words.reasoning, words.reasoning, is_repeat) {
            deltas.push(Delta::Reasoning(reasoning));
        }
        add(&mut self.words.refusal, words.refusal, is_repeat);
        for entry in json::list(delta, "tool_calls").unwrap_or_default().iter().filter_map(Value::as_object) {
            if !(is_repeat && self.calls.repeats(entry)) {
                self.calls.take_piece(entry, deltas);
            }
        }
        if let Some(function) = json::object(delta, "function_call") {
            self.calls.take_legacy(function, deltas);
        }
    }

    /// Takes a whole message.
    fn message(&mut self, message: &Object) {
        self.words = Words::of(message);
        self.data.see(message, true);
        for entry in json::list(message, "tool_calls").unwrap_or_default().iter().filter_map(Value::as_object)
        {
            self.calls.take_whole(entry);
        }
        if let Some(function) = json::object(message, "function_call") {
            self.calls.take_legacy(function, &mut Vec::new());
        }
    }

    fn finish_reason(&self) -> Finish {
        let mut finish = match self.finish.as_deref().unwrap_or("") {
            "stop" | "end_turn" | "eos" | "eos_token" | "completed" => Finish::Stop,
            reason if is_length(reason) => Finish::Length,
            "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
            "content_filter" | "safety" => Finish::ContentFilter,
            "refusal" => Finish::Refusal,
            "stop_sequence" => Finish::StopSequence,
            _ => Finish::Unknown,
        };
        if finish == Finish::Stop && self.has_stop_string {
            finish = Finish::StopSequence;
        }
        // A gateway reports calls that the token limit cut as finished; running them would be wrong.
        if matches!(finish, Finish::Stop | Finish::ToolCalls | Finish::Unknown)
            && self.native_finish.as_deref().is_some_and(is_length)
        {
            finish = Finish::Length;
        }
        by_content(finish, !self.words.refusal.is_empty(), !self.calls.is_empty())
    }
}

/// The finish as refusal text and calls show it.
pub(super) fn by_content(finish: Finish, refuses: bool, calls: bool) -> Finish {
    match finish {
        _ if refuses => Finish::Refusal,
        Finish::Stop if calls => Finish::ToolCalls,
        Finish::ToolCalls if !calls => Finish::Unknown,
        finish => finish,
    }
}

fn is_length(reason: &str) -> bool {
    matches!(reason, "length" | "max_tokens" | "max_output_tokens" | "model_length")
}

/// True if a choice has index 0, or no index.
fn is_first(choice: &Object) -> bool {
    choice.get("index").and_then(Value::as_f64).is_none_or(|index| index == 0.0)
}

/// Appends `piece`, unless it repeats the whole text; returns what was appended.
fn add(text: &mut String, piece: String, is_repeat: bool) -> Option<String> {
    if piece.is_empty() || (is_repeat && *text == piece) {
        return None;
    }
    text.push_str(&piece);
    Some(piece)
}

impl Words {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.refusal.is_empty()
    }

    /// The words of a message or delta. Servers send the same reasoning under two or three names, so one source counts.
    fn of(message: &Object) -> Words {
        let mut words = Words::default();
        match message.get("content") {
            Some(Value::String(text)) => words.text.push_str(text),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(Value::as_object).for_each(|part| words.part(part))
            }
            _ => {}
        }
        if let Some(refusal) = json::text(message, "refusal") {
            words.refusal.push_str(refusal);
        }
        if words.reasoning.is_empty() {
            match json::first_text(message, &["reasoning_content", "reasoning", "thinking"]) {
                Some(reasoning) => words.reasoning.push_str(reasoning),
                None => {
                    let details = json::list(message, "reasoning_details").unwrap_or_default();
                    let details = details.iter().filter_map(Value::as_object);
                    details
                        .filter_map(|detail| json::first_text(detail, &["text", "summary"]))
                        .for_each(|text| words.reasoning.push_str(text));
                }
            }
        }
        words
    }

    fn part(&mut self, part: &Object) {
        match json::text(part, "type").unwrap_or("") {
            "text" => self.text.push_str(json::text(part, "text").unwrap_or("")),
            "refusal" => self.refusal.push_str(json::text(part, "refusal").unwrap_or("")),
            "thinking" => match part.get("thinking") {
                Some(Value::String(text)) => self.reasoning.push_str(text),
                Some(Value::Array(parts)) => parts
                    .iter()
                    .filter_map(Value::as_object)
                    .filter(|part| json::text(part, "type") == Some("text"))
                    .filter_map(|part| json::text(part, "text"))
                    .for_each(|text| self.reasoning.push_str(text)),
                _ => {}
            },
            _ => {}
        }
    }
}
