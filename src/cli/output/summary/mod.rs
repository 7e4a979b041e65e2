//! The report about a run, on one page.

pub(crate) mod figures;
pub(crate) mod outputs;
pub(crate) mod root_causes;
#[cfg(test)]
mod tests;
pub(crate) mod verdicts;
pub(crate) mod waiting;

use std::collections::BTreeMap;

use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientRow, GraphNode, GraphView, Summary};

use crate::cli::output::cells::{fit, fit_name, padded, visible, width};
use crate::cli::output::labels::short_id;
use crate::cli::output::lists::{self, CHILDREN_SHOWN_MAX, ListCounts};
use crate::cli::output::summary::figures::figure_lines;
use crate::cli::output::summary::outputs::{Output, content, output_lines};
use crate::cli::output::summary::root_causes::root_cause_lines;
use crate::cli::output::summary::waiting::waiting_lines;
use crate::cli::output::terminal::{Out, Style, style_of};
use crate::cli::output::units::{date, elapsed, plural};
use crate::cli::output::{hints, labels};

const COLUMNS_ELSE: usize = 160;

/// Rows of a page: a terminal of 24 rows less the prompt, and the maximum.
const ROWS_MIN: usize = 23;

const ROWS_MAX: usize = 40;

const NAME_MAX: usize = 28;

const PLAN_MIN: usize = 12;

const ROOT_CAUSES_MAX: usize = 8;

/// Label of a node with an attempt interrupted by the end of its process; resuming repeats the attempt.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Label of a node that an interjection holds.
pub(crate) const HELD: &str = "held";

pub(crate) struct Page<'a> {
    out: &'a Out,
    columns: usize,
    rows: usize,
    /// A terminal, where a long name is cut; in a pipe, its reader needs the whole.
    cuts_names: bool,
}

impl<'a> Page<'a> {
    /// The size of the terminal, or a default in a pipe.
    pub(crate) fn of(out: &'a Out) -> Page<'a> {
        if out.is_terminal() {
            let (columns, rows) = out.size();
            let rows = (rows.max(1) - 1).clamp(ROWS_MIN, ROWS_MAX);
            Page { out, columns: columns.max(PLAN_MIN), rows, cuts_names: true }
        } else {
            Page { out, columns: COLUMNS_ELSE, rows: ROWS_MAX, cuts_names: false }
        }
    }

    /// Rows of a line: commands are wrapped, not cut.
    fn rows_of(&self, line: &str) -> usize {
        visible(line).div_ceil(self.columns).max(1)
    }
}

/// Lays out the report in the rows of the page. Each part gets at most half of the rows that are left.
pub(crate) fn layout(
    page: &Page<'_>,
    summary: &Summary,
    short: Option<&ClientRow>,
    graph: Option<&GraphView>,
    outputs: &[Output],
    verbose: bool,
) -> Vec<String> {
    let head = header_lines(page, summary);
    let figures = figure_lines(page, summary, verbose);
    let mut left = page.rows.saturating_sub(head.len() + figures.len());
    let take = |lines: Vec<String>, left: &mut usize| {
        *left = left.saturating_sub(lines.iter().map(|line| page.rows_of(line)).sum());
        lines
    };
    let waiting = take(waiting_lines(page, summary, short, left / 2), &mut left);
    let culprits = take(root_cause_lines(page, summary, ROOT_CAUSES_MAX, left / 2), &mut left);
    let (mut output_rows, rest) = output_lines(page, summary, outputs, left / 2);
    left = left.saturating_sub(rest);
    let nodes = match graph {
        Some(graph) if folded(graph).len() <= left => node_lines(page, graph),
        Some(graph) => {
            let nodes = plural(graph.nodes.len(), "node");
            vec![format!("  {nodes}: {} lists them", hints::show(short_id(&summary.run)))]
        }
        None => Vec::new(),
    };
    left = left.saturating_sub(nodes.len());
    let outputs = output_rows.iter_mut().flat_map(|(line, output)| {
        let content = output.map_or_else(Vec::new, |output| content(page, output, left));
        left -= content.len();
        std::iter::once(std::mem::take(line)).chain(content)
    });
    let outputs: Vec<String> = outputs.collect();
    [head, culprits, waiting, nodes, figures, outputs].concat()
}

/// Parts of a report that are shown on request only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportParts {
    /// The states of all nodes, unless they were shown before.
    pub(crate) nodes: bool,
    /// Rounds, parallelism, critical path, reliability.
    pub(crate) verbose: bool,
}

/// The outcome: failed nodes are named although the outputs hold.
fn outcome(summary: &Summary) -> String {
    let word = summary.status.as_str();
    match (summary.status, summary.failed()) {
        (RunStatus::Succeeded | RunStatus::Concluded, failed @ 1..) => {
            format!("{word}, {} failed", plural(failed, "node"))
        }
        _ => word.to_owned(),
    }
}

pub(crate) fn header_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let outcome = outcome(summary);
    let word = outcome.as_str();
    let version = if summary.version > 1 { format!(", version {}", summary.version) } else { String::new() };
    let took = elapsed(summary.makespan_ms);
    let rest = width(word) + width(&version) + width(&summary.run) + width(&took) + 6;
    let plan = fit_name(&summary.plan, page.columns.saturating_sub(rest).max(PLAN_MIN));
    let mut when = format!("{}, ", date(summary.opened_ms));
    if rest + width(&plan) + width(&when) > page.columns {
        when = String::new();
    }
    let style = if word == summary.status.as_str() { style_of(word) } else { Style::Warning };
    let (state, plan) = (page.out.styled(style, word), page.out.styled(Style::Bold, &plan));
    let mut lines = vec![format!("{state}  {plan}{version}  {}  {when}{took}", summary.run)];
    if let Some(reason) = &summary.reason {
        lines.push(fit(&format!("  {word}: {reason}"), page.columns));
        if !summary.past && summary.status != RunStatus::Quarantined {
            lines.push(format!("  {} resumes it", hints::resume(&summary.run)));
        }
    }
    lines
}

/// Cells of a node's line beside its name and its detail.
const BESIDE_NAME: usize = 2 + 2 + 9 + 1 + 9;

const NAME_MIN: usize = 8;

pub(crate) fn node_lines(page: &Page<'_>, graph: &GraphView) -> Vec<String> {
    let shown = folded(graph);
    let longest = shown.iter().map(|(node, _)| width(&node.id)).max().unwrap_or(0);
    let most = page.columns.saturating_sub(BESIDE_NAME).clamp(NAME_MIN, NAME_MAX);
    let names = if page.cuts_names { longest.min(most) } else { longest };
    shown.into_iter().map(|(node, list)| node_line(page, node, list, names)).collect()
}

/// The nodes without the children of lists, but for some that failed or go on. A list has the counts of its children.
fn folded(graph: &GraphView) -> Vec<(&GraphNode, Option<ListCounts>)> {
    let lists = graph.nodes.iter().filter(|node| node.kind == "collector");
    let mut lists: BTreeMap<&str, (ListCounts, usize)> =
        lists.map(|node| (node.id.as_str(), Default::default())).collect();
    let mut shown = Vec::new();
    for node in &graph.nodes {
        if let Some((counts, children)) = lists::parent(&node.id).and_then(|list| lists.get_mut(list)) {
            let (is_executed, is_failed) = (node.state == "executed", node.state == "failed");
            counts.add(is_executed, is_failed);
            let goes_on = matches!(node.state.as_str(), "running" | "waiting_human" | "failed_retryable");
            if !(is_failed || goes_on || node.interrupted) || *children == CHILDREN_SHOWN_MAX {
                continue;
            }
            *children += 1;
        }
        shown.push(node);
    }
    let counts = |node: &GraphNode| lists.get(node.id.as_str()).map(|(counts, _)| *counts);
    shown.into_iter().map(|node| (node, counts(node))).collect()
}

fn node_line(page: &Page<'_>, node: &GraphNode, list: Option<ListCounts>, names: usize) -> String {
    let took = node.busy_ms.map(elapsed).unwrap_or_default();
    let word = match (node.state.as_str(), node.reuse.as_deref()) {
        _ if node.interrupted => INTERRUPTED,
        ("executed", Some(reuse)) => labels::origin(reuse),
        ("blocked", _) if node.reason.as_deref() == Some("hold") => HELD,
        (state, _) => labels::state(state),
    };
    let detail = match (node.state.as_str(), &node.failure, &node.reason) {
        _ if node.interrupted => "its process ended; repeated when the run resumes".to_owned(),
        ("executed", ..) if node.attempts > 1 => format!("attempt {}", node.attempts),
        ("executed" | "pending" | "ready" | "running", ..) => String::new(),
        ("failed" | "waiting_human" | "failed_retryable", Some(failure), reason) => {
            labels::loss(reason.as_deref().unwrap_or_default(), Some(failure))
        }
        (_, _, reason) => reason.as_deref().map(labels::reason).unwrap_or_default(),
    };
    let detail = match list {
        Some(counts) => [counts.to_string(), detail].join("  ").trim_end().to_owned(),
        None => detail,
    };
    let paint = if node.interrupted { Style::Warning } else { style_of(&node.state) };
    let state = page.out.styled(paint, &padded(word, 9));
    let name = padded(&fit_name(&node.id, names), names);
    let before = 2 + width(&name) + 2 + width(word).max(9) + 1 + width(&took).max(9) + 2;
    let detail = fit(&detail, page.columns.saturating_sub(before));
    format!("  {name}  {state} {took:>9}  {detail}").trim_end().to_owned()
}
