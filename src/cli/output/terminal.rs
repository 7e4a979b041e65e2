//! Standard output and standard error: colours, sizes and write errors.

use std::io;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;
use std::time::Duration;

use ostler::finding::{RenderStyle, harmless};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::cli::output::screen::{StatusWriter, size_of_stdout};

/// Size assumed if the terminal reports none.
pub(crate) const WIDTH: usize = 80;

/// The first write error on standard output, except a closed pipe.
static LOST: OnceLock<io::Error> = OnceLock::new();

pub(crate) fn write_error() -> Option<&'static io::Error> {
    LOST.get()
}

/// Records a write error on standard output. A closed pipe is not an error.
pub(crate) fn record_write_result(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// Time between two looks at whether the reader of standard output has gone.
const READER_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the pipe or socket of standard output has no reader; never returns for a file. For a command that only follows: one
/// that acts goes on without a reader.
pub(crate) async fn reader_gone() {
    while !reader_is_gone() {
        tokio::time::sleep(READER_INTERVAL).await;
    }
}

fn reader_is_gone() -> bool {
    let to = stdout();
    // Errors and hang-ups are always reported.
    let mut polled = [PollFd::new(&to, PollFlags::empty())];
    let found = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    found.is_ok_and(|ready| ready > 0) && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Standard output. After the reader closes the pipe, writes are dropped without an error.
pub(crate) struct Out {
    closed: bool,
    terminal: bool,
    colour: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Success,
    Error,
    Warning,
    Dim,
    Bold,
    Plain,
}

/// JSON of the same value in which a person sees every character, and none controls a terminal: JSON leaves U+007F and above as they are.
fn escaped_json(text: &str) -> std::borrow::Cow<'_, str> {
    let is_harmless = |c: char| c == '\n' || harmless(c) == c;
    if text.chars().all(is_harmless) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmless(c) {
            true => escaped.push(c),
            false => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped.into()
}

impl Out {
    pub(crate) fn new() -> Out {
        let terminal = stdout().is_terminal();
        Out { closed: false, terminal, colour: wants_colour(terminal, &variable) }
    }

    /// Returns whether stdout is a terminal that can be redrawn.
    pub(crate) fn is_screen(&self) -> bool {
        self.terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Returns whether nothing that is written arrives any more: a write failed, or the reader of the pipe has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed || reader_is_gone()
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if !self.closed {
            let mut to = stdout().lock();
            let written = to.write_all(bytes).and_then(|()| to.flush());
            self.closed = written.is_err();
            record_write_result(written);
        }
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.raw(format!("{}\n", text.as_ref()).as_bytes());
    }

    pub(crate) fn json(&mut self, value: &impl serde::Serialize) {
        let text = serde_json::to_string(value).expect("what is told is names, numbers and JSON");
        self.line(escaped_json(&text));
    }

    /// Writes JSON that stands as a text, with its line breaks.
    pub(crate) fn json_text(&mut self, text: &str) {
        self.raw(escaped_json(text).as_bytes());
    }

    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        styled_if(self.colour, style, text)
    }

    pub(crate) fn finding_look(&self) -> RenderStyle {
        RenderStyle { colour: self.colour, width: self.terminal.then(|| text_width(self.size().0)) }
    }

    /// Width at which to cut a name: at most `most` on a terminal, where columns stay aligned; a pipe gets whole names.
    pub(crate) fn name_width(&self, most: usize) -> usize {
        if self.terminal { most } else { usize::MAX }
    }

    /// Line width: that of the terminal, else unlimited.
    pub(crate) fn columns(&self) -> usize {
        if self.terminal { self.size().0 } else { usize::MAX }
    }

    pub(crate) fn size(&self) -> (usize, usize) {
        size_of_stdout()
    }
}

pub(crate) fn styled_if(colour: bool, style: Style, text: &str) -> String {
    let code = match style {
        Style::Success => "32",
        Style::Error => "31",
        Style::Warning => "33",
        Style::Dim => "2",
        Style::Bold => "1",
        Style::Plain => return text.to_owned(),
    };
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Prints a line on stderr; write errors are ignored.
pub(crate) fn status_line(text: impl AsRef<str>) {
    let _ = StatusWriter.write_all(format!("{}\n", text.as_ref()).as_bytes());
}

/// Report style for stderr: without colours and wrapping in a pipe.
pub(crate) fn stderr_finding_look() -> RenderStyle {
    let terminal = stderr().is_terminal();
    let columns = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    RenderStyle {
        colour: wants_colour(terminal, &variable),
        width: terminal.then(|| text_width(if columns > 0 { columns } else { WIDTH })),
    }
}

fn text_width(columns: usize) -> usize {
    columns.clamp(40, 120)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns whether to use colours: `NO_COLOR` (<https://no-color.org>) disables them, then `CLICOLOR_FORCE`
/// (<https://bixense.com/clicolors>) enables them everywhere; else terminals other than `dumb` have
/// colours, unless `CLICOLOR` is 0.
fn wants_colour(terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let says = |name| variable(name).filter(|value| !value.is_empty());
    if says("NO_COLOR").is_some() {
        false
    } else if says("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        true
    } else {
        terminal && says("TERM").as_deref() != Some("dumb") && says("CLICOLOR").as_deref() != Some("0")
    }
}

pub(crate) fn style_of(state: &str) -> Style {
    match state {
        "executed" | "succeeded" | "concluded" => Style::Success,
        "failed" | "cancelled" => Style::Error,
        "waiting_human" | "failed_retryable" | "blocked" | "waiting" | "suspended" | "quarantined" => {
            Style::Warning
        }
        "running" => Style::Bold,
        _ => Style::Dim,
    }
}

pub(crate) fn tagged(kind: &str, line: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(line).expect("a line is names and numbers");
    value["type"] = json!(kind);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_character_that_controls_a_terminal_and_keeps_its_value() {
        let value = json!({"text": "a\u{9b}31m\u{7f}\u{202e}\u{1b}é😀\t"});
        let text = escaped_json(&value.to_string()).into_owned();
        assert_eq!(text, "{\"text\":\"a\\u009b31m\\u007f\\u202e\\u001bé😀\\t\"}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(escaped_json("{\n  \"text\": \"\u{9b}\"\n}\n"), "{\n  \"text\": \"\\u009b\"\n}\n");
    }

    #[test]
    fn the_environment_says_whether_there_are_colours() {
        for (terminal, variables, expected) in [
            (true, &[][..], true),
            (false, &[], false),
            (true, &[("NO_COLOR", "1")], false),
            (true, &[("NO_COLOR", "0")], false),
            (true, &[("NO_COLOR", "")], true),
            (true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
            (false, &[("CLICOLOR_FORCE", "1")], true),
            (false, &[("CLICOLOR_FORCE", "0")], false),
            (true, &[("CLICOLOR", "0")], false),
            (true, &[("CLICOLOR", "1")], true),
            (true, &[("TERM", "dumb")], false),
            (true, &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")], true),
            (true, &[("TERM", "xterm")], true),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(wants_colour(terminal, &variable), expected, "{terminal} {variables:?}");
        }
    }
}
