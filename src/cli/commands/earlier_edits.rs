//! Earlier edits whose inputs a repetition may change: whether they stay.

use std::io::{BufRead, Write, stdin};

use clap::Args;
use ostler_server::wire::{EditRequest, ForkRequest, ProblemDetails, RerunRequest, StaleEdit};
use serde::Serialize;

use crate::cli::output::cells::harmless_line;
use crate::cli::output::screen::StatusWriter;
use crate::cli::output::terminal::status_line;
use crate::cli::session::approval_prompt::is_interactive;
use crate::cli::session::signals::Signals;

#[derive(Debug, Args)]
pub(super) struct EarlierEdits {
    /// Keep earlier edits, although what they rest on may change
    #[arg(long, conflicts_with = "drop_edits")]
    keep_edits: bool,
    /// Compute nodes that were edited before again, if what the edit rests on changes
    #[arg(long)]
    drop_edits: bool,
}

impl From<EarlierEdits> for StaleEdit {
    fn from(edits: EarlierEdits) -> StaleEdit {
        match edits {
            EarlierEdits { keep_edits: true, .. } => StaleEdit::Keep,
            EarlierEdits { drop_edits: true, .. } => StaleEdit::Recompute,
            EarlierEdits { keep_edits: false, drop_edits: false } => StaleEdit::Ask,
        }
    }
}

/// A request for a run that continues another one.
pub(super) trait Repetition: Serialize + Sync {
    /// Says what becomes of earlier edits.
    fn decide(&mut self, edits: StaleEdit);
}

impl Repetition for RerunRequest {
    fn decide(&mut self, edits: StaleEdit) {
        self.earlier_edits = edits;
    }
}

impl Repetition for EditRequest {
    fn decide(&mut self, edits: StaleEdit) {
        self.earlier_edits = edits;
    }
}

impl Repetition for ForkRequest {
    /// A fork has the edits of the run that it continues.
    fn decide(&mut self, _: StaleEdit) {}
}

/// Asks the person at the terminal; `None` without a terminal, or if the person wants no run.
pub(super) async fn decide(refused: &ProblemDetails, signals: &mut Signals) -> Option<StaleEdit> {
    if !is_interactive() {
        return None;
    }
    let nodes = harmless_line(&refused.nodes.join(", "));
    status_line(format!("{nodes}: edited before, and what the edit rests on may change"));
    let mut to = StatusWriter;
    let _ =
        write!(to, "  k keeps the edit, r computes the node again if it changes, anything else cancels > ");
    let _ = to.flush();
    let (sender, typed) = tokio::sync::oneshot::channel();
    // A blocking read of a terminal cannot be cancelled; the thread ends with the line or the process.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = stdin().lock().read_line(&mut line);
        let _ = sender.send(read.map(|_| line).unwrap_or_default());
    });
    let line = tokio::select! {
        line = typed => line.unwrap_or_default(),
        _ = signals.next() => String::new(),
    };
    match line.trim() {
        "k" | "keep" => Some(StaleEdit::Keep),
        "r" | "recompute" => Some(StaleEdit::Recompute),
        _ => None,
    }
}
