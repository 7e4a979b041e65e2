//! The tree of a run as lines of a screen: a function of what is known, the size, the colours and the time.

use super::board::{Board, Node, State};
use super::fold;
use crate::cli::advice;
use crate::cli::cells::{fit, fit_name, padded, width};
use crate::cli::clients::deposit;
use crate::cli::summary::{self, ending};
use crate::cli::term::{Paint, count, painted_if, span, took};
use crate::cli::words;

/// Columns of a node's name.
const NAME_MAX: usize = 32;

/// Levels that are shown by indentation.
const INDENT_MAX: usize = 6;

/// Cells of the bar of the whole run.
const BAR: usize = 20;

/// Cells of the bar of a wave.
pub(super) const WAVE_BAR: usize = 8;

/// Columns of a line: more is a long way for the eyes, and wraps when the window is made narrower.
const COLUMNS_MAX: usize = 120;

/// Commands that are told to answer what waits for a person.
const ANSWERS_MAX: usize = 3;

/// What comes before a command.
const ARROW: &str = "→ ";

/// Below so many columns, counts have signs for words.
pub(super) const WORDS: usize = 60;

/// Below so many columns, there are no bars, and signs alone tell the states.
pub(super) const NARROW: usize = 40;

/// What to draw for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) colour: bool,
    pub(crate) now_ms: i64,
    /// Counts up from one drawing to the next; turns what turns.
    pub(crate) beat: usize,
}

/// A line of a screen that takes what fits.
pub(super) struct Line {
    text: String,
    taken: usize,
    gap: usize,
    columns: usize,
    colour: bool,
}

impl Line {
    pub(super) fn new(look: &Look) -> Line {
        let columns = look.columns.min(COLUMNS_MAX);
        Line { text: String::new(), taken: 0, gap: 0, columns, colour: look.colour }
    }

    /// Cells left.
    pub(super) fn room(&self) -> usize {
        self.columns.saturating_sub(self.taken + self.gap)
    }

    /// Spaces, if something follows.
    pub(super) fn space(&mut self, cells: usize) -> &mut Line {
        self.gap += cells;
        self
    }

    /// Text in a colour; what does not fit is cut.
    pub(super) fn put(&mut self, paint: Paint, text: &str) -> &mut Line {
        let cut = fit(text.trim_end(), self.room());
        if cut.is_empty() {
            return self.space(width(text));
        }
        self.text.push_str(&" ".repeat(self.gap));
        self.text.push_str(&painted_if(self.colour, paint, &cut));
        self.taken += self.gap + width(&cut);
        self.gap = width(text).saturating_sub(width(&cut));
        self
    }

    /// Text in a colour, if all of it fits.
    pub(super) fn put_whole(&mut self, paint: Paint, text: &str) -> &mut Line {
        if width(text) <= self.room() {
            self.put(paint, text);
        }
        self
    }

    pub(super) fn end(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// How a state is painted, and its sign.
pub(super) fn signed(state: State, beat: usize) -> (Paint, &'static str) {
    const TURNING: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
    match state {
        State::Pending | State::Ready => (Paint::Dim, "·"),
        State::Blocked => (Paint::Care, "·"),
        State::Held => (Paint::Care, "‖"),
        State::Running => (Paint::Bold, TURNING[beat % TURNING.len()]),
        State::Draining => (Paint::Care, TURNING[beat % TURNING.len()]),
        State::Waiting => (Paint::Care, "?"),
        State::Retrying => (Paint::Care, "↻"),
        State::Executed => (Paint::Good, "✔"),
        State::Failed | State::Cancelled => (Paint::Bad, "✘"),
        State::Skipped => (Paint::Dim, "−"),
    }
}

/// Rows that all of it would take, in so many columns.
pub(crate) fn rows_wanted(board: &Board, columns: usize) -> usize {
    board.nodes().len() + 2 + answers(board, columns).len()
}

/// The tree in no more than `look.rows` lines of no more than `look.columns` cells. The levels of the board
/// must be settled.
pub(crate) fn tree(board: &Board, look: &Look) -> Vec<String> {
    let mut answers = answers(board, look.columns);
    let wanted = board.nodes().len() + 2 + answers.len();
    if look.rows < 10 {
        answers.truncate(usize::from(look.rows > 2));
    }
    let has_head = look.rows >= 8 || look.rows >= wanted;
    let body = look.rows.saturating_sub(1 + usize::from(has_head) + answers.len());
    let mut lines = Vec::new();
    if has_head {
        lines.push(head(board, look));
    }
    if board.nodes().len() <= body {
        unfolded(board, look, &mut lines);
    } else {
        fold::folded(board, look, body, &mut lines);
    }
    for answer in answers {
        lines.push(Line::new(look).put(Paint::Care, ARROW).put(Paint::Bold, &answer).end());
    }
    lines.push(foot(board, look));
    lines
}

/// The commands that answer what waits for a person. One that is cut helps nobody: where there is no room for
/// it, there is the one that tells it.
fn answers(board: &Board, columns: usize) -> Vec<String> {
    let fits = |command: &String| width(ARROW) + width(command) <= columns;
    let waiting = board.nodes().iter().filter(|node| node.state == State::Waiting);
    let all = waiting
        .filter_map(|node| {
            summary::answers(&board.run, &node.name, &node.ask, summary::Seen::AtTerminal).into_iter().next()
        })
        .take(ANSWERS_MAX);
    let all: Vec<String> = all.collect();
    if all.iter().all(fits) {
        return all;
    }
    Some(advice::show(ending(&board.run))).filter(fits).into_iter().collect()
}

fn head(board: &Board, look: &Look) -> String {
    let mut line = Line::new(look);
    line.put(Paint::Bold, &fit_name(&board.plan, look.columns.saturating_sub(8).max(8)));
    if board.version > 1 {
        line.space(2).put_whole(Paint::Dim, &format!("version {}", board.version));
    }
    if board.replanning {
        line.space(2).put_whole(Paint::Care, "a new version is being planned");
    }
    if board.out_of_credit {
        let client = if board.client.is_empty() { "CLIENT" } else { &board.client };
        let deposit = board.deposit.unwrap_or_else(|| deposit(None));
        let what = format!("out of credit: {}", advice::deposit(client, deposit));
        line.space(2).put_whole(Paint::Care, &what);
    }
    if board.parked {
        line.space(2).put_whole(Paint::Care, "set aside");
    }
    line.space(2).put_whole(Paint::Dim, &board.run).end()
}

/// How far the run is: what does not fit is left out, from the end.
fn foot(board: &Board, look: &Look) -> String {
    let mut line = Line::new(look);
    let counts = board.counts();
    let all = board.nodes().len();
    let over = counts.iter().filter(|(state, _)| state.is_over()).map(|(_, count)| count).sum::<usize>();
    if look.columns >= NARROW {
        let cells = BAR.min(look.columns / 4);
        let of = |state| counts.get(&state).copied().unwrap_or(0);
        put_bar(&mut line, cells, of(State::Executed) + of(State::Skipped), over, all);
        line.space(1);
    }
    let in_words = look.columns >= WORDS;
    let nodes = match (in_words, all) {
        (false, _) => "",
        (true, 1) => " node",
        (true, _) => " nodes",
    };
    line.put(Paint::Bold, &format!("{over}/{all}{nodes}"));
    let elapsed = board.opened_ms.map_or(0, |opened| (look.now_ms - opened).max(0));
    line.space(2).put_whole(Paint::Dim, &lasting(elapsed));
    for state in [State::Waiting, State::Failed, State::Running, State::Draining, State::Retrying] {
        let Some(count) = counts.get(&state) else { continue };
        let (paint, sign) = signed(state, look.beat);
        let text = if in_words { format!("{count} {}", state.word()) } else { format!("{sign}{count}") };
        if 2 + width(&text) > line.room() {
            break;
        }
        line.space(2).put(paint, &text);
    }
    line.space(2);
    if board.cost > 0 {
        line.put_whole(Paint::Dim, &count(board.cost as usize, "credit"));
    }
    line.end()
}

/// A bar of so many cells: what went well, what is over but did not, what is to come.
pub(super) fn put_bar(line: &mut Line, cells: usize, well: usize, over: usize, all: usize) {
    let filled = |count: usize| (count * cells).checked_div(all).unwrap_or(0);
    let (well, over) = (filled(well), filled(over));
    for (paint, sign, count) in
        [(Paint::Good, "█", well), (Paint::Bad, "█", over - well), (Paint::Dim, "░", cells - over)]
    {
        if count > 0 {
            line.put(paint, &sign.repeat(count));
        }
    }
}

/// A line for each node, by levels.
fn unfolded(board: &Board, look: &Look, lines: &mut Vec<String>) {
    let mut nodes: Vec<&Node> = board.nodes().iter().collect();
    nodes.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
    let (step, deepest) = if look.columns < NARROW { (1, 3) } else { (2, INDENT_MAX) };
    let indent = |node: &Node| step * node.level.min(deepest);
    let name = name_columns(&nodes, look);
    let deepest = nodes.iter().map(|node| indent(node)).max().unwrap_or(0);
    for node in nodes {
        let mut line = Line::new(look);
        line.space(indent(node));
        put_node(&mut line, node, name + deepest - indent(node), look);
        lines.push(line.end());
    }
}

/// Columns for the names of these nodes.
pub(super) fn name_columns(nodes: &[&Node], look: &Look) -> usize {
    let most = NAME_MAX.min((look.columns / 2).max(8));
    nodes.iter().map(|node| width(&fit_name(&node.name, most))).max().unwrap_or(0)
}

/// What a node has come to, its name in so many columns.
pub(super) fn put_node(line: &mut Line, node: &Node, name: usize, look: &Look) {
    let (paint, sign) = signed(node.state, look.beat);
    line.put(paint, sign).space(1);
    let columns = name.min(line.room());
    line.put(Paint::Plain, &padded(&fit_name(&node.name, columns), columns)).space(2);
    if look.columns >= NARROW {
        let paint = if node.state == State::Running { Paint::Plain } else { paint };
        line.put(paint, &padded(word(node), 9)).space(1);
    }
    line.put(Paint::Plain, &detail(node, look.now_ms));
}

/// The word for what a node has come to.
pub(super) fn word(node: &Node) -> &'static str {
    match (node.state, node.ask.as_str()) {
        (State::Waiting, "in_doubt") => "in doubt",
        (State::Waiting, _) => "waits for a person",
        (State::Retrying, _) if node.until_ms.is_none() => "mending",
        (state, _) => state.word(),
    }
}

/// What else is to be told of a node.
pub(super) fn detail(node: &Node, now_ms: i64) -> String {
    let mut parts = Vec::new();
    match (node.state, node.started_ms, node.took_ms) {
        (State::Running | State::Draining, Some(started), _) => {
            parts.push(lasting((now_ms - started).max(0)))
        }
        (state, _, Some(ms)) if state.is_over() => parts.push(took(ms)),
        _ => {}
    }
    if node.attempt > 1 {
        parts.push(format!("attempt {}", node.attempt));
    }
    if let (State::Running | State::Waiting | State::Retrying, Some(until)) = (node.state, node.until_ms) {
        let left = lasting((until - now_ms).max(0));
        match node.state {
            State::Retrying => parts.push(format!("again in {left}")),
            State::Waiting => parts.push(format!("for {left} more")),
            // It is over, and its turn to say so has not come.
            _ if until <= now_ms => {}
            _ => parts.push(format!("{left} left")),
        }
    }
    match (node.state, &node.failure) {
        (State::Failed | State::Retrying | State::Waiting, Some(failure)) => parts.push(failure.clone()),
        (State::Cancelled | State::Skipped | State::Blocked | State::Failed, _) => {
            parts.push(words::reason(&node.reason));
        }
        _ => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

/// A span of time that goes on: coarse, so that a line changes no more often than it must.
fn lasting(ms: i64) -> String {
    match ms {
        ..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => span(ms),
    }
}
