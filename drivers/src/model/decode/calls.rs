//! Assembles tool calls from the pieces of a stream.
//!
//! Servers disagree about what marks a new call: some send index 0 for every call, some invent an id for each piece, some send a
//! name twice. A piece goes to the call that its index, id and name fit best; [`Calls::take_piece`] holds the rules.

use ostler_kernel::port::{Delta, ModelError, ToolCall};
use serde_json::Value;

use super::failure;
use super::json::{self, Object, Parsed};

#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The call of the legacy field `function_call`.
    legacy: Option<usize>,
    max: usize,
    exceeds_max: bool,
}

#[derive(Default)]
struct Call {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    arguments: Arguments,
    /// Opaque data of the provider beside the call.
    extra: Option<Value>,
}

enum Arguments {
    Text(String),
    /// Some servers send an object in place of its text.
    Object(Object),
}

impl Default for Arguments {
    fn default() -> Arguments {
        Arguments::Text(String::new())
    }
}

/// One entry of `tool_calls`.
struct Piece<'a> {
    index: Option<i64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a Value>,
}

impl<'a> Piece<'a> {
    fn of(entry: &'a Object) -> Piece<'a> {
        let function = json::object(entry, "function");
        Piece {
            index: entry.get("index").and_then(Value::as_i64),
            id: json::text(entry, "id"),
            name: function.and_then(|function| json::text(function, "name")),
            arguments: function.and_then(|function| function.get("arguments")),
        }
    }
}

impl Calls {
    /// Takes at most `max` calls; [`Calls::check`] reports more.
    pub(super) fn at_most(max: usize) -> Calls {
        Calls { max, ..Calls::default() }
    }

    pub(super) fn check(&self) -> Result<(), ModelError> {
        if self.exceeds_max { Err(failure::beyond("tool calls", self.max)) } else { Ok(()) }
    }

    /// The opaque data of each call.
    pub(super) fn extras(&self) -> impl Iterator<Item = Option<&Value>> {
        self.calls.iter().map(|call| call.extra.as_ref())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes an entry of a document: every entry is a call.
    pub(super) fn take_whole(&mut self, entry: &Object) {
        let Piece { index, id, name, arguments } = Piece::of(entry);
        let at = self.open(index);
        self.add(at, id, name, arguments, &mut Vec::new());
        self.keep_extra(at, entry);
    }

    /// Takes an entry of a stream.
    pub(super) fn take_piece(&mut self, entry: &Object, deltas: &mut Vec<Delta>) {
        let piece = Piece::of(entry);
        let at = self.target(&piece).unwrap_or_else(|| self.open(piece.index));
        self.add(at, piece.id, piece.name, piece.arguments, deltas);
        self.keep_extra(at, entry);
    }

    /// Takes a piece of arguments without id and name; `false` if no call has its index.
    pub(super) fn take_arguments(&mut self, index: i64, piece: &str, deltas: &mut Vec<Delta>) -> bool {
        let at = self.calls.iter().rposition(|call| call.index == Some(index));
        if let Some(at) = at {
            self.add_text(at, piece, deltas);
        }
        at.is_some()
    }

    /// Takes the legacy field `function_call`, which is one call without an id.
    pub(super) fn take_legacy(&mut self, function: &Object, deltas: &mut Vec<Delta>) {
        let at = self.legacy.unwrap_or_else(|| self.open(None));
        self.legacy = Some(at);
        self.add(at, None, json::text(function, "name"), function.get("arguments"), deltas);
    }

    /// True if a call with the name and the arguments of `entry` exists: some servers repeat the calls at the end.
    pub(super) fn repeats(&self, entry: &Object) -> bool {
        let piece = Piece::of(entry);
        let (Some(name), Some(arguments)) =
            (piece.name, piece.arguments.filter(|value| json::is_trueish(value)))
        else {
            return false;
        };
        self.calls.iter().any(|call| call.name == name && call.arguments.is(arguments))
    }

    /// Opens a call for a block that carries everything itself.
    pub(super) fn open_named(&mut self, id: Option<&str>, name: &str, deltas: &mut Vec<Delta>) -> usize {
        let at = self.open(None);
        self.add(at, id, Some(name), None, deltas);
        at
    }

    /// Adds arguments to the call at `at`.
    pub(super) fn add_arguments(&mut self, at: usize, arguments: &Value, deltas: &mut Vec<Delta>) {
        self.add(at, None, None, Some(arguments), deltas);
    }

    /// True if the call at `at` has no argument text yet.
    pub(super) fn lacks_arguments(&self, at: usize) -> bool {
        matches!(&self.calls[at].arguments, Arguments::Text(text) if text.is_empty())
    }

    /// The call that takes the piece; `None` opens a new one. *Here* is the latest call with the piece's index, or the latest of
    /// all for a piece without one.
    fn target(&self, piece: &Piece<'_>) -> Option<usize> {
        let latest = |fits: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(fits);
        let has_index = |call: &Call| piece.index.is_none() || call.index == piece.index;
        let here = latest(&has_index);
        let Some(id) = piece.id else {
            let at = here?;
            let call = &self.calls[at];
            let is_other = piece.name.is_some_and(|name| {
                !call.name.is_empty() && (call.name != name || call.arguments.is_complete())
            });
            return (!is_other).then_some(at);
        };
        let has_id = |call: &Call| call.id.as_deref() == Some(id);
        if let Some(at) = latest(&|call| has_id(call) && has_index(call)) {
            return Some(at);
        }
        if piece.name.is_none()
            && let Some(at) = latest(&has_id)
        {
            return Some(at);
        }
        // A new id with a name is a new call; without a name, some servers invent an id for each piece.
        let call = &self.calls[here?];
        let is_new = piece.name.is_some() && (call.id.is_some() || !call.name.is_empty());
        if is_new { None } else { here }
    }

    fn keep_extra(&mut self, at: usize, entry: &Object) {
        if let Some(extra) = entry.get("extra_content").filter(|extra| json::is_trueish(extra)) {
            self.calls[at].extra = Some(extra.clone());
        }
    }

    /// Opens a call. Beyond the limit it returns the last one, so that a hostile answer takes no more memory until the check.
    fn open(&mut self, index: Option<i64>) -> usize {
        if self.calls.len() >= self.max.max(1) {
            self.exceeds_max = true;
            return self.calls.len() - 1;
        }
        self.calls.push(Call { index, ..Call::default() });
        self.calls.len() - 1
    }

    fn add(
        &mut self,
        at: usize,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Option<&Value>,
        deltas: &mut Vec<Delta>,
    ) {
        let call = &mut self.calls[at];
        if call.id.is_none() {
            call.id = id.map(str::to_owned);
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
            deltas.push(Delta::Call { at, name: name.to_owned() });
        }
        match arguments {
            Some(Value::String(piece)) => self.add_text(at, piece, deltas),
            Some(Value::Object(whole)) => {
                call.arguments = Arguments::Object(whole.clone());
                deltas.push(Delta::Arguments { at, text: Value::Object(whole.clone()).to_string() });
            }
            _ => {}
        }
    }

    /// Adds a piece of the text of arguments to the call at `at`.
    pub(super) fn add_text(&mut self, at: usize, piece: &str, deltas: &mut Vec<Delta>) {
        if piece.is_empty() {
            return;
        }
        match &mut self.calls[at].arguments {
            Arguments::Text(text) => text.push_str(piece),
            whole => *whole = Arguments::Text(piece.to_owned()),
        }
        deltas.push(Delta::Arguments { at, text: piece.to_owned() });
    }

    /// The finished calls. `cut`: the token limit ended the answer, so the last call may lack its arguments.
    pub(super) fn finish(self, cut: bool) -> Vec<ToolCall> {
        let last = self.calls.len().saturating_sub(1);
        let calls = self.calls.into_iter().enumerate();
        calls
            .map(|(at, Call { id, name, arguments, .. })| {
                let arguments = arguments.finish(cut && at == last);
                ToolCall { id, name, arguments }
            })
            .collect()
    }
}

impl Arguments {
    /// True if the arguments are complete.
    fn is_complete(&self) -> bool {
        match self {
            // Only a closed object is parsed: pieces may be many.
            Arguments::Text(text) => {
                text.trim_end().ends_with('}') && matches!(json::parse(text), Parsed::Value(_))
            }
            Arguments::Object(_) => true,
        }
    }

    fn is(&self, other: &Value) -> bool {
        match (self, other) {
            (Arguments::Text(text), Value::String(other)) => text == other,
            (Arguments::Object(whole), Value::Object(other)) => whole == other,
            _ => false,
        }
    }

    fn finish(self, cut: bool) -> Result<Object, String> {
        let text = match self {
            Arguments::Object(whole) => return Ok(whole),
            Arguments::Text(text) => text,
        };
        if text.trim().is_empty() {
            return if cut { Err(text) } else { Ok(Object::new()) };
        }
        match json::parse(&text) {
            Parsed::Value(Value::Object(whole)) => Ok(whole),
            // Groq sends null for tools without parameters.
            Parsed::Value(Value::Null) => Ok(Object::new()),
            _ => Err(text),
        }
    }
}
