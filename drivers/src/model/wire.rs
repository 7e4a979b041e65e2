//! A request as bytes, and the way back from the dialect's names to ours.

use ostler_kernel::port::{Completion, Delta, Finish};
use serde_json::Value;

use super::tool_names::ToolNames;

/// A request of one dialect.
#[derive(Debug)]
pub(super) struct WireRequest {
    /// Path below the base URL.
    pub(super) path: &'static str,
    pub(super) body: Value,
    pub(super) names: ToolNames,
    /// The made-up tool whose arguments are the answer, where a provider has no other way to enforce a schema.
    pub(super) answer_tool: Option<&'static str>,
}

/// Turns pieces and completions of one response into ours.
pub(super) struct Restore {
    names: ToolNames,
    answer_tool: Option<&'static str>,
    /// Place of the call of the answer's tool.
    answer_at: Option<usize>,
}

impl Restore {
    pub(super) fn of(names: ToolNames, answer_tool: Option<&'static str>) -> Restore {
        Restore { names, answer_tool, answer_at: None }
    }

    /// The piece with our names; `None` if there is nothing to show.
    pub(super) fn delta(&mut self, delta: Delta) -> Option<Delta> {
        match delta {
            Delta::Call { at, name } if self.answer_tool == Some(name.as_str()) => {
                self.answer_at = Some(at);
                None
            }
            Delta::Arguments { at, text } if self.answer_at == Some(at) => Some(Delta::Text(text)),
            delta => Some(self.names.restore_delta(delta)),
        }
    }

    /// The completion with our names. Arguments of the answer's tool become the text.
    pub(super) fn completion(&self, completion: &mut Completion) {
        if let Some(tool) = self.answer_tool
            && let Some(at) = completion.tool_calls.iter().position(|call| call.name == tool)
        {
            let call = completion.tool_calls.remove(at);
            completion.text = match call.arguments {
                Ok(arguments) => Value::Object(arguments).to_string(),
                Err(text) => text,
            };
            if completion.finish == Finish::ToolCalls && completion.tool_calls.is_empty() {
                completion.finish = Finish::Stop;
            }
        }
        self.names.restore(completion);
    }
}
