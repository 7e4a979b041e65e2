//! The failures that other losses of a run come from.

use ostler_kernel::gate::REMEDY;
use ostler_server::wire::{RootCause, Summary};

use crate::cli::output::cells::{fit, fit_name, width, wrapped};
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::Page;
use crate::cli::output::terminal::Style;
use crate::cli::output::{hints, labels};

/// Formats at most `most` root causes in at most `rows` rows, at least one. Rows left over go to the
/// details of the first ones.
pub(crate) fn root_cause_lines(page: &Page<'_>, summary: &Summary, most: usize, rows: usize) -> Vec<String> {
    let many = summary.root_causes.len();
    let most = most.min(rows);
    let shown = if many <= most { many } else { most.saturating_sub(1) };
    let mut spare = rows.saturating_sub(shown + usize::from(shown < many));
    let mut lines = Vec::new();
    for cause in &summary.root_causes[..shown] {
        let of_it = root_cause_line(page, cause, short_id(&summary.run), spare.saturating_add(1));
        spare = spare.saturating_sub(of_it.len() - 1);
        lines.extend(of_it);
    }
    if shown < many {
        lines.push(format!("  … and {} more: {}", many - shown, hints::show(short_id(&summary.run))));
    }
    lines
}

/// Formats a root cause and its fix in at most `rows` rows, at least one.
fn root_cause_line(page: &Page<'_>, cause: &RootCause, run: &str, rows: usize) -> Vec<String> {
    let what = labels::loss(&cause.reason, cause.message.as_deref());
    let (what, fix) = match what.split_once(REMEDY) {
        Some((what, fix)) => (what.to_owned(), Some(format!("if this is intended, {fix}"))),
        None => (what, None),
    };
    let fix = fix.or_else(|| labels::fix(&what).map(str::to_owned));
    let has_output = labels::is_of_program(&what);
    let logs = has_output.then(|| format!("its output: {}", hints::command("logs", &[run, &cause.node], "")));
    let help_page = what.split(": ").find(|word| labels::is_of_gate(word));
    let help_page = help_page.map(|code| format!("`ostler help {code}` explains it"));
    let mut lost = match cause.lost.as_slice() {
        [] => String::new(),
        lost => format!("  (lost with it: {})", lost.join(", ")),
    };
    if width(&lost) > page.columns / 2 {
        lost = format!("  ({} lost with it)", cause.lost.len());
    }
    let state = page.out.styled(Style::Error, &cause.state);
    // A fault of the plan as a whole concerns its outputs.
    let node = if cause.node == "*" { "outputs" } else { &cause.node };
    let node = fit_name(node, page.columns / 2);
    let before = 2 + width(&cause.state) + 1 + width(&node) + 2;
    let below = page.columns.saturating_sub(BELOW.len());
    let room = rows.min(REASON_LINES_MAX);
    let first = page.columns.saturating_sub(before);
    let reason = reason_lines(&what, &lost, first, below, room);
    let left = rows - reason.len();
    let further = further_lines(&what, left);
    let is_whole = further.len() == below_first(&what).count();
    // A mark for further lines is of no use beside the lines themselves.
    let reason = match what.split_once('\n').filter(|_| is_whole) {
        Some((line, _)) => reason_lines(line, &lost, first, below, room),
        None => reason,
    };
    let further = further.into_iter().map(|line| fit(&format!("│ {line}"), below));
    let further: Vec<String> = further.collect();
    let left = left - further.len();
    let mut reason = reason.into_iter();
    let first = format!("  {state} {node}: {}", reason.next().unwrap_or_default());
    let beside = [logs, fix, help_page].into_iter().flatten().take(left).map(|line| fit(&line, below));
    let below = reason.chain(further).chain(beside);
    std::iter::once(first).chain(below.map(|line| format!("{BELOW}{line}"))).collect()
}

/// Wraps the reason and the lost nodes into at most `most` lines: the first has `first` columns, the others
/// `below`.
fn reason_lines(reason: &str, lost: &str, first: usize, below: usize, most: usize) -> Vec<String> {
    if most <= 1 {
        return vec![fit(reason, first.saturating_sub(width(lost))) + lost];
    }
    let has_room = |lines: &[String]| {
        let room = if lines.len() == 1 { first } else { below };
        lines.last().is_some_and(|last| width(last) + width(lost) <= room)
    };
    let mut lines = wrapped(reason, first, below, most);
    if !has_room(&lines) && lines.len() == most {
        lines = wrapped(reason, first, below, most - 1);
    }
    if !has_room(&lines) {
        lines.push(lost.trim_start().to_owned());
    } else if let Some(last) = lines.last_mut() {
        last.push_str(lost);
    }
    lines
}

/// Returns the last lines of a message, without the first. Programs name the cause of a failure at the end of their output.
fn further_lines(message: &str, most: usize) -> Vec<&str> {
    let lines: Vec<&str> = below_first(message).collect();
    lines[lines.len().saturating_sub(most.min(FURTHER_LINES_MAX))..].to_vec()
}

/// Lines of a message below the first, without blank ones.
fn below_first(message: &str) -> impl Iterator<Item = &str> {
    message.lines().skip(1).filter(|line| !line.trim().is_empty())
}

const FURTHER_LINES_MAX: usize = 4;

const BELOW: &str = "    ";

const REASON_LINES_MAX: usize = 5;
