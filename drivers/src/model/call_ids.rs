//! Ids of tool calls, for answers that have none: providers match results to calls by id.

use std::collections::VecDeque;

use ostler_kernel::port::{Message, ToolCall};

/// Gives ids to the calls and results of a conversation, in order.
#[derive(Default)]
pub(super) struct CallIds {
    given: usize,
    /// Calls without a result so far, as name and id.
    open: VecDeque<(String, String)>,
}

impl CallIds {
    /// The id of each call of an answer.
    pub(super) fn of_calls(&mut self, calls: &[ToolCall]) -> Vec<String> {
        let ids: Vec<String> = calls.iter().map(|call| self.id(call.id.as_deref())).collect();
        self.open = calls.iter().map(|call| call.name.clone()).zip(ids.iter().cloned()).collect();
        ids
    }

    /// The id of a result: its own, else that of the first open call of the tool.
    pub(super) fn of_result(&mut self, call: Option<&str>, tool: &str) -> String {
        let fits = |(name, id): &(String, String)| call.map_or(name == tool, |call| id == call);
        let open = self.open.iter().position(fits).and_then(|at| self.open.remove(at));
        match (call, open) {
            (Some(call), _) => call.to_owned(),
            (None, Some((_, id))) => id,
            (None, None) => self.id(None),
        }
    }

    fn id(&mut self, own: Option<&str>) -> String {
        own.map_or_else(
            || {
                self.given += 1;
                // Mistral takes nine letters and digits, and nothing else.
                format!("call{:05}", self.given)
            },
            str::to_owned,
        )
    }
}

/// Walks a conversation with its ids.
pub(super) fn walk<'a>(messages: &'a [Message], mut take: impl FnMut(&'a Message, Vec<String>)) {
    let mut ids = CallIds::default();
    for message in messages {
        let of_message = match message {
            Message::System(_) | Message::User(_) => Vec::new(),
            Message::Assistant { calls, .. } => ids.of_calls(calls),
            Message::Tool { call, name, .. } => vec![ids.of_result(call.as_deref(), name)],
        };
        take(message, of_message);
    }
}
