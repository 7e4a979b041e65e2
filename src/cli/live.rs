//! A run as it goes: plain lines for a pipe, a tree that is drawn again and again for a screen.

use std::collections::BTreeMap;
use std::time::Duration;

use ostler_server::wire::EventLine;
use serde_json::Value;

use super::signals::SHOW_CURSOR;
use super::term::{Out, Paint, clock, now_ms, paint_of, short, span};

/// How often the tree is drawn.
pub(crate) const REDRAW: Duration = Duration::from_millis(100);

/// Columns of a node's name.
const NAME_MAX: usize = 28;

/// Levels that are shown by indentation.
const INDENT_MAX: usize = 6;

/// What shows the records of a run.
pub(crate) trait View {
    /// A record came.
    fn record(&mut self, line: &EventLine, out: &mut Out);

    /// Whether time changes what is shown.
    fn moves(&self) -> bool {
        false
    }

    /// Time has passed.
    fn tick(&mut self, _out: &mut Out) {}

    /// Makes room on the screen for something else, until the next tick.
    fn pause(&mut self, _out: &mut Out) {}

    /// Nothing more comes.
    fn end(&mut self, _out: &mut Out) {}

    /// Whether what became of the nodes stands on the screen for good.
    fn has_told_nodes(&self) -> bool;
}

/// What is known of a node from the records so far.
#[derive(Debug, Clone, Default)]
struct Node {
    level: usize,
    state: String,
    since_ms: i64,
    started_ms: Option<i64>,
    took_ms: Option<i64>,
    attempt: u64,
    failure: Option<String>,
    reason: String,
}

/// The nodes of a run, as its records tell them.
#[derive(Debug, Default)]
struct Board {
    nodes: BTreeMap<String, Node>,
    opened_ms: Option<i64>,
    width: usize,
}

fn text<'a>(body: &'a Value, key: &str) -> &'a str {
    body[key].as_str().unwrap_or_default()
}

impl Board {
    /// Takes a record in; gives the node that moved.
    fn record(&mut self, line: &EventLine) -> Option<String> {
        let body = &line.body;
        match line.kind.as_str() {
            "run_opened" => {
                self.opened_ms = Some(line.at_ms);
                self.plan(&body["plan"], line.at_ms);
                None
            }
            "plan_version" => {
                // The new nodes come as they move.
                None
            }
            "attempt_result" => {
                let node = self.node(text(body, "node"));
                node.failure = body["outcome"]["failed"]["message"].as_str().map(str::to_owned);
                None
            }
            "node_transition" => {
                let name = text(body, "node").to_owned();
                let node = self.node(&name);
                text(body, "to").clone_into(&mut node.state);
                text(body, "reason").clone_into(&mut node.reason);
                node.since_ms = line.at_ms;
                node.attempt = body["attempt"].as_u64().unwrap_or(0);
                if node.state == "running" {
                    node.started_ms = Some(line.at_ms);
                } else if let Some(started) = node.started_ms.take() {
                    node.took_ms = Some(line.at_ms - started);
                }
                Some(name)
            }
            _ => None,
        }
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.width = self.width.max(name.chars().count()).min(NAME_MAX);
        self.nodes.entry(name.to_owned()).or_default()
    }

    fn plan(&mut self, plan: &Value, at_ms: i64) {
        let empty = Vec::new();
        let nodes = plan["nodes"].as_array().unwrap_or(&empty);
        let mut sources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            let deps = node["deps"].as_array().unwrap_or(&empty);
            sources.insert(text(node, "id"), deps.iter().map(|dep| text(dep, "n")).collect());
        }
        let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
        // A valid plan has no cycle, so every pass settles at least one more level.
        for _ in 0..sources.len() {
            let before = levels.len();
            for (node, deps) in &sources {
                if !levels.contains_key(node) && deps.iter().all(|dep| levels.contains_key(dep)) {
                    let level = deps.iter().map(|dep| levels[dep] + 1).max().unwrap_or(0);
                    levels.insert(node, level);
                }
            }
            if levels.len() == before {
                break;
            }
        }
        for (name, level) in levels {
            let node = self.node(name);
            (node.level, node.since_ms) = (level, at_ms);
            "pending".clone_into(&mut node.state);
        }
    }

    /// What a node has come to, in words.
    fn words(&self, node: &Node) -> (String, String) {
        let state = match node.state.as_str() {
            "waiting_human" if node.reason == "in_doubt" => "in doubt".to_owned(),
            "waiting_human" => "waits for a person".to_owned(),
            "failed_retryable" => "tried again".to_owned(),
            state => state.to_owned(),
        };
        let took = node.took_ms.map(span).unwrap_or_default();
        let detail = match (node.state.as_str(), &node.failure) {
            ("failed" | "failed_retryable" | "waiting_human", Some(failure)) => short(failure, 100),
            ("executed" | "running" | "pending" | "ready", _) => String::new(),
            _ => node.reason.clone(),
        };
        let again = if node.attempt > 1 { format!("attempt {}", node.attempt) } else { String::new() };
        let parts = [took, again, detail];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (state, parts.join("  "))
    }
}

/// One line for each node that comes to an end, or needs somebody.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    board: Board,
    from_start: bool,
}

impl View for Plain {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.from_start |= line.kind == "run_opened";
        let moved = self.board.record(line);
        let time = clock(line.at_ms);
        match line.kind.as_str() {
            "run_opened" => {
                let plan = text(&line.body["plan"], "id");
                let nodes = self.board.nodes.len();
                out.line(format!("{time} run {} opened: {plan}, {nodes} nodes", line.run));
            }
            "run_recovered" => out.line(format!("{time} taken up again")),
            "plan_version" => out.line(format!("{time} the plan is now version {}", line.body["version"])),
            "plan_refused" => out.line(format!("{time} {}", text(&line.body, "step"))),
            "parked" => out.line(format!("{time} set aside: {}", text(&line.body, "reason"))),
            _ => {}
        }
        let Some(name) = moved else { return };
        let node = &self.board.nodes[&name];
        if matches!(node.state.as_str(), "pending" | "ready" | "running" | "blocked") {
            return;
        }
        let (state, detail) = self.board.words(node);
        let width = self.board.width;
        let padded = format!("{state:<9}");
        let state = out.paint(paint_of(&node.state), &padded);
        out.line(format!("{time} {name:<width$}  {state} {detail}").trim_end());
    }

    fn has_told_nodes(&self) -> bool {
        self.from_start
    }
}

/// A tree that is drawn in place.
pub(crate) struct Live {
    board: Board,
    drawn: usize,
    frame: usize,
    over: bool,
    /// Something else stands on the screen.
    paused: bool,
}

/// Hides the cursor.
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";

impl Live {
    pub(crate) fn new(out: &mut Out) -> Live {
        out.raw(HIDE_CURSOR);
        Live { board: Board::default(), drawn: 0, frame: 0, over: false, paused: false }
    }

    fn erase(&mut self, out: &mut Out) {
        if self.drawn > 0 {
            out.raw(format!("\u{1b}[{}A\r\u{1b}[J", self.drawn).as_bytes());
            self.drawn = 0;
        }
    }

    fn draw(&mut self, out: &mut Out) {
        let (columns, rows) = out.size();
        let lines = self.lines(out, columns, rows.saturating_sub(2).max(2));
        let mut frame = String::new();
        if self.drawn > 0 {
            frame.push_str(&format!("\u{1b}[{}A\r", self.drawn));
        }
        for line in &lines {
            frame.push_str(line);
            frame.push_str("\u{1b}[K\n");
        }
        frame.push_str("\u{1b}[J");
        out.raw(frame.as_bytes());
        self.drawn = lines.len();
    }

    fn lines(&self, out: &Out, columns: usize, rows: usize) -> Vec<String> {
        let mut nodes: Vec<(&String, &Node)> = self.board.nodes.iter().collect();
        nodes.sort_by(|a, b| (a.1.level, a.0).cmp(&(b.1.level, b.0)));
        let over =
            |node: &Node| matches!(node.state.as_str(), "executed" | "failed" | "cancelled" | "skipped");
        let done = nodes.iter().filter(|(_, node)| over(node)).count();
        let all = nodes.len();
        if all + 1 > rows {
            // What goes on counts most, then what needs somebody, then what ended last.
            let rank = |node: &Node| match node.state.as_str() {
                "running" => 0,
                "waiting_human" | "failed_retryable" => 1,
                "failed" => 2,
                "ready" => 3,
                _ => 4,
            };
            nodes.sort_by_key(|(_, node)| (rank(node), -node.since_ms));
            nodes.truncate(rows - 1);
            nodes.sort_by(|a, b| (a.1.level, a.0).cmp(&(b.1.level, b.0)));
        }
        let mut lines: Vec<String> =
            nodes.iter().map(|(name, node)| self.line(out, name, node, columns)).collect();
        let elapsed = self.board.opened_ms.map_or(0, |opened| (now_ms() - opened).max(0));
        let bar = bar(done, all, 20);
        lines.push(short(&format!("{bar} {done}/{all} nodes  {}", span(elapsed)), columns));
        lines
    }

    fn line(&self, out: &Out, name: &str, node: &Node, columns: usize) -> String {
        const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
        let sign = match node.state.as_str() {
            "running" => SPINNER[self.frame % SPINNER.len()],
            "executed" => "✔",
            "failed" | "cancelled" => "✘",
            "skipped" => "−",
            "waiting_human" => "?",
            "failed_retryable" => "↻",
            _ => "·",
        };
        let indent = "  ".repeat(node.level.min(INDENT_MAX));
        let (state, mut detail) = self.board.words(node);
        if let (Some(started), "running") = (node.started_ms, node.state.as_str()) {
            detail = span((now_ms() - started).max(0));
        }
        let pad = (2 * INDENT_MAX + self.board.width).saturating_sub(indent.len());
        let plain = short(&format!("{indent}{sign} {name:<pad$} {state:<9} {detail}"), columns);
        let plain = plain.trim_end();
        match plain.split_once(sign) {
            Some((before, after)) => format!("{before}{}{after}", out.paint(paint_of(&node.state), sign)),
            None => plain.to_owned(),
        }
    }
}

fn bar(done: usize, all: usize, width: usize) -> String {
    let full = (done * width).checked_div(all).unwrap_or(0);
    format!("[{}{}]", "█".repeat(full), "░".repeat(width - full))
}

impl View for Live {
    fn record(&mut self, line: &EventLine, _out: &mut Out) {
        self.board.record(line);
    }

    fn moves(&self) -> bool {
        !self.over
    }

    fn pause(&mut self, out: &mut Out) {
        self.erase(out);
        out.raw(SHOW_CURSOR.as_bytes());
        self.paused = true;
    }

    fn tick(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.paused) {
            out.raw(HIDE_CURSOR);
        }
        self.frame += 1;
        self.draw(out);
    }

    fn end(&mut self, out: &mut Out) {
        if !self.over {
            self.over = true;
            self.erase(out);
            out.raw(SHOW_CURSOR.as_bytes());
        }
    }

    fn has_told_nodes(&self) -> bool {
        false
    }
}

/// How a word of state is painted in a table.
pub(crate) fn painted(out: &Out, state: &str, width: usize) -> String {
    let padded = format!("{state:<width$}");
    match paint_of(state) {
        Paint::Dim => padded,
        paint => out.paint(paint, &padded),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(seq: u64, kind: &str, body: Value) -> EventLine {
        let (kind_of_line, run, kind) = ("event".to_owned(), "r".to_owned(), kind.to_owned());
        EventLine { kind_of_line, seq, at_ms: seq as i64 * 10, run, kind, body }
    }

    fn board() -> Board {
        let mut board = Board::default();
        let plan = json!({"id": "p", "nodes": [
            {"id": "a", "deps": []}, {"id": "b", "deps": [{"n": "a"}]}, {"id": "c", "deps": [{"n": "b"}, {"n": "a"}]}]});
        board.record(&line(1, "run_opened", json!({"plan": plan})));
        board
    }

    #[test]
    fn levels_are_the_longest_paths() {
        let levels: Vec<usize> = board().nodes.values().map(|node| node.level).collect();
        assert_eq!(levels, [0, 1, 2]);
    }

    #[test]
    fn a_node_tells_how_long_it_took_and_why_it_failed() {
        let mut board = board();
        let moved = |to: &str, reason: &str| json!({"node": "a", "to": to, "reason": reason, "attempt": 2});
        board.record(&line(2, "node_transition", moved("running", "attempt:2")));
        board.record(&line(
            5,
            "attempt_result",
            json!({"node": "a", "outcome": {"failed": {"message": "no such file"}}}),
        ));
        assert_eq!(
            board.record(&line(5, "node_transition", moved("failed", "structural"))),
            Some("a".into())
        );
        assert_eq!(
            board.words(&board.nodes["a"]),
            ("failed".to_owned(), "30 ms  attempt 2  no such file".to_owned())
        );
    }

    #[test]
    fn a_tree_that_does_not_fit_shows_what_goes_on() {
        let mut live = Live { board: Board::default(), drawn: 0, frame: 0, over: false, paused: false };
        let nodes: Vec<Value> = (0..100).map(|at| json!({"id": format!("n{at:02}"), "deps": []})).collect();
        live.board.record(&line(1, "run_opened", json!({"plan": {"id": "p", "nodes": nodes}})));
        let moved = json!({"node": "n77", "to": "running", "reason": "attempt:1", "attempt": 1});
        live.board.record(&line(2, "node_transition", moved));
        let lines = live.lines(&Out::new(), 40, 10);
        assert_eq!(lines.len(), 10);
        assert!(lines.iter().any(|line| line.contains("n77") && line.contains("running")), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    }
}
