//! The tree of a run as lines: a pure function of the model, the window size and the time.

use crate::cli::output::cells::{fit, fit_name, padded, width};
use crate::cli::output::credits::deposit;
use crate::cli::output::labels::short_id;
use crate::cli::output::lists::ListCounts;
use crate::cli::output::live::model::{DisplayState, NodeModel, RunModel};
use crate::cli::output::live::waves;
use crate::cli::output::terminal::{Style, styled_if};
use crate::cli::output::units::{duration, elapsed, plural};
use crate::cli::output::{hints, labels};

const NAME_MAX: usize = 32;

const INDENT_MAX: usize = 6;

const BAR: usize = 20;

pub(crate) const WAVE_BAR: usize = 8;

/// Maximum width of a line: longer ones are hard to read, and wrap when the window narrows.
const COLUMNS_MAX: usize = 120;

const ANSWERS_MAX: usize = 3;

const ARROW: &str = "→ ";

/// Below this width, counts have symbols instead of words.
pub(crate) const WORDS: usize = 60;

/// Below this width, bars and state words are omitted.
pub(crate) const NARROW: usize = 40;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewport {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) colour: bool,
    pub(crate) now_ms: i64,
    /// Number of the drawing; animates symbols.
    pub(crate) frame: usize,
}

pub(crate) struct LineBuilder {
    text: String,
    taken: usize,
    gap: usize,
    columns: usize,
    colour: bool,
}

impl LineBuilder {
    pub(super) fn new(viewport: &Viewport) -> LineBuilder {
        let columns = viewport.columns.min(COLUMNS_MAX);
        LineBuilder { text: String::new(), taken: 0, gap: 0, columns, colour: viewport.colour }
    }

    pub(super) fn room(&self) -> usize {
        self.columns.saturating_sub(self.taken + self.gap)
    }

    /// Adds spaces before the next text.
    pub(super) fn space(&mut self, cells: usize) -> &mut LineBuilder {
        self.gap += cells;
        self
    }

    pub(super) fn put(&mut self, style: Style, text: &str) -> &mut LineBuilder {
        let cut = fit(text.trim_end(), self.room());
        if cut.is_empty() {
            return self.space(width(text));
        }
        self.text.push_str(&" ".repeat(self.gap));
        self.text.push_str(&styled_if(self.colour, style, &cut));
        self.taken += self.gap + width(&cut);
        self.gap = width(text).saturating_sub(width(&cut));
        self
    }

    pub(super) fn put_if_fits(&mut self, style: Style, text: &str) -> &mut LineBuilder {
        if width(text) <= self.room() {
            self.put(style, text);
        }
        self
    }

    pub(super) fn end(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

pub(crate) fn symbol(state: DisplayState, frame: usize) -> (Style, &'static str) {
    const TURNING: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
    match state {
        DisplayState::Pending | DisplayState::Ready => (Style::Dim, "·"),
        DisplayState::Blocked => (Style::Warning, "·"),
        DisplayState::Held => (Style::Warning, "‖"),
        DisplayState::Running => (Style::Bold, TURNING[frame % TURNING.len()]),
        DisplayState::Draining => (Style::Warning, TURNING[frame % TURNING.len()]),
        DisplayState::Waiting => (Style::Warning, "?"),
        DisplayState::Retrying => (Style::Warning, "↻"),
        DisplayState::Executed => (Style::Success, "✔"),
        DisplayState::Failed | DisplayState::Cancelled => (Style::Error, "✘"),
        DisplayState::Skipped => (Style::Dim, "−"),
    }
}

pub(crate) fn rows_wanted(model: &RunModel, columns: usize) -> usize {
    model.folded().len() + 2 + answer_commands(model, columns).len()
}

/// Draws the tree in the viewport. The model's levels must be up to date.
pub(crate) fn tree(model: &RunModel, viewport: &Viewport) -> Vec<String> {
    let mut answers = answer_commands(model, viewport.columns);
    let shown = model.folded();
    let wanted = shown.len() + 2 + answers.len();
    if viewport.rows < 10 {
        answers.truncate(usize::from(viewport.rows > 2));
    }
    let has_head = viewport.rows >= 8 || viewport.rows >= wanted;
    let body = viewport.rows.saturating_sub(1 + usize::from(has_head) + answers.len());
    let mut lines = Vec::new();
    if has_head {
        lines.push(header_line(model, viewport));
    }
    if shown.len() <= body {
        node_lines(shown, viewport, &mut lines);
    } else {
        waves::wave_lines(model, viewport, body, &mut lines);
    }
    for answer in answers {
        lines.push(LineBuilder::new(viewport).put(Style::Warning, ARROW).put(Style::Bold, &answer).end());
    }
    lines.push(footer_line(model, viewport));
    lines
}

/// Commands that answer waiting nodes. If one does not fit, `ostler show` replaces them: a cut command is
/// useless.
fn answer_commands(model: &RunModel, columns: usize) -> Vec<String> {
    let fits = |command: &String| width(ARROW) + width(command) <= columns;
    let waiting = model.nodes().iter().filter(|node| node.state == DisplayState::Waiting);
    let all = waiting
        .filter_map(|node| {
            hints::answer_commands(&model.run, &node.name, &node.ask, hints::DigestSource::AtTerminal)
                .into_iter()
                .next()
        })
        .take(ANSWERS_MAX);
    let all: Vec<String> = all.collect();
    if all.iter().all(fits) {
        return all;
    }
    Some(hints::show(short_id(&model.run))).filter(fits).into_iter().collect()
}

fn header_line(model: &RunModel, viewport: &Viewport) -> String {
    let mut line = LineBuilder::new(viewport);
    line.put(Style::Bold, &fit_name(&model.plan, viewport.columns.saturating_sub(8).max(8)));
    if model.version > 1 {
        line.space(2).put_if_fits(Style::Dim, &format!("version {}", model.version));
    }
    if model.replanning {
        line.space(2).put_if_fits(Style::Warning, "replanning");
    }
    if model.out_of_credit {
        let client = if model.client.is_empty() { "CLIENT" } else { &model.client };
        let deposit = model.deposit.unwrap_or_else(|| deposit(None));
        let what = format!("out of credit: {}", hints::deposit(client, deposit));
        line.space(2).put_if_fits(Style::Warning, &what);
    }
    if model.parked {
        line.space(2).put_if_fits(Style::Warning, "suspended");
    }
    line.space(2).put_if_fits(Style::Dim, &model.run).end()
}

/// The progress of the run; parts that do not fit are omitted from the end.
fn footer_line(model: &RunModel, viewport: &Viewport) -> String {
    let mut line = LineBuilder::new(viewport);
    let counts = model.counts();
    let all = model.nodes().len();
    let over = counts.iter().filter(|(state, _)| state.is_over()).map(|(_, count)| count).sum::<usize>();
    if viewport.columns >= NARROW {
        let cells = BAR.min(viewport.columns / 4);
        let of = |state| counts.get(&state).copied().unwrap_or(0);
        put_bar(&mut line, cells, of(DisplayState::Executed) + of(DisplayState::Skipped), over, all);
        line.space(1);
    }
    let in_words = viewport.columns >= WORDS;
    let nodes = match (in_words, all) {
        (false, _) => "",
        (true, 1) => " node",
        (true, _) => " nodes",
    };
    line.put(Style::Bold, &format!("{over}/{all}{nodes}"));
    let elapsed = model.opened_ms.map_or(0, |opened| viewport.now_ms.saturating_sub(opened).max(0));
    line.space(2).put_if_fits(Style::Dim, &running_time(elapsed));
    for state in [
        DisplayState::Waiting,
        DisplayState::Failed,
        DisplayState::Running,
        DisplayState::Draining,
        DisplayState::Retrying,
    ] {
        let Some(count) = counts.get(&state) else { continue };
        let (style, sign) = symbol(state, viewport.frame);
        let text = if in_words { format!("{count} {}", state.as_str()) } else { format!("{sign}{count}") };
        if 2 + width(&text) > line.room() {
            break;
        }
        line.space(2).put(style, &text);
    }
    line.space(2);
    if model.cost > 0 {
        line.put_if_fits(Style::Dim, &plural(model.cost as usize, "credit"));
    }
    line.end()
}

/// Adds a bar with the parts succeeded, ended otherwise, and remaining.
pub(crate) fn put_bar(line: &mut LineBuilder, cells: usize, well: usize, over: usize, all: usize) {
    let filled = |count: usize| (count * cells).checked_div(all).unwrap_or(0);
    let (well, over) = (filled(well), filled(over));
    for (style, sign, count) in
        [(Style::Success, "█", well), (Style::Error, "█", over - well), (Style::Dim, "░", cells - over)]
    {
        if count > 0 {
            line.put(style, &sign.repeat(count));
        }
    }
}

fn node_lines(
    mut shown: Vec<(&NodeModel, Option<ListCounts>)>,
    viewport: &Viewport,
    lines: &mut Vec<String>,
) {
    shown.sort_by(|(a, _), (b, _)| (a.level, &a.name).cmp(&(b.level, &b.name)));
    let (step, deepest) = if viewport.columns < NARROW { (1, 3) } else { (2, INDENT_MAX) };
    let indent = |node: &NodeModel| step * node.level.min(deepest);
    let nodes: Vec<&NodeModel> = shown.iter().map(|(node, _)| *node).collect();
    let name = name_columns(&nodes, viewport);
    let deepest = nodes.iter().map(|node| indent(node)).max().unwrap_or(0);
    for (node, list) in shown {
        let mut line = LineBuilder::new(viewport);
        line.space(indent(node));
        put_node(&mut line, node, name + deepest - indent(node), viewport);
        if let Some(counts) = list {
            line.space(2).put(Style::Plain, &counts.to_string());
        }
        lines.push(line.end());
    }
}

pub(crate) fn name_columns(nodes: &[&NodeModel], viewport: &Viewport) -> usize {
    let most = NAME_MAX.min((viewport.columns / 2).max(8));
    nodes.iter().map(|node| width(&fit_name(&node.name, most))).max().unwrap_or(0)
}

pub(crate) fn put_node(line: &mut LineBuilder, node: &NodeModel, name: usize, viewport: &Viewport) {
    let (style, sign) = symbol(node.state, viewport.frame);
    line.put(style, sign).space(1);
    let columns = name.min(line.room());
    line.put(Style::Plain, &padded(&fit_name(&node.name, columns), columns)).space(2);
    if viewport.columns >= NARROW {
        let style = if node.state == DisplayState::Running { Style::Plain } else { style };
        line.put(style, &padded(word(node), 9)).space(1);
    }
    line.put(Style::Plain, &detail(node, viewport.now_ms));
}

pub(super) fn word(node: &NodeModel) -> &'static str {
    match (node.state, node.ask.as_str()) {
        (DisplayState::Waiting, "in_doubt") => "in doubt",
        (DisplayState::Waiting, "wait") => "waits for an answer",
        (DisplayState::Waiting, _) => "waits for a person",
        (DisplayState::Retrying, _) if node.until_ms.is_none() => "mending",
        (state, _) => state.as_str(),
    }
}

pub(super) fn detail(node: &NodeModel, now_ms: i64) -> String {
    let mut parts = Vec::new();
    match (node.state, node.started_ms, node.took_ms) {
        (DisplayState::Running | DisplayState::Draining, Some(started), _) => {
            parts.push(running_time(now_ms.saturating_sub(started).max(0)))
        }
        (state, _, Some(ms)) if state.is_over() => parts.push(elapsed(ms)),
        _ => {}
    }
    if node.attempt > 1 {
        parts.push(format!("attempt {}", node.attempt));
    }
    if let (DisplayState::Running | DisplayState::Waiting | DisplayState::Retrying, Some(until)) =
        (node.state, node.until_ms)
    {
        let left = running_time(until.saturating_sub(now_ms).max(0));
        match node.state {
            DisplayState::Retrying => parts.push(format!("retry in {left}")),
            DisplayState::Waiting => parts.push(format!("{left} left")),
            // The timer expired, but its record has not arrived.
            _ if until <= now_ms => {}
            _ => parts.push(format!("{left} left")),
        }
    }
    match (node.state, &node.failure) {
        (DisplayState::Failed | DisplayState::Retrying | DisplayState::Waiting, Some(failure)) => {
            parts.push(failure.clone())
        }
        (
            DisplayState::Cancelled | DisplayState::Skipped | DisplayState::Blocked | DisplayState::Failed,
            _,
        ) => {
            parts.push(labels::reason(&node.reason));
        }
        _ => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

/// A duration in tenths of a second at most, so that lines change seldom.
fn running_time(ms: i64) -> String {
    match ms {
        ..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => duration(ms),
    }
}
