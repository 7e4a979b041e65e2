//! A run while it executes: plain lines for a pipe, a redrawn tree for a terminal.
//!
//! `model` holds the state known from records, `draw` and `waves` render it as lines, and
//! [`screen`](super::screen) draws these.

mod draw;
mod model;
pub(crate) mod plain;
#[cfg(test)]
mod snapshots;
mod waves;
mod writing;

pub(crate) use model::DisplayState;
#[cfg(test)]
pub(crate) use model::tests::line;
pub(crate) use writing::{Pace, Writing};

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ostler_kernel::port::OutputStream;
use ostler_server::wire::{ApprovalView, ClientRow, EventLine, OutputRow, TextRow};

use crate::cli::output::cells::{fit, harmless_line};
use crate::cli::output::changes::Changes;
use crate::cli::output::credits::deposit;
use crate::cli::output::hints;
use crate::cli::output::live::model::RunModel;
use crate::cli::output::printed::{OUTPUT_NAME_MAX, output_lines};
use crate::cli::output::screen;
use crate::cli::output::terminal::{Out, Style};
use crate::cli::output::units::now_ms;
use crate::cli::session::signals::begin;

pub(crate) const REDRAW: Duration = Duration::from_millis(100);

/// Drawings skipped at first: a run that ends by then needs no tree.
const FRAMES_SKIPPED: usize = 2;

const ROWS_OF_PROMPT: usize = 2;

pub(crate) trait View {
    /// Handles a record.
    fn record(&mut self, line: &EventLine, out: &mut Out);

    /// Shows what a program printed.
    fn output(&mut self, _row: &OutputRow, _out: &mut Out) {}

    /// Returns whether the view shows what models write while they write it.
    fn shows_text(&self) -> bool {
        false
    }

    /// Shows a piece of what a model writes.
    fn writes(&mut self, _row: &TextRow, _out: &mut Out) {}

    /// Time at which the view draws what has changed; `None`: nothing has.
    fn draws_at(&self) -> Option<Instant> {
        None
    }

    fn draw(&mut self, _out: &mut Out) {}

    /// Returns the client without credits, if this is not reported yet.
    fn out_of_credit(&mut self) -> Option<String> {
        None
    }

    fn credits(&mut self, _line: Option<&ClientRow>, _out: &mut Out) {}

    /// Returns whether the view shows questions of runs that a node opens while it runs.
    fn shows_questions_below(&self) -> bool {
        false
    }

    /// Shows a question of a run that a running node opened: the node waits for its answer.
    fn asks_below(&mut self, _question: &ApprovalView, _out: &mut Out) {}

    fn moves(&self) -> bool {
        false
    }

    fn tick(&mut self, _out: &mut Out) {}

    /// Clears the screen for a prompt, until the next tick.
    fn pause(&mut self) {}

    /// Returns the state of the run as lines to print; none if the view prints them anyway.
    fn status_lines(&mut self, _out: &Out) -> Vec<String> {
        Vec::new()
    }

    /// Leaves the last state of the run on the screen: an interrupted run prints no report.
    fn leave_state(&mut self, _out: &Out) {}

    fn end(&mut self, _out: &mut Out) {}

    /// The changes of the nodes, if the view follows them.
    fn changes(&self) -> Option<&Changes> {
        None
    }

    /// Returns whether the printed output covers the states of all nodes.
    fn has_shown_nodes(&self) -> bool;
}

/// Shows nothing: for commands that print the end only.
pub(crate) struct NoView;

impl View for NoView {
    fn record(&mut self, _line: &EventLine, _out: &mut Out) {}

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

/// Longest question in a line, in cells.
const QUESTION_MAX: usize = 100;

/// Text of a question, and the command that shows the question.
fn asked(question: &ApprovalView) -> String {
    let text = ["text", "question"].into_iter().find_map(|name| question.params.get(name)?.as_str());
    let text = text.unwrap_or(&question.node);
    let list = hints::command("approvals", &[], "");
    format!("{} (`{list}` shows how to answer)", fit(&harmless_line(text), QUESTION_MAX))
}

/// Lines of output shown under the tree.
const OUTPUT_ROWS: usize = 8;

/// Lines of what models write, shown under the tree.
const TEXT_ROWS_MIN: usize = 3;

const TEXT_ROWS_MAX: usize = 8;

pub(crate) struct Live {
    model: RunModel,
    /// The last lines that programs printed.
    printed: VecDeque<String>,
    writing: Writing,
    pace: Pace,
    frame: usize,
    ended: bool,
    paused: bool,
}

impl Live {
    pub(crate) fn new() -> Live {
        begin();
        Live {
            model: RunModel::default(),
            printed: VecDeque::new(),
            writing: Writing::default(),
            pace: Pace::default(),
            frame: 0,
            ended: false,
            paused: false,
        }
    }
}

impl Live {
    fn tree(&mut self, out: &Out, columns: usize, rows: usize) -> Vec<String> {
        self.model.update_levels();
        let (now_ms, frame) = (now_ms(), self.frame);
        let viewport = draw::Viewport { columns, rows: rows.max(1), colour: out.has_colour(), now_ms, frame };
        draw::tree(&self.model, &viewport)
    }

    /// The tree, and under it the output of programs and what models write.
    fn lines(&mut self, out: &Out, columns: usize, rows: usize, rows_of_text: usize) -> Vec<String> {
        let text = self.writing.lines(columns, rows_of_text.min(rows / 2), out.has_colour());
        let printed = self.printed.len().min(rows / 2 - text.len());
        let mut lines = self.tree(out, columns, rows - printed - text.len());
        let last = self.printed.iter().skip(self.printed.len() - printed);
        lines.extend(last.map(|line| out.styled(Style::Dim, &fit(&format!("│ {line}"), columns))));
        lines.extend(text);
        lines
    }

    /// Shows lines under the tree, until newer ones take their place.
    fn print(&mut self, lines: impl IntoIterator<Item = String>) {
        self.printed.extend(lines);
        let over = self.printed.len().saturating_sub(OUTPUT_ROWS);
        self.printed.drain(..over);
    }

    fn redraw(&mut self, out: &Out) {
        let is_early = self.frame <= FRAMES_SKIPPED && self.writing.is_empty();
        if is_early || self.model.nodes().is_empty() || self.paused {
            return;
        }
        let size = out.size();
        let rows_wanted = draw::rows_wanted(&self.model, size.0) + self.printed.len();
        // The text alone does not move a display to the other screen, unless little room is left for it.
        let rows_of_text = (size.1 / 2).saturating_sub(rows_wanted).clamp(TEXT_ROWS_MIN, TEXT_ROWS_MAX);
        // The cursor needs the last row.
        let lines = self.lines(out, size.0, size.1.saturating_sub(1), rows_of_text);
        let rows_of_text = if self.writing.is_empty() { 0 } else { rows_of_text };
        screen::show(lines, rows_wanted + rows_of_text, size);
    }
}

impl View for Live {
    fn record(&mut self, line: &EventLine, _out: &mut Out) {
        if let Some(node) = self.model.record(line)
            && (node.state.is_over() || matches!(node.state, DisplayState::Retrying | DisplayState::Waiting))
        {
            self.writing.end(&node.name);
        }
    }

    fn output(&mut self, row: &OutputRow, _out: &mut Out) {
        // What models write is shown while they write.
        if row.chunk.stream == OutputStream::Model {
            return;
        }
        self.print(output_lines(row, OUTPUT_NAME_MAX));
    }

    fn out_of_credit(&mut self) -> Option<String> {
        let is_asked = self.model.out_of_credit && self.model.deposit.is_none();
        is_asked.then(|| self.model.client.clone())
    }

    fn credits(&mut self, line: Option<&ClientRow>, _out: &mut Out) {
        self.model.deposit = Some(deposit(line.and_then(|line| line.left)));
    }

    fn shows_questions_below(&self) -> bool {
        true
    }

    fn asks_below(&mut self, question: &ApprovalView, _out: &mut Out) {
        let node = question.parent.as_ref().map_or("", |parent| &parent.node);
        self.print([harmless_line(&format!("{node} waits for a person: {}", asked(question)))]);
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
        self.redraw(out);
    }

    fn shows_text(&self) -> bool {
        true
    }

    fn writes(&mut self, row: &TextRow, out: &mut Out) {
        self.writing.take(row);
        if self.pace.changed() {
            self.draw(out);
        }
    }

    fn draws_at(&self) -> Option<Instant> {
        self.pace.due()
    }

    fn draw(&mut self, out: &mut Out) {
        self.pace.drawn();
        self.redraw(out);
    }

    fn status_lines(&mut self, out: &Out) -> Vec<String> {
        let (columns, rows) = out.size();
        self.tree(out, columns, rows.saturating_sub(ROWS_OF_PROMPT))
    }

    fn leave_state(&mut self, out: &Out) {
        // A prompt stands below a tree that is on the screen already.
        if !self.ended && !self.paused && !self.model.nodes().is_empty() {
            let (columns, rows) = out.size();
            // The cursor and the line that follows need the last rows.
            screen::leave(&self.tree(out, columns, rows.saturating_sub(ROWS_OF_PROMPT)));
        }
    }

    fn end(&mut self, _out: &mut Out) {
        if !self.ended {
            self.ended = true;
            screen::close();
        }
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.model.changes)
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
