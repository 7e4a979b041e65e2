//! A run as plain lines.

use ostler_server::wire::{ClientLine, EventLine};

use super::View;
use super::board::{Board, Node, State, text};
use crate::cli::cells::{fit, fit_name, harmless_line, padded, width};
use crate::cli::clients;
use crate::cli::follow::Before;
use crate::cli::summary::ending;
use crate::cli::term::{Out, clock, count, now_ms, paint_of, took};
use crate::cli::words;

/// Columns of a node's name.
const NAME_MAX: usize = 28;

/// Columns of what a failed attempt met.
const FAILURE_MAX: usize = 100;

/// One line for each node that comes to an end, or needs somebody.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    board: Board,
    names: usize,
    from_start: bool,
    credits: Credits,
    /// What each line begins with.
    mark: String,
}

/// What was told of the credits of the client.
#[derive(Debug, Default, PartialEq, Eq)]
enum Credits {
    #[default]
    Fine,
    /// They are used up since then, which is still to be told.
    UsedUp {
        at_ms: i64,
    },
    Told,
}

impl View for Plain {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.from_start |= line.kind == "run_opened";
        if let Some(told) = self.told(line, out) {
            out.line(format!("{}{told}", self.mark));
        }
    }

    fn out_of_credit(&mut self) -> Option<String> {
        matches!(self.credits, Credits::UsedUp { .. }).then(|| self.board.client.clone())
    }

    fn credits(&mut self, line: Option<&ClientLine>, out: &mut Out) {
        if let Credits::UsedUp { at_ms } = std::mem::replace(&mut self.credits, Credits::Told) {
            let told = clients::used_up(&self.board.client, line);
            out.line(format!("{}{} {told}", self.mark, clock(at_ms)));
        }
    }

    fn has_told_nodes(&self) -> bool {
        self.from_start
    }
}

impl Plain {
    /// Of a run that goes on: what it waits for is told at once.
    pub(crate) fn after(before: Before) -> Plain {
        let mut plain = Plain::default();
        (plain.board.client, plain.board.parked) = (before.client, before.parked);
        if before.out_of_credit {
            plain.credits = Credits::UsedUp { at_ms: now_ms() };
        }
        plain
    }

    /// Of a run that is told of among others: each line begins with what tells it from them.
    pub(crate) fn marked(self, run: &str) -> Plain {
        Plain { mark: format!("{} ", ending(run)), ..self }
    }

    /// What is told of a record.
    fn told(&mut self, line: &EventLine, out: &Out) -> Option<String> {
        let (time, was_parked) = (clock(line.at_ms), self.board.parked);
        if let Some(node) = self.board.record(line) {
            self.names = self.names.max(width(&node.name)).min(NAME_MAX);
            return node_told(node, self.names, out).map(|told| format!("{time} {told}"));
        }
        if matches!(line.kind.as_str(), "run_opened" | "plan_version") {
            let names = self.board.nodes().iter().map(|node| width(&node.name));
            self.names = names.max().unwrap_or(0).min(NAME_MAX);
        }
        match line.kind.as_str() {
            "run_opened" => {
                let nodes = count(self.board.nodes().len(), "node");
                let plan = fit_name(&self.board.plan, usize::MAX);
                Some(format!("{time} run {} opened: {plan}, {nodes}", line.run))
            }
            // A process took leave of it.
            "run_recovered" if line.body["count"] == 0 && !was_parked => None,
            "run_recovered" => Some(format!("{time} taken up again")),
            "plan_version" => Some(format!("{time} the plan is now version {}", line.body["version"])),
            "out_of_credit" if self.board.out_of_credit => {
                if self.credits == Credits::Fine {
                    self.credits = Credits::UsedUp { at_ms: line.at_ms };
                }
                None
            }
            "out_of_credit" => {
                self.credits = Credits::Fine;
                Some(format!("{time} client {} has credits again", self.board.client))
            }
            "parked" => Some(format!("{time} set aside: {}", harmless_line(text(&line.body, "reason")))),
            _ => None,
        }
    }
}

/// What a node has come to; nothing, where more is to come by itself.
fn node_told(node: &Node, names: usize, out: &Out) -> Option<String> {
    let (word, state) = match node.state {
        State::Pending | State::Ready | State::Running | State::Blocked | State::Held => return None,
        State::Waiting if node.reason == "in_doubt" => ("in doubt", "waiting_human"),
        State::Waiting => ("waits for a person:", "waiting_human"),
        State::Retrying => ("tried again", "failed_retryable"),
        state => (state.word(), state.word()),
    };
    let took = node.took_ms.filter(|_| node.state != State::Waiting).map(took).unwrap_or_default();
    let again = if node.attempt > 1 { format!("attempt {}", node.attempt) } else { String::new() };
    let detail = match (node.state, &node.failure) {
        (State::Failed | State::Retrying | State::Waiting, Some(failure)) => fit(failure, FAILURE_MAX),
        (State::Executed, _) => String::new(),
        _ => words::reason(&node.reason),
    };
    let parts: Vec<String> = [took, again, detail].into_iter().filter(|part| !part.is_empty()).collect();
    let word = out.paint(paint_of(state), &padded(word, 9));
    let told = format!("{}  {word} {}", padded(&node.name, names), parts.join("  "));
    Some(told.trim_end().to_owned())
}
