//! What models of an attempt write, as people see it: at once as live text, and as whole lines in the output of the attempt.

use std::collections::BTreeMap;

use ostler_kernel::json::GrowingMember;
use ostler_kernel::port::{AnswerForm, Delta, OUTPUT_CHUNK_BYTES_MAX};

use crate::state::live_text::{AttemptText, TextPart};

/// The member of a JSON answer that people see while it is written. The rest of such an answer, such as the steps of a plan, is
/// for programs.
const SHOWN_MEMBER: &str = "answer";

#[derive(Default)]
pub(super) struct ModelText {
    begun: u32,
    /// Calls that have not ended.
    calls: BTreeMap<u32, CallText>,
    /// From the first text on.
    pub(super) live: Option<AttemptText>,
}

struct CallText {
    /// Finds what is shown of an answer in JSON; `None`: the answer is text.
    member: Option<GrowingMember>,
    /// The line without an end.
    line: String,
}

impl ModelText {
    /// Begins a call, and returns its number.
    pub(super) fn begin(&mut self, form: AnswerForm) -> u32 {
        self.begun += 1;
        let member = match form {
            AnswerForm::Text => None,
            AnswerForm::Json => Some(GrowingMember::new(SHOWN_MEMBER)),
        };
        self.calls.insert(self.begun, CallText { member, line: String::new() });
        self.begun
    }

    /// The text that a piece of an answer shows; `None`: nothing. Calls of tools and their arguments are for programs.
    pub(super) fn shown(&mut self, call: u32, delta: &Delta) -> Option<(TextPart, String)> {
        let state = self.calls.get_mut(&call)?;
        let (part, text) = match (delta, &mut state.member) {
            (Delta::Text(text), None) => (TextPart::Text, text.clone()),
            (Delta::Text(json), Some(member)) => (TextPart::Text, member.push(json)),
            (Delta::Reasoning(text), _) => (TextPart::Reasoning, text.clone()),
            (Delta::Call { .. } | Delta::Arguments { .. }, _) => return None,
        };
        (!text.is_empty()).then_some((part, text))
    }

    /// The lines that a text completes, with their line feeds. Lines of calls made at once do not mix.
    pub(super) fn lines(&mut self, call: u32, text: &str) -> Option<String> {
        let line = &mut self.calls.get_mut(&call)?.line;
        line.push_str(text);
        let whole = match line.rfind('\n') {
            Some(end) => end + 1,
            None if line.len() >= OUTPUT_CHUNK_BYTES_MAX => line.len(),
            None => return None,
        };
        let rest = line.split_off(whole);
        Some(std::mem::replace(line, rest))
    }

    /// Ends a call, and returns its line without an end, with a line feed.
    pub(super) fn end(&mut self, call: u32) -> Option<String> {
        let line = self.calls.remove(&call)?.line;
        (!line.is_empty()).then(|| line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    #[test]
    fn people_see_text_reasoning_and_the_answer_in_json_and_no_arguments() {
        let mut shown = ModelText::default();
        let (plain, json) = (shown.begin(AnswerForm::Text), shown.begin(AnswerForm::Json));
        let some = |part, text: &str| Some((part, text.to_owned()));
        assert_eq!(shown.shown(plain, &text("{\"answer\"")), some(TextPart::Text, "{\"answer\""));
        assert_eq!(shown.shown(json, &text("{\"steps\": [1], \"answer\": \"It")), some(TextPart::Text, "It"));
        assert_eq!(shown.shown(json, &text(" is\", \"next\": \"x\"}")), some(TextPart::Text, " is"));
        assert_eq!(shown.shown(json, &Delta::Reasoning("hm".to_owned())), some(TextPart::Reasoning, "hm"));
        let arguments = Delta::Arguments { at: 0, text: "{\"path\":".to_owned() };
        let call = Delta::Call { at: 0, name: "fs.read".to_owned() };
        assert_eq!((shown.shown(plain, &call), shown.shown(plain, &arguments)), (None, None));
        assert_eq!(shown.shown(9, &text("no such call")), None);
    }

    #[test]
    fn lines_of_two_calls_do_not_mix_and_the_last_gets_an_end() {
        let mut shown = ModelText::default();
        let (a, b) = (shown.begin(AnswerForm::Text), shown.begin(AnswerForm::Text));
        assert_eq!(shown.lines(a, "one\ntw").as_deref(), Some("one\n"));
        assert_eq!(shown.lines(b, "x"), None);
        assert_eq!(shown.lines(a, "o\n").as_deref(), Some("two\n"));
        assert_eq!((shown.end(a), shown.end(b).as_deref(), shown.end(b)), (None, Some("x\n"), None));
        let long = shown.begin(AnswerForm::Text);
        let line = "x".repeat(OUTPUT_CHUNK_BYTES_MAX);
        assert_eq!(shown.lines(long, &line), Some(line), "a line without end is split");
    }
}
