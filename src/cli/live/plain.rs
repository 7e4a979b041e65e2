//! A run as plain lines.

use ostler_server::wire::EventLine;

use super::View;
use super::board::{Board, Node, State, text};
use crate::cli::cells::{fit, padded, width};
use crate::cli::term::{Out, Paint, clock, count, paint_of, span};
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
}

impl View for Plain {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.from_start |= line.kind == "run_opened";
        if let Some(told) = self.told(line, out) {
            out.line(told);
        }
    }

    fn has_told_nodes(&self) -> bool {
        self.from_start
    }
}

impl Plain {
    /// What is told of a record.
    fn told(&mut self, line: &EventLine, out: &Out) -> Option<String> {
        let time = clock(line.at_ms);
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
                Some(format!("{time} run {} opened: {}, {nodes}", line.run, self.board.plan))
            }
            "run_recovered" => Some(format!("{time} taken up again")),
            "plan_version" => Some(format!("{time} the plan is now version {}", line.body["version"])),
            // Who looks from a later record on has not been told who pays.
            "out_of_credit" => {
                let client = Some(self.board.client.as_str()).filter(|client| !client.is_empty());
                let whose =
                    client.map_or_else(|| "its client".to_owned(), |client| format!("client {client}"));
                Some(match self.board.out_of_credit {
                    true => format!(
                        "{time} the credits of {whose} are used up: nothing more starts until there are more: \
                         ostler credit {} +1000",
                        client.unwrap_or("CLIENT")
                    ),
                    false => format!("{time} {whose} has credits again"),
                })
            }
            "parked" => Some(format!("{time} set aside: {}", text(&line.body, "reason"))),
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
    let took = node.took_ms.filter(|_| node.state != State::Waiting).map(span).unwrap_or_default();
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

/// How a word of state is painted in a table.
pub(crate) fn painted(out: &Out, state: &str, columns: usize) -> String {
    let padded = padded(state, columns);
    match paint_of(state) {
        Paint::Dim => padded,
        paint => out.paint(paint, &padded),
    }
}
