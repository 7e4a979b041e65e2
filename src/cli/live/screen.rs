//! The tree on a terminal: drawn where the cursor stands, or on the other screen that terminals have.
//!
//! A small tree is drawn in place, beneath what was there before. A tree that takes more than half of the
//! window gets the other screen: there, a window of any size can be made smaller without a part of the tree
//! being scrolled away for good. (What is drawn in place has no such warrant: in a window that becomes narrower than
//! the tree, a terminal may wrap its first lines out of reach before it tells.) Which of them, and what is on it, is known in one place, since whoever else
//! writes to the terminal, stops the process or ends it has to take the tree away first.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::keyboard;
use crate::cli::cells::visible;

/// Bytes of messages that are kept for when the other screen is left.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// How often somebody who ends the process tries to have the screen for itself, and how long between.
const TRIES: usize = 50;
const BETWEEN: Duration = Duration::from_millis(2);

/// What follows is shown all at once, and no line of it wraps.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";

/// To the other screen, and back. What still stands there then, and below the cursor's row, may be scrolled away for
/// good by a terminal whose size has changed meanwhile. The cursor stays to be seen: nobody can bring it back for a
/// process that is killed, and a shell can be used on that screen too.
const OTHER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[2J";
const BACK: &str = "\u{1b}[2J\u{1b}[H\u{1b}[?1049l";

/// Removes a line; the rest of the screen.
const WHOLE_LINE: &str = "\u{1b}[2K";
const REST_OF_SCREEN: &str = "\u{1b}[J";

static STAGE: Mutex<Stage> = Mutex::new(Stage::new());

/// Columns and rows.
pub(crate) type Size = (usize, usize);

/// What is to be on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Picture {
    lines: Vec<String>,
    size: Size,
}

/// Where the tree is.
#[derive(Debug, Default)]
enum Place {
    /// Nowhere.
    #[default]
    Off,
    /// Above the cursor, which stands at the beginning of the line after it.
    Here(Picture),
    /// On the other screen; without a picture if what is there is not known.
    Other(Option<Picture>),
}

struct Stage {
    place: Place,
    /// Nothing is drawn any more, or until the process goes on.
    closed: bool,
    /// Messages for when the other screen is left.
    kept: Vec<u8>,
}

impl Stage {
    const fn new() -> Stage {
        Stage { place: Place::Off, closed: false, kept: Vec::new() }
    }

    /// What takes the tree off the screen, given its size now.
    fn clear(&mut self, size: Size, rewraps: bool) -> String {
        match std::mem::take(&mut self.place) {
            Place::Off => String::new(),
            Place::Here(picture) => {
                // Row by row: a terminal may keep what is removed from its first row to its last.
                let rows = rows(&picture, size, rewraps).min(size.1.saturating_sub(1));
                let each = format!("{WHOLE_LINE}\n").repeat(rows);
                format!("{BEGIN}{}{each}{WHOLE_LINE}{}{END}", up(rows), up(rows))
            }
            Place::Other(_) => BACK.to_owned(),
        }
    }

    /// What brings a picture to the screen. `large`: it belongs on the other one.
    fn show(&mut self, picture: Picture, large: bool, rewraps: bool) -> String {
        let mut bytes = String::new();
        // Going back and forth would be worse than too much room.
        if large && !matches!(self.place, Place::Other(_)) {
            bytes += &self.clear(picture.size, rewraps);
            bytes += OTHER_SCREEN;
            self.place = Place::Other(None);
        }
        match &self.place {
            Place::Other(before) => bytes += &changes(before.as_ref(), &picture),
            Place::Here(before) if *before == picture => {}
            Place::Here(before) => {
                bytes += BEGIN;
                bytes += &up(rows(before, picture.size, rewraps));
                bytes += &block(&picture);
            }
            Place::Off => {
                bytes += BEGIN;
                bytes += &block(&picture);
            }
        }
        self.place = match self.place {
            Place::Other(_) => Place::Other(Some(picture)),
            Place::Here(_) | Place::Off => Place::Here(picture),
        };
        bytes
    }

    /// Forgets what is on the screen: somebody else has had it.
    fn forget(&mut self) {
        self.place = match self.place {
            Place::Other(_) => Place::Other(None),
            Place::Here(_) | Place::Off => Place::Off,
        };
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes the tree off the screen, and brings the messages that were kept.
    fn clear_now(&mut self) {
        let size = crate::cli::term::size_of_stdout();
        let bytes = self.clear(size, rewraps());
        write(&bytes);
        keyboard::give_back(in_background());
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            let _ = stderr().write_all(&kept);
        }
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { "\r".to_owned() } else { format!("\r\u{1b}[{rows}A") }
}

/// Rows that a picture takes by now: a terminal that became narrower has wrapped its lines.
fn rows(picture: &Picture, now: Size, rewraps: bool) -> usize {
    let columns = now.0.max(1);
    let of = |line: &String| if rewraps { visible(line).div_ceil(columns).max(1) } else { 1 };
    // The cursor goes no further than to the first row.
    picture.lines.iter().map(of).sum()
}

/// A line, and nothing else in its row. A row is removed as a whole: else a terminal that has wrapped a longer line
/// into this row and the next takes the two for one line for ever.
fn alone(line: &str) -> String {
    format!("{WHOLE_LINE}{line}")
}

/// A picture from where the cursor stands.
fn block(picture: &Picture) -> String {
    let mut bytes = String::new();
    for line in &picture.lines {
        bytes += &alone(line);
        bytes += "\r\n";
    }
    bytes + REST_OF_SCREEN + END
}

/// What is different on the other screen.
fn changes(before: Option<&Picture>, picture: &Picture) -> String {
    let known = before.filter(|before| before.size == picture.size);
    let old = known.map_or(&[][..], |before| &before.lines);
    let mut bytes = String::new();
    for (at, line) in picture.lines.iter().enumerate() {
        if old.get(at) != Some(line) {
            bytes += &format!("\u{1b}[{};1H{}", at + 1, alone(line));
        }
    }
    let below = picture.lines.len() + 1;
    if (known.is_none() || old.len() > picture.lines.len()) && below <= picture.size.1 {
        bytes += &format!("\u{1b}[{below};1H{REST_OF_SCREEN}");
    }
    // The cursor stands beneath it: there a shell goes on, should the process be killed.
    if bytes.is_empty() { bytes } else { format!("{BEGIN}{bytes}\u{1b}[{below};1H{END}") }
}

/// Whether the terminal wraps old lines anew when its width changes. Those that do not are few, and known.
fn rewraps() -> bool {
    let has = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let plain = std::env::var_os("TERM").is_some_and(|term| term == "linux");
    has("TMUX") || !(has("STY") || has("XTERM_VERSION") || plain)
}

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(bytes: &str) {
    if !bytes.is_empty() {
        // A terminal that is gone takes nothing, which is no error.
        let mut to = stdout().lock();
        let _ = to.write_all(bytes.as_bytes()).and_then(|()| to.flush());
    }
}

/// Whether another process group has the terminal: what is drawn would be drawn over what its user types.
fn in_background() -> bool {
    rustix::termios::tcgetpgrp(stdout()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Brings lines to the screen; no more and no wider ones than it has. `rows_wanted`: what all of it would take.
pub(super) fn show(lines: Vec<String>, rows_wanted: usize, size: Size) {
    let mut stage = stage();
    if stage.closed || in_background() {
        return;
    }
    let bytes = stage.show(Picture { lines, size }, is_large(rows_wanted, size), rewraps());
    write(&bytes);
}

/// Brings the lines of a whole screen to the other one, and takes the keys: none is shown as it is pressed.
pub(crate) fn show_whole(lines: Vec<String>, size: Size) {
    let mut stage = stage();
    if stage.closed || in_background() {
        return;
    }
    keyboard::take();
    let bytes = stage.show(Picture { lines, size }, true, rewraps());
    write(&bytes);
}

/// Whether a tree of so many rows belongs on the other screen.
fn is_large(rows_wanted: usize, size: Size) -> bool {
    rows_wanted > size.1 / 2
}

/// Forgets what is on the screen: somebody else has had it.
pub(crate) fn forget() {
    stage().forget();
}

/// Takes the tree off the screen and draws nothing until [`open`].
pub(crate) fn close() {
    let mut stage = stage();
    stage.clear_now();
    stage.closed = true;
}

/// Lets the tree be drawn again.
pub(crate) fn open() {
    stage().closed = false;
}

/// Takes the tree off the screen, in a process that is about to end, be it in the middle of a drawing.
pub(crate) fn close_if_free() {
    for _ in 0..TRIES {
        if let Ok(mut stage) = STAGE.try_lock() {
            stage.clear_now();
            stage.closed = true;
            return;
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Takes the tree off the screen before the message of a panic; it comes again if the process lives on.
pub(super) fn clear_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The panic may be one of drawing: then the lock is taken.
        if let Ok(mut stage) = STAGE.try_lock() {
            stage.clear_now();
        } else {
            write(&format!("{END}{BACK}"));
            keyboard::give_back(in_background());
        }
        told(panic);
    }));
}

/// Standard error, of which the tree knows: it makes room for what is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aside;

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut stage = stage();
        if stderr().is_terminal() {
            match &stage.place {
                Place::Off => {}
                Place::Here(_) => stage.clear_now(),
                Place::Other(_) => {
                    stage.keep(bytes);
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn picture(lines: &[&str], size: Size) -> Picture {
        Picture { lines: lines.iter().map(|&line| line.to_owned()).collect(), size }
    }

    fn check(bytes: &str, expected: &Expect) {
        expected.assert_eq(&bytes.escape_debug().to_string());
    }

    #[test]
    fn a_small_tree_is_drawn_over_itself_and_taken_away() {
        let mut stage = Stage::new();
        let size = (80, 24);
        check(
            &stage.show(picture(&["a", "b"], size), false, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2Ka\r\n\u{1b}[2Kb\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&stage.show(picture(&["a", "b"], size), false, true), &expect![""]);
        check(
            &stage.show(picture(&["c"], size), false, true),
            &expect![[r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[2A\u{1b}[2Kc\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#]],
        );
        check(
            &stage.clear(size, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[1A\u{1b}[2K\n\u{1b}[2K\r\u{1b}[1A\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&stage.clear(size, true), &expect![""]);
    }

    #[test]
    fn a_window_made_narrower_has_wrapped_what_was_drawn() {
        let drawn = picture(&["\u{1b}[32m✔\u{1b}[0m 345678", "日本語日本", "", "a"], (10, 9));
        for (columns, rewraps, expected) in
            [(10, true, 4), (7, true, 6), (4, true, 7), (1, true, 20), (4, false, 4)]
        {
            assert_eq!(rows(&drawn, (columns, 9), rewraps), expected, "{columns}");
        }
    }

    #[test]
    fn a_large_tree_gets_the_other_screen_and_only_its_changes() {
        let mut stage = Stage::new();
        let size = (80, 4);
        stage.show(picture(&["a"], size), false, true);
        check(
            &stage.show(picture(&["a", "b", "c"], size), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\r\u{1b}[1A\u{1b}[2K\n\u{1b}[2K\r\u{1b}[1A\u{1b}[?7h\u{1b}[?2026l\u{1b}[?1049h\u{1b}[2J\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[2Kb\u{1b}[3;1H\u{1b}[2Kc\u{1b}[4;1H\u{1b}[J\u{1b}[4;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&stage.show(picture(&["a", "b", "c"], size), true, true), &expect![""]);
        check(
            &stage.show(picture(&["a", "x"], size), false, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2;1H\u{1b}[2Kx\u{1b}[3;1H\u{1b}[J\u{1b}[3;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(
            &stage.show(picture(&["a", "x"], (40, 2)), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[2Kx\u{1b}[3;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
        check(&stage.clear(size, true), &expect![[r#"\u{1b}[2J\u{1b}[H\u{1b}[?1049l"#]]);
    }

    #[test]
    fn what_somebody_else_wrote_over_is_drawn_anew() {
        let mut stage = Stage::new();
        let size = (80, 4);
        stage.show(picture(&["a"], size), false, true);
        stage.forget();
        check(
            &stage.show(picture(&["a"], size), false, true),
            &expect![[r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[2Ka\r\n\u{1b}[J\u{1b}[?7h\u{1b}[?2026l"#]],
        );
        stage.show(picture(&["a"], size), true, true);
        stage.forget();
        check(
            &stage.show(picture(&["a"], size), true, true),
            &expect![[
                r#"\u{1b}[?2026h\u{1b}[?7l\u{1b}[1;1H\u{1b}[2Ka\u{1b}[2;1H\u{1b}[J\u{1b}[2;1H\u{1b}[?7h\u{1b}[?2026l"#
            ]],
        );
    }

    #[test]
    fn messages_are_kept_up_to_a_limit() {
        let mut stage = Stage::new();
        stage.keep(&vec![b'x'; KEPT_BYTES_MAX - 1]);
        stage.keep(b"yz");
        stage.keep(b"more");
        assert_eq!((stage.kept.len(), stage.kept.last()), (KEPT_BYTES_MAX, Some(&b'y')));
    }
}
