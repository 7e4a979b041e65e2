//! A run as it goes: plain lines for a pipe, a tree that is drawn again and again for a screen.
//!
//! `board` is what is known of the run, `draw` and `fold` make lines of it, `screen` brings them to a terminal, and
//! `keyboard` takes its keys for who wants them.

mod board;
mod draw;
mod fold;
mod keyboard;
mod plain;
pub(crate) mod screen;

#[cfg(test)]
mod pictures;

use std::sync::Once;
use std::time::Duration;

use ostler_server::wire::{ClientLine, EventLine};

use super::clients::deposit;
use super::term::{Out, now_ms};
use board::Board;
pub(crate) use plain::Plain;

/// How often the tree is drawn.
pub(crate) const REDRAW: Duration = Duration::from_millis(100);

/// Drawings that are left out at first: what is over by then needs no tree.
const BEATS_BEFORE: usize = 2;

/// Rows of a screen that are left to what is typed beneath a tree.
const ROWS_OF_PROMPT: usize = 2;

/// What shows the records of a run.
pub(crate) trait View {
    /// A record came.
    fn record(&mut self, line: &EventLine, out: &mut Out);

    /// The client whose credits are used up, if that is still to be told.
    fn out_of_credit(&mut self) -> Option<String> {
        None
    }

    /// How that client stands, as far as anybody knows.
    fn credits(&mut self, _line: Option<&ClientLine>, _out: &mut Out) {}

    /// Whether time changes what is shown.
    fn moves(&self) -> bool {
        false
    }

    /// Time has passed.
    fn tick(&mut self, _out: &mut Out) {}

    /// Makes room on the screen for something else, until the next tick.
    fn pause(&mut self) {}

    /// How the run stands, in lines that stay where they are printed; none if that is told anyway.
    fn standing(&mut self, _out: &Out) -> Vec<String> {
        Vec::new()
    }

    /// Nothing more comes.
    fn end(&mut self, _out: &mut Out) {}

    /// Whether what became of the nodes stands on the screen for good.
    fn has_told_nodes(&self) -> bool;
}

/// A tree that is drawn anew, in place.
pub(crate) struct Live {
    board: Board,
    beat: usize,
    over: bool,
    /// Something else stands on the screen.
    paused: bool,
}

/// From here on, something may be drawn on the terminal that is taken away whatever ends the process. Call it inside
/// the runtime.
pub(crate) fn begin() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(screen::clear_on_panic);
    screen::open();
    super::signals::mind_stops();
}

impl Live {
    pub(crate) fn new() -> Live {
        begin();
        Live { board: Board::default(), beat: 0, over: false, paused: false }
    }
}

impl Live {
    fn tree(&mut self, out: &Out, columns: usize, rows: usize) -> Vec<String> {
        self.board.settle();
        let (now_ms, beat) = (now_ms(), self.beat);
        let look = draw::Look { columns, rows: rows.max(1), colour: out.has_colour(), now_ms, beat };
        draw::tree(&self.board, &look)
    }
}

impl View for Live {
    fn record(&mut self, line: &EventLine, _out: &mut Out) {
        self.board.record(line);
    }

    fn out_of_credit(&mut self) -> Option<String> {
        let is_asked = self.board.out_of_credit && self.board.deposit.is_none();
        is_asked.then(|| self.board.client.clone())
    }

    fn credits(&mut self, line: Option<&ClientLine>, _out: &mut Out) {
        self.board.deposit = Some(deposit(line.and_then(|line| line.left)));
    }

    fn moves(&self) -> bool {
        !self.over
    }

    fn pause(&mut self) {
        screen::close();
        self.paused = true;
    }

    fn tick(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.paused) {
            screen::open();
        }
        self.beat += 1;
        if self.beat <= BEATS_BEFORE || self.board.nodes().is_empty() {
            return;
        }
        let size = out.size();
        let rows_wanted = draw::rows_wanted(&self.board, size.0);
        // The last row is that of the cursor.
        screen::show(self.tree(out, size.0, size.1.saturating_sub(1)), rows_wanted, size);
    }

    fn standing(&mut self, out: &Out) -> Vec<String> {
        let (columns, rows) = out.size();
        self.tree(out, columns, rows.saturating_sub(ROWS_OF_PROMPT))
    }

    fn end(&mut self, _out: &mut Out) {
        if !self.over {
            self.over = true;
            screen::close();
        }
    }

    fn has_told_nodes(&self) -> bool {
        false
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.over {
            screen::close();
        }
    }
}
