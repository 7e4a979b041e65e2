//! The records of a run as plain lines.

use ostler_server::wire::{ApprovalView, ClientRow, EventLine, OutputRow};

use crate::cli::output::cells::{fit, fit_name, harmless_line, padded, width};
use crate::cli::output::changes::Changes;
use crate::cli::output::labels::short_id;
use crate::cli::output::live::model::{DisplayState, NodeModel, RunModel, text};
use crate::cli::output::live::{View, asked};
use crate::cli::output::printed::{OUTPUT_NAME_MAX, output_lines};
use crate::cli::output::terminal::{Out, style_of};
use crate::cli::output::units::{clock_time, elapsed, now_ms, plural};
use crate::cli::output::{credits, labels};

const NAME_MAX: usize = 28;

const FAILURE_MAX: usize = 100;

/// Prints a line for each node that ends or waits.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    model: RunModel,
    name_columns: usize,
    has_first_record: bool,
    credits: CreditNotice,
    label: String,
}

/// Progress of the notice about used-up credits.
#[derive(Debug, Default, PartialEq, Eq)]
enum CreditNotice {
    #[default]
    None,
    /// Used up since `at_ms`; the notice waits for the balance.
    Pending {
        at_ms: i64,
    },
    Shown,
}

impl View for Plain {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.has_first_record |= line.kind == "run_opened";
        if let Some(text) = self.record_text(line, out) {
            out.line(format!("{}{text}", self.label));
        }
    }

    fn output(&mut self, row: &OutputRow, out: &mut Out) {
        for line in output_lines(row, out.name_width(OUTPUT_NAME_MAX)) {
            out.line(format!("{}{} {line}", self.label, clock_time(row.chunk.at_ms)));
        }
    }

    fn out_of_credit(&mut self) -> Option<String> {
        matches!(self.credits, CreditNotice::Pending { .. }).then(|| self.model.client.clone())
    }

    fn credits(&mut self, line: Option<&ClientRow>, out: &mut Out) {
        if let CreditNotice::Pending { at_ms } = std::mem::replace(&mut self.credits, CreditNotice::Shown) {
            let text = credits::used_up(&self.model.client, line);
            out.line(format!("{}{} {text}", self.label, clock_time(at_ms)));
        }
    }

    fn shows_questions_below(&self) -> bool {
        true
    }

    fn asks_below(&mut self, question: &ApprovalView, out: &mut Out) {
        let node = question.parent.as_ref().map_or("", |parent| &parent.node);
        let node = padded(&fit_name(node, self.name_columns), self.name_columns);
        let (time, word) =
            (clock_time(now_ms()), out.styled(style_of("waiting_human"), "waits for a person:"));
        out.line(format!("{}{time} {node}  {word} {}", self.label, asked(question)));
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.model.changes)
    }

    fn has_shown_nodes(&self) -> bool {
        self.has_first_record
    }
}

impl Plain {
    /// A view of a run that continues; used-up credits are reported at once.
    pub(crate) fn after(before: PriorState) -> Plain {
        let mut plain = Plain::default();
        (plain.model.client, plain.model.parked) = (before.client, before.suspended);
        if before.out_of_credit {
            plain.credits = CreditNotice::Pending { at_ms: now_ms() };
        }
        plain
    }

    /// A view of one run among several: each line begins with its short id.
    pub(crate) fn labelled(self, run: &str) -> Plain {
        Plain { label: format!("{} ", short_id(run)), ..self }
    }

    fn record_text(&mut self, line: &EventLine, out: &Out) -> Option<String> {
        let (time, was_parked) = (clock_time(line.at_ms), self.model.parked);
        let name_max = out.name_width(NAME_MAX);
        if let Some(node) = self.model.record(line) {
            self.name_columns = self.name_columns.max(width(&node.name)).min(name_max);
            return node_text(node, self.name_columns, out).map(|text| format!("{time} {text}"));
        }
        if matches!(line.kind.as_str(), "run_opened" | "plan_version") {
            let name_columns = self.model.nodes().iter().map(|node| width(&node.name));
            self.name_columns = name_columns.max().unwrap_or(0).min(name_max);
        }
        match line.kind.as_str() {
            "run_opened" => {
                let nodes = plural(self.model.nodes().len(), "node");
                let plan = fit_name(&self.model.plan, usize::MAX);
                Some(format!("{time} run {} opened: {plan}, {nodes}", line.run))
            }
            // An orderly shutdown, not a crash.
            "run_recovered" if line.body["count"] == 0 && !was_parked => None,
            "run_recovered" => Some(format!("{time} resumed")),
            "plan_version" => {
                let cause = text(&line.body, "cause");
                let cause = match cause.split_once(':') {
                    Some(("expand", node)) => format!(": {} is expanded", harmless_line(node)),
                    Some(("undo", _)) => ": effects are undone".to_owned(),
                    _ => String::new(),
                };
                Some(format!("{time} plan version {}{cause}", line.body["version"]))
            }
            "out_of_credit" if self.model.out_of_credit => {
                if self.credits == CreditNotice::None {
                    self.credits = CreditNotice::Pending { at_ms: line.at_ms };
                }
                None
            }
            "out_of_credit" => {
                self.credits = CreditNotice::None;
                Some(format!("{time} client {} has credits again", self.model.client))
            }
            "parked" => Some(format!("{time} suspended: {}", harmless_line(text(&line.body, "reason")))),
            _ => None,
        }
    }
}

/// Text for a node that ended or waits; `None` in other states.
fn node_text(node: &NodeModel, name_columns: usize, out: &Out) -> Option<String> {
    let (word, state) = match node.state {
        DisplayState::Pending
        | DisplayState::Ready
        | DisplayState::Running
        | DisplayState::Blocked
        | DisplayState::Held => return None,
        DisplayState::Waiting if node.reason == "in_doubt" => ("in doubt", "waiting_human"),
        DisplayState::Waiting if node.reason == "wait" => ("waits for an answer", "waiting_human"),
        DisplayState::Waiting => ("waits for a person:", "waiting_human"),
        DisplayState::Retrying => ("retrying", "failed_retryable"),
        DisplayState::Executed if node.is_taken_over => ("kept", "executed"),
        DisplayState::Executed if node.reason == "reused" => ("reused", "executed"),
        DisplayState::Executed if node.reason == "edited" => ("edited", "executed"),
        state => (state.as_str(), state.as_str()),
    };
    let is_timed = node.state != DisplayState::Waiting && !node.is_taken_over;
    let took = node.took_ms.filter(|_| is_timed).map(elapsed).unwrap_or_default();
    let again = if node.attempt > 1 { format!("attempt {}", node.attempt) } else { String::new() };
    let detail = match (node.state, &node.failure) {
        (DisplayState::Failed | DisplayState::Retrying | DisplayState::Waiting, Some(failure)) => {
            fit(failure, FAILURE_MAX)
        }
        (DisplayState::Executed, _) => node.reuse.clone(),
        _ => labels::reason(&node.reason),
    };
    let parts: Vec<String> = [took, again, detail].into_iter().filter(|part| !part.is_empty()).collect();
    let word = out.styled(style_of(state), &padded(word, 9));
    let text =
        format!("{}  {word} {}", padded(&fit_name(&node.name, name_columns), name_columns), parts.join("  "));
    Some(text.trim_end().to_owned())
}

/// State of a run before it is watched.
pub(crate) struct PriorState {
    /// Sequence number of the last record that is not shown.
    pub(crate) seq: u64,
    pub(crate) client: String,
    pub(crate) out_of_credit: bool,
    pub(crate) suspended: bool,
}
