//! The live display on a terminal: drawn inline at the cursor, or on the alternate screen.
//!
//! A display of up to half the window's rows is drawn inline. A larger one uses the alternate screen, where shrinking the window scrolls nothing
//! into the history. (In a window that becomes narrower than an inline display, the terminal may wrap its first lines into the history
//! before the process learns of the change.) One global [`Screen`] records the placement and content, because writing to stderr, stopping
//! and exiting all have to remove the display first.

mod keyboard;

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cli::output::cells::visible;
use crate::cli::output::terminal::WIDTH;

/// Maximum bytes of messages deferred until the alternate screen is left.
const DEFERRED_BYTES_MAX: usize = 64 << 10;

/// Attempts to lock the screen on exit, and the interval between them.
const LOCK_TRIES: usize = 50;

const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(2);

const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";

const END: &str = "\u{1b}[?7h\u{1b}[?2026l";

/// Enters and leaves the alternate screen. It is cleared before leaving, because a terminal that was
/// resized may scroll its content into the history. The cursor stays visible: a killed process could not
/// show it again, and a shell can use that screen too.
const ENTER_ALTERNATE: &str = "\u{1b}[?1049h\u{1b}[2J";

const LEAVE_ALTERNATE: &str = "\u{1b}[2J\u{1b}[H\u{1b}[?1049l";

/// Erases a line, and the rest of the screen.
const WHOLE_LINE: &str = "\u{1b}[2K";

const REST_OF_SCREEN: &str = "\u{1b}[J";

static SCREEN: Mutex<Screen> = Mutex::new(Screen::new());

pub(crate) type Size = (usize, usize);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    lines: Vec<String>,
    size: Size,
}

#[derive(Debug, Default)]
enum Placement {
    #[default]
    Hidden,
    /// Above the cursor, which is at the start of the next line.
    Inline(Frame),
    /// On the alternate screen; `None` if its content is unknown.
    Alternate(Option<Frame>),
}

struct Screen {
    placement: Placement,
    /// Nothing is drawn until [`open`].
    closed: bool,
    /// Messages to print after leaving the alternate screen.
    deferred: Vec<u8>,
}

impl Screen {
    const fn new() -> Screen {
        Screen { placement: Placement::Hidden, closed: false, deferred: Vec::new() }
    }

    /// Returns the bytes that remove the display, given the current size.
    fn clear(&mut self, size: Size, reflows: bool) -> String {
        match std::mem::take(&mut self.placement) {
            Placement::Hidden => String::new(),
            Placement::Inline(frame) => {
                // Row by row: a terminal may save the first erased row to the last in its history.
                let rows = rows(&frame, size, reflows).min(size.1.saturating_sub(1));
                let each = format!("{WHOLE_LINE}\n").repeat(rows);
                format!("{BEGIN}{}{each}{WHOLE_LINE}{}{END}", up(rows), up(rows))
            }
            Placement::Alternate(_) => LEAVE_ALTERNATE.to_owned(),
        }
    }

    /// Returns the bytes that show a frame. `large`: use the alternate screen.
    fn show(&mut self, frame: Frame, large: bool, reflows: bool) -> String {
        let mut bytes = String::new();
        // A display on the alternate screen stays there; switching back and forth would flicker.
        if large && !matches!(self.placement, Placement::Alternate(_)) {
            bytes += &self.clear(frame.size, reflows);
            bytes += ENTER_ALTERNATE;
            self.placement = Placement::Alternate(None);
        }
        match &self.placement {
            Placement::Alternate(before) => bytes += &changes(before.as_ref(), &frame),
            Placement::Inline(before) if *before == frame => {}
            Placement::Inline(before) => {
                bytes += BEGIN;
                bytes += &up(rows(before, frame.size, reflows));
                bytes += &block(&frame);
            }
            Placement::Hidden => {
                bytes += BEGIN;
                bytes += &block(&frame);
            }
        }
        self.placement = match self.placement {
            Placement::Alternate(_) => Placement::Alternate(Some(frame)),
            Placement::Inline(_) | Placement::Hidden => Placement::Inline(frame),
        };
        bytes
    }

    /// Marks the content as unknown, after another process used the screen.
    fn forget(&mut self) {
        self.placement = match self.placement {
            Placement::Alternate(_) => Placement::Alternate(None),
            Placement::Inline(_) | Placement::Hidden => Placement::Hidden,
        };
    }

    fn defer(&mut self, bytes: &[u8]) {
        let room = DEFERRED_BYTES_MAX.saturating_sub(self.deferred.len());
        self.deferred.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn clear_now(&mut self) {
        let size = size_of_stdout();
        let bytes = self.clear(size, reflows());
        write(&bytes);
        keyboard::restore(in_background());
        if !self.deferred.is_empty() {
            let deferred = std::mem::take(&mut self.deferred);
            let _ = stderr().write_all(&deferred);
        }
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { "\r".to_owned() } else { format!("\r\u{1b}[{rows}A") }
}

/// Rows that a frame takes now: a terminal that became narrower has wrapped its lines.
fn rows(frame: &Frame, now: Size, reflows: bool) -> usize {
    let columns = now.0.max(1);
    let of = |line: &String| if reflows { visible(line).div_ceil(columns).max(1) } else { 1 };
    // Moving up stops at the first row of the screen.
    frame.lines.iter().map(of).sum()
}

/// Erases the row before the line is written. Otherwise a terminal that wrapped a longer line into this row
/// keeps joining both rows on a resize.
fn whole_row(line: &str) -> String {
    format!("{WHOLE_LINE}{line}")
}

fn block(frame: &Frame) -> String {
    let mut bytes = String::new();
    for line in &frame.lines {
        bytes += &whole_row(line);
        bytes += "\r\n";
    }
    bytes + REST_OF_SCREEN + END
}

/// Draws the lines that changed on the alternate screen.
fn changes(before: Option<&Frame>, frame: &Frame) -> String {
    let known = before.filter(|before| before.size == frame.size);
    let old = known.map_or(&[][..], |before| &before.lines);
    let mut bytes = String::new();
    for (at, line) in frame.lines.iter().enumerate() {
        if old.get(at) != Some(line) {
            bytes += &format!("\u{1b}[{};1H{}", at + 1, whole_row(line));
        }
    }
    let below = frame.lines.len() + 1;
    if (known.is_none() || old.len() > frame.lines.len()) && below <= frame.size.1 {
        bytes += &format!("\u{1b}[{below};1H{REST_OF_SCREEN}");
    }
    // The cursor is left below the frame: there a shell continues if the process is killed.
    if bytes.is_empty() { bytes } else { format!("{BEGIN}{bytes}\u{1b}[{below};1H{END}") }
}

/// Returns whether the terminal rewraps lines when its width changes. The exceptions are known.
fn reflows() -> bool {
    let has = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let plain = std::env::var_os("TERM").is_some_and(|term| term == "linux");
    has("TMUX") || !(has("STY") || has("XTERM_VERSION") || plain)
}

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(bytes: &str) {
    if !bytes.is_empty() {
        // The terminal may be gone.
        let mut to = stdout().lock();
        let _ = to.write_all(bytes.as_bytes()).and_then(|()| to.flush());
    }
}

/// Returns whether another process group has the terminal. Drawing would overwrite what its user types.
fn in_background() -> bool {
    rustix::termios::tcgetpgrp(stdout()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Shows lines that fit the screen. `rows_wanted`: rows of the uncut display.
pub(crate) fn show(lines: Vec<String>, rows_wanted: usize, size: Size) {
    let mut screen = screen();
    if screen.closed || in_background() {
        return;
    }
    let bytes = screen.show(Frame { lines, size }, is_large(rows_wanted, size), reflows());
    write(&bytes);
}

/// Shows lines on the alternate screen, and reads keys without echo.
pub(crate) fn show_whole(lines: Vec<String>, size: Size) {
    let mut screen = screen();
    if screen.closed || in_background() {
        return;
    }
    keyboard::enable_key_mode();
    let bytes = screen.show(Frame { lines, size }, true, reflows());
    write(&bytes);
}

/// Returns whether a display of this height uses the alternate screen.
fn is_large(rows_wanted: usize, size: Size) -> bool {
    rows_wanted > size.1 / 2
}

/// Marks the content as unknown, after another process used the screen.
pub(crate) fn forget() {
    screen().forget();
}

/// Removes the display, and draws nothing until [`open`].
pub(crate) fn close() {
    let mut screen = screen();
    screen.clear_now();
    screen.closed = true;
}

/// Like [`close`], and leaves these lines above the cursor.
pub(crate) fn leave(lines: &[String]) {
    close();
    if !in_background() {
        write(&lines.iter().map(|line| format!("{line}\r\n")).collect::<String>());
    }
}

pub(crate) fn open() {
    screen().closed = false;
}

/// Removes the display before the process exits, even in the middle of a drawing.
pub(crate) fn try_close() {
    for _ in 0..LOCK_TRIES {
        if let Ok(mut screen) = SCREEN.try_lock() {
            screen.clear_now();
            screen.closed = true;
            return;
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

/// Removes the display before a panic message; it is drawn again if the process continues.
pub(crate) fn clear_on_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The panic may come from drawing, which holds the lock.
        if let Ok(mut screen) = SCREEN.try_lock() {
            screen.clear_now();
        } else {
            write(&format!("{END}{LEAVE_ALTERNATE}"));
            keyboard::restore(in_background());
        }
        default_hook(panic);
    }));
}

/// Standard error; writing removes the display first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusWriter;

impl Write for StatusWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut screen = screen();
        if stderr().is_terminal() {
            match &screen.placement {
                Placement::Hidden => {}
                Placement::Inline(_) => screen.clear_now(),
                Placement::Alternate(_) => {
                    screen.defer(bytes);
                    return Ok(bytes.len());
                }
            }
        }
        stderr().write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        stderr().flush()
    }
}

const HEIGHT: usize = 24;

/// Columns and rows of the terminal at stdout, or a default.
pub(crate) fn size_of_stdout() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (WIDTH, HEIGHT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn frame(lines: &[&str], size: Size) -> Frame {
        Frame { lines: lines.iter().map(|&line| line.to_owned()).collect(), size }
    }

    fn check(bytes: &str, expected: &Expect) {
        expected.assert_eq(&bytes.escape_debug().to_string());
    }

    #[test]
    fn a_small_tree_is_drawn_over_itself_and_taken_away() {
        let mut screen = Screen::new();
        let size = (80, 24);
        check(
            &screen.show(frame(&["a", "b"], size), false, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2Ka\r\n\u{1b}[2Kb\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&screen.show(frame(&["a", "b"], size), false, true), &expect![""]);
        check(
            &screen.show(frame(&["c"], size), false, true),
            &expect![[r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[2A\u{1b}[2Kc\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#]],
        );
        check(
            &screen.clear(size, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[1A\u{1b}[2K\n\u{1b}[2K\r\u{1b}[1A\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&screen.clear(size, true), &expect![""]);
    }

    #[test]
    fn a_window_made_narrower_has_wrapped_what_was_drawn() {
        let drawn = frame(&["\u{1b}[32m✔\u{1b}[0m 345678", "日本語日本", "", "a"], (10, 9));
        for (columns, reflows, expected) in
            [(10, true, 4), (7, true, 6), (4, true, 7), (1, true, 20), (4, false, 4)]
        {
            assert_eq!(rows(&drawn, (columns, 9), reflows), expected, "{columns}");
        }
    }

    #[test]
    fn a_large_tree_gets_the_other_screen_and_only_its_changes() {
        let mut screen = Screen::new();
        let size = (80, 4);
        screen.show(frame(&["a"], size), false, true);
        check(
            &screen.show(frame(&["a", "b", "c"], size), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[1A\u{1b}[2K\n\u{1b}[2K\r\u{1b}[1A\u{1b}[?7h\u{1b}[?2026l\u{1b}[?1049h\u{1b}[2J\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[2Kb\u{1b}[3;1H\u{1b}[2Kc\u{1b}[4;1H\u{1b}[J\u{1b}[4;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&screen.show(frame(&["a", "b", "c"], size), true, true), &expect![""]);
        check(
            &screen.show(frame(&["a", "x"], size), false, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2;1H\u{1b}[2Kx\u{1b}[3;1H\u{1b}[J\u{1b}[3;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(
            &screen.show(frame(&["a", "x"], (40, 2)), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[2Kx\u{1b}[3;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&screen.clear(size, true), &expect![[r#"\u{1b}[2J\u{1b}[H\u{1b}[?1049l"#]]);
    }

    #[test]
    fn what_somebody_else_wrote_over_is_drawn_anew() {
        let mut screen = Screen::new();
        let size = (80, 4);
        screen.show(frame(&["a"], size), false, true);
        screen.forget();
        check(
            &screen.show(frame(&["a"], size), false, true),
            &expect![[r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2Ka\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#]],
        );
        screen.show(frame(&["a"], size), true, true);
        screen.forget();
        check(
            &screen.show(frame(&["a"], size), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[J\u{1b}[2;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
    }

    #[test]
    fn messages_are_kept_up_to_a_limit() {
        let mut screen = Screen::new();
        screen.defer(&vec![b'x'; DEFERRED_BYTES_MAX - 1]);
        screen.defer(b"yz");
        screen.defer(b"more");
        assert_eq!((screen.deferred.len(), screen.deferred.last()), (DEFERRED_BYTES_MAX, Some(&b'y')));
    }
}
