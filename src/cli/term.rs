//! Writing to people and pipes.

use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ostler::finding::Look;
use ostler_kernel::plan::Span;

use super::live::screen::Aside;

/// Columns and rows of a terminal that does not say.
const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// Why standard output was not written, if somebody was still to read it.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Why something that was told did not arrive, if that is so: a disk that is full, and not a reader who left.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Takes in how writing to standard output came out: that nobody reads it any more is no error.
pub(crate) fn wrote(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// Standard output. Once nobody reads it any more, nothing is written; that is no error.
pub(crate) struct Out {
    gone: bool,
    terminal: bool,
    colour: bool,
}

/// Colours of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    Good,
    Bad,
    Care,
    Dim,
    Bold,
    Plain,
}

impl Out {
    pub(crate) fn new() -> Out {
        let terminal = stdout().is_terminal();
        Out { gone: false, terminal, colour: wants_colour(terminal, &variable) }
    }

    /// Whether a person may be looking at a screen that can be redrawn.
    pub(crate) fn is_screen(&self) -> bool {
        self.terminal && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether colours are wanted.
    pub(crate) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Whether anybody still reads.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if !self.gone {
            let mut to = stdout().lock();
            let written = to.write_all(bytes).and_then(|()| to.flush());
            self.gone = written.is_err();
            wrote(written);
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.raw(format!("{}\n", text.as_ref()).as_bytes());
    }

    /// Writes an object as a line.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) {
        self.line(serde_json::to_string(value).expect("what is told is names, numbers and JSON"));
    }

    /// A word in a colour, where there are any.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        painted_if(self.colour, paint, text)
    }

    /// How findings are shown here.
    pub(crate) fn look(&self) -> Look {
        Look { colour: self.colour, width: self.terminal.then(|| readable(self.size().0)) }
    }

    /// Columns that a line may take: those of the terminal, or as many as it likes.
    pub(crate) fn columns(&self) -> usize {
        if self.terminal { self.size().0 } else { usize::MAX }
    }

    /// Columns and rows of the screen.
    pub(crate) fn size(&self) -> (usize, usize) {
        size_of_stdout()
    }
}

/// Columns and rows of the terminal at stdout.
pub(crate) fn size_of_stdout() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (WIDTH, HEIGHT),
    }
}

/// A word in a colour, if there are any.
pub(crate) fn painted_if(colour: bool, paint: Paint, text: &str) -> String {
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "31",
        Paint::Care => "33",
        Paint::Dim => "2",
        Paint::Bold => "1",
        Paint::Plain => return text.to_owned(),
    };
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Says something on stderr; that nobody reads it is no error.
pub(crate) fn say(text: impl AsRef<str>) {
    let _ = Aside.write_all(format!("{}\n", text.as_ref()).as_bytes());
}

/// How findings are shown on stderr: in a pipe without colours, unless these are asked for, and each text in one line.
pub(crate) fn stderr_look() -> Look {
    let terminal = stderr().is_terminal();
    let columns = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    Look {
        colour: wants_colour(terminal, &variable),
        width: terminal.then(|| readable(if columns > 0 { columns } else { WIDTH })),
    }
}

/// Columns that text is wrapped at on a screen of this width.
fn readable(columns: usize) -> usize {
    columns.clamp(40, 120)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Whether colours are wanted: `NO_COLOR` (<https://no-color.org>) forbids them, then `CLICOLOR_FORCE`
/// (<https://bixense.com/clicolors>) asks for them wherever the text goes, else a terminal gets them that is not
/// `dumb`, unless `CLICOLOR` is 0.
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

/// How a state is painted.
pub(crate) fn paint_of(state: &str) -> Paint {
    match state {
        "executed" | "succeeded" | "concluded" => Paint::Good,
        "failed" | "cancelled" => Paint::Bad,
        "waiting_human" | "failed_retryable" | "blocked" | "waiting" | "parked" | "checkpointed"
        | "unreadable" => Paint::Care,
        "running" => Paint::Bold,
        _ => Paint::Dim,
    }
}

/// A span of time for people.
pub(crate) fn span(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{:02} s", ms / 1_000, ms % 1_000 / 10),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {:02} m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// A span of time as a person writes it: in the largest unit that tells all of it.
pub(crate) fn span_written(span: Span) -> String {
    let ms = span.ticks(1_000);
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.into_iter().find(|(_, unit)| ms != 0 && ms % unit == 0) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// How long something took. Less than a millisecond is not nothing.
pub(crate) fn took(ms: i64) -> String {
    if ms < 1 { "<1 ms".to_owned() } else { span(ms) }
}

/// How long ago something was, as coarsely as people tell.
pub(crate) fn ago(ms: i64) -> String {
    match ms / 1_000 {
        ..60 => format!("{} s ago", ms / 1_000),
        60..3_600 => format!("{} m ago", ms / 60_000),
        3_600..86_400 => format!("{} h ago", ms / 3_600_000),
        _ => format!("{} d ago", ms / 86_400_000),
    }
}

/// So many of these: the noun in the form that goes with the number.
pub(crate) fn count(many: usize, noun: &str) -> String {
    if many == 1 { format!("1 {noun}") } else { format!("{many} {noun}s") }
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        ..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// The time of day of a moment, in the zone of this machine.
pub(crate) fn clock(at_ms: i64) -> String {
    moment(at_ms, "%H:%M:%S")
}

/// The date and the time of a moment.
pub(crate) fn date(at_ms: i64) -> String {
    moment(at_ms, "%Y-%m-%d %H:%M:%S")
}

fn moment(at_ms: i64, format: &str) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => format!("{at_ms} ms"),
    }
}

/// Now, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_read_well() {
        let spans = [0, 999, 1_000, 1_240, 59_999, 60_000, 125_000, 3_600_000];
        assert_eq!(
            spans.map(span),
            ["0 ms", "999 ms", "1.00 s", "1.24 s", "59.99 s", "1 m 00 s", "2 m 05 s", "1 h 00 m"]
        );
        let written = [0, 1, 1_500, 30_000, 90_000, 5_400_000, 43_200_000, 2_592_000_000];
        let written = written.map(|ms| span_written(Span::Millis(ms)));
        assert_eq!(written, ["0ms", "1ms", "1500ms", "30s", "90s", "90m", "12h", "30d"]);
        assert_eq!([0, 1, 1_240].map(took), ["<1 ms", "1 ms", "1.24 s"]);
        let agos = [0, 59_999, 60_000, 3_600_000, 86_399_999, 86_400_000].map(ago);
        assert_eq!(agos, ["0 s ago", "59 s ago", "1 m ago", "1 h ago", "23 h ago", "1 d ago"]);
        assert_eq!([0, 1, 2].map(|many| count(many, "node")), ["0 nodes", "1 node", "2 nodes"]);
        assert_eq!([999, 4_200, 7_654_321].map(bytes), ["999 B", "4.2 kB", "7.6 MB"]);
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
