//! The turns of a person at a terminal, or of a script in a pipe.

use std::io::{BufRead, Read, Write, stdin};

use ostler_kernel::policy::GOAL_BYTES_MAX;

use crate::cli::exit::Failure;
use crate::cli::output::screen::StatusWriter;
use crate::cli::output::terminal::status_line;
use crate::cli::session::approval_prompt::{TypedLines, is_interactive};
use crate::cli::session::signals::{ContinueSignal, Signals};

/// What comes next in a chat.
pub(crate) enum Said {
    Goal(String),
    /// `/quit`, or the end of the input.
    End,
    /// A signal that ends the chat, as an exit code.
    Signal(u8),
}

pub(crate) enum Input {
    Terminal {
        lines_typed: TypedLines,
        resumed: ContinueSignal,
    },
    /// A line is read when its turn comes, so that a long input takes no memory.
    Pipe,
}

const PROMPT: &str = "> ";

impl Input {
    pub(crate) fn open() -> Input {
        match is_interactive() {
            true => Input::Terminal { lines_typed: TypedLines::read(), resumed: ContinueSignal::listen() },
            false => Input::Pipe,
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal { .. })
    }

    /// The lines typed at the terminal, for the approvals of a turn.
    pub(crate) fn lines_typed(&self) -> Option<TypedLines> {
        match self {
            Input::Terminal { lines_typed, .. } => Some(lines_typed.clone()),
            Input::Pipe => None,
        }
    }

    /// The next goal. Blank lines are none.
    pub(crate) async fn next(&mut self, signals: &mut Signals) -> Result<Said, Failure> {
        loop {
            let line = match self {
                Input::Terminal { lines_typed, resumed } => {
                    prompt();
                    tokio::select! {
                        line = lines_typed.next() => line,
                        () = resumed.next() => continue,
                        code = signals.next() => match code {
                            130 => {
                                status_line("\n/quit or ^D ends");
                                continue;
                            }
                            code => {
                                status_line("");
                                return Ok(Said::Signal(code));
                            }
                        },
                    }
                }
                Input::Pipe => tokio::select! {
                    line = tokio::task::spawn_blocking(read_line) => {
                        line.map_err(|broken| Failure::internal(broken.to_string()))??
                    }
                    code = signals.next() => return Ok(Said::Signal(code)),
                },
            };
            match line.as_deref().map(str::trim) {
                None | Some("/quit") => return Ok(Said::End),
                Some("") => {}
                Some(word) if is_command(word) => {
                    status_line(format!(
                        "{word}: no such command; /quit or ^D ends, any other line is a turn"
                    ));
                }
                Some(goal) => return Ok(Said::Goal(goal.to_owned())),
            }
        }
    }
}

/// True for a word such as `/help`, which is sent to no model. A path has a second slash.
fn is_command(line: &str) -> bool {
    let word = line.strip_prefix('/').unwrap_or_default();
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn prompt() {
    let mut to = StatusWriter;
    let _ = to.write_all(PROMPT.as_bytes());
    let _ = to.flush();
}

/// The next line of stdin; `None` at its end. Blocks.
fn read_line() -> Result<Option<String>, Failure> {
    let refused = |why: String| Failure::invalid(format!("a turn from stdin: {why}"));
    let (mut line, most) = (Vec::new(), GOAL_BYTES_MAX as u64 + 1);
    let read = stdin().lock().take(most).read_until(b'\n', &mut line);
    if read.map_err(|error| refused(error.to_string()))? == 0 {
        return Ok(None);
    }
    if line.len() > GOAL_BYTES_MAX {
        return Err(refused(format!(
            "a line of more than {GOAL_BYTES_MAX} bytes; a turn is one shorter line"
        )));
    }
    let line = String::from_utf8(line);
    line.map(Some).map_err(|error| refused(format!("it is not text: {}", error.utf8_error())))
}
