//! Token counts, in one convention.

use ostler_kernel::port::Usage;
use serde_json::Value;

use super::json::{self, Object};

/// The counts of an OpenAI-compatible response: the last usage object counts, whole, since some servers repeat it and some send
/// running totals.
#[derive(Default)]
pub(super) struct OpenAiUsage {
    top: Option<Object>,
    choice: Option<Object>,
    groq: Option<Object>,
}

impl OpenAiUsage {
    /// Takes the usage of a chunk or document.
    pub(super) fn see(&mut self, object: &Object) {
        let usage = json::object(object, "usage").filter(|usage| !usage.is_empty());
        replace(&mut self.top, usage);
        replace(&mut self.groq, json::object(object, "x_groq").and_then(|groq| json::object(groq, "usage")));
    }

    /// Takes the usage inside a choice.
    pub(super) fn see_choice(&mut self, choice: &Object) {
        replace(&mut self.choice, json::object(choice, "usage"));
    }

    pub(super) fn finish(self) -> Usage {
        let Some(usage) = self.top.or(self.choice).or(self.groq) else { return Usage::default() };
        let count = |key| json::count(&usage, key);
        let within = |object, key| json::object(&usage, object).and_then(|object| json::count(object, key));
        let input = count("prompt_tokens").or_else(|| count("input_tokens"));
        let output = count("completion_tokens").or_else(|| count("output_tokens"));
        let reasoning =
            within("completion_tokens_details", "reasoning_tokens").or_else(|| count("reasoning_tokens"));
        Usage {
            input,
            output: with_reasoning(input, output, reasoning, count("total_tokens")),
            cache_read: within("prompt_tokens_details", "cached_tokens")
                .or_else(|| count("prompt_cache_hit_tokens"))
                .or_else(|| count("cache_read_input_tokens")),
            cache_write: within("prompt_tokens_details", "cache_write_tokens")
                .or_else(|| count("cache_creation_input_tokens")),
            reasoning,
        }
    }
}

fn replace(place: &mut Option<Object>, usage: Option<&Object>) {
    if let Some(usage) = usage {
        *place = Some(usage.clone());
    }
}

/// The output with reasoning. Some servers leave reasoning out of the output; only the sum tells.
fn with_reasoning(
    input: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
) -> Option<u64> {
    let (Some(input), Some(told), Some(reasoning), Some(total)) = (input, output, reasoning, total) else {
        return output;
    };
    let whole = told.checked_add(reasoning);
    let is_apart = reasoning > 0 && whole.and_then(|whole| whole.checked_add(input)) == Some(total);
    whole.filter(|_| is_apart).or(Some(told))
}

/// The counts of an Anthropic response: cumulative, so the largest of each field is the last one.
#[derive(Default)]
pub(super) struct AnthropicUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
}

impl AnthropicUsage {
    /// Takes a usage object.
    pub(super) fn see(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.and_then(Value::as_object) else { return };
        let thinking = json::object(usage, "output_tokens_details");
        for (place, count) in [
            (&mut self.input, json::count(usage, "input_tokens")),
            (&mut self.output, json::count(usage, "output_tokens")),
            (&mut self.cache_read, json::count(usage, "cache_read_input_tokens")),
            (&mut self.cache_write, json::count(usage, "cache_creation_input_tokens")),
            (&mut self.reasoning, thinking.and_then(|details| json::count(details, "thinking_tokens"))),
        ] {
            // `None` is less than any count.
            *place = (*place).max(count);
        }
    }

    pub(super) fn finish(self) -> Usage {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        Usage {
            input: self.input.map(|input| input.saturating_add(cached)),
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
        }
    }
}
