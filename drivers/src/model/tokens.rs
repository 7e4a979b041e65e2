//! Estimates of token counts, for providers that tell none.

use ostler_kernel::port::{Completion, Delta, Message, ModelRequest};
use ostler_kernel::text::TOKEN_BYTES;

/// Estimated tokens of a text of so many bytes, where no provider has counted.
pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(TOKEN_BYTES)
}

/// Bytes of a request that a model reads.
pub(super) fn request_bytes(request: &ModelRequest) -> u64 {
    let messages = request.messages.iter().map(|message| match message {
        Message::System(text) | Message::User(text) => text.len(),
        Message::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| {
                let arguments = call.arguments.as_ref().map_or_else(String::len, |arguments| {
                    ostler_kernel::json::measure(arguments).unwrap_or(0)
                });
                call.name.len() + arguments
            });
            text.len() + calls.sum::<usize>()
        }
        Message::Tool { content, .. } => content.len(),
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.params.to_string().len());
    let schema = request.schema.as_ref().map_or(0, |schema| schema.to_string().len());
    (messages.sum::<usize>() + tools.sum::<usize>() + schema) as u64
}

/// Bytes of a piece that a model wrote.
pub(super) fn delta_bytes(delta: &Delta) -> u64 {
    let (Delta::Text(text)
    | Delta::Reasoning(text)
    | Delta::Arguments { text, .. }
    | Delta::Call { name: text, .. }) = delta;
    text.len() as u64
}

/// Bytes of an answer that a model wrote.
pub(super) fn completion_bytes(completion: &Completion) -> u64 {
    let calls = completion.tool_calls.iter().map(|call| {
        let arguments = call
            .arguments
            .as_ref()
            .map_or_else(String::len, |arguments| ostler_kernel::json::measure(arguments).unwrap_or(0));
        call.name.len() + arguments
    });
    (completion.text.len() + completion.reasoning.len() + calls.sum::<usize>()) as u64
}
