//! A run while it goes on: plain lines for a pipe, a redrawn tree for a terminal.
//!
//! `model` holds the state known from records, `draw` and `waves` render it as lines, and [`screen`](super::screen) draws these.

mod draw;
mod model;
pub(crate) mod plain;
#[cfg(test)]
mod snapshots;
mod waves;

use std::time::Duration;

use ostler_server::wire::{ClientLine, EventLine};

use crate::cli::output::credits::deposit;
use crate::cli::output::live::model::RunModel;
use crate::cli::output::screen;
use crate::cli::output::terminal::Out;
use crate::cli::output::units::now_ms;
use crate::cli::session::signals::begin;

/// How often the tree is drawn.
pub(crate) const REDRAW: Duration = Duration::from_millis(100);

/// Drawings that are left out at first: what is over by then needs no tree.
const FRAMES_SKIPPED: usize = 2;

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
    fn status_lines(&mut self, _out: &Out) -> Vec<String> {
        Vec::new()
    }

    /// Nothing more comes.
    fn end(&mut self, _out: &mut Out) {}

    /// Whether what became of the nodes stands on the screen for good.
    fn has_shown_nodes(&self) -> bool;
}

/// A tree that is drawn anew, in place.
pub(crate) struct Live {
    model: RunModel,
    frame: usize,
    ended: bool,
    /// Something else stands on the screen.
    paused: bool,
}

impl Live {
    pub(crate) fn new() -> Live {
        begin();
        Live { model: RunModel::default(), frame: 0, ended: false, paused: false }
    }
}

impl Live {
    fn tree(&mut self, out: &Out, columns: usize, rows: usize) -> Vec<String> {
        self.model.update_levels();
        let (now_ms, frame) = (now_ms(), self.frame);
        let viewport = draw::Viewport { columns, rows: rows.max(1), colour: out.has_colour(), now_ms, frame };
        draw::tree(&self.model, &viewport)
    }
}

impl View for Live {
    fn record(&mut self, line: &EventLine, _out: &mut Out) {
        self.model.record(line);
    }

    fn out_of_credit(&mut self) -> Option<String> {
        let is_asked = self.model.out_of_credit && self.model.deposit.is_none();
        is_asked.then(|| self.model.client.clone())
    }

    fn credits(&mut self, line: Option<&ClientLine>, _out: &mut Out) {
        self.model.deposit = Some(deposit(line.and_then(|line| line.left)));
    }

    fn moves(&self) -> bool {
        !self.ended
    }

    fn pause(&mut self) {
        screen::close();
        self.paused = true;
    }

    fn tick(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.paused) {
            screen::open();
        }
        self.frame += 1;
        if self.frame <= FRAMES_SKIPPED || self.model.nodes().is_empty() {
            return;
        }
        let size = out.size();
        let rows_wanted = draw::rows_wanted(&self.model, size.0);
        // The last row is that of the cursor.
        screen::show(self.tree(out, size.0, size.1.saturating_sub(1)), rows_wanted, size);
    }

    fn status_lines(&mut self, out: &Out) -> Vec<String> {
        let (columns, rows) = out.size();
        self.tree(out, columns, rows.saturating_sub(ROWS_OF_PROMPT))
    }

    fn end(&mut self, _out: &mut Out) {
        if !self.ended {
            self.ended = true;
            screen::close();
        }
    }

    fn has_shown_nodes(&self) -> bool {
        false
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if !self.ended {
            screen::close();
        }
    }
}
