//! The figures of a run: nodes and cost; rounds, makespan and reliability.

use std::collections::BTreeSet;

use ostler_kernel::id::NodeId;
use ostler_kernel::run::{FailureCategory, ModelUsage, RunOutcome};
use ostler_server::wire::{
    CallBudgetView, CarriedApprovalView, DiagnosisView, ListView, LostCallView, Summary,
};

use crate::cli::output::cells::{fit, harmless_line, width};
use crate::cli::output::labels::{self, short_id};
use crate::cli::output::summary::verdicts::verdict_lines;
use crate::cli::output::summary::{HELD, INTERRUPTED, Page};
use crate::cli::output::terminal::Style;
use crate::cli::output::units::{dollars, elapsed, plural};

const ROUNDS_MAX: usize = 20;

/// Most carried approvals that a report names; `ostler explain` names all.
const CARRIED_MAX: usize = 8;

/// The nodes by state, and what the run has cost; with `verbose`, the schedule and the reliability too.
pub(crate) fn figure_lines(page: &Page<'_>, summary: &Summary, verbose: bool) -> Vec<String> {
    let mut states: Vec<(&str, usize)> = Vec::new();
    let interrupted: BTreeSet<&String> = summary.interrupted.iter().collect();
    for (node, state) in &summary.nodes {
        let state = match state.as_str() {
            _ if interrupted.contains(node) => INTERRUPTED,
            "blocked" if summary.held.contains(node) => HELD,
            state => state,
        };
        match states.iter_mut().find(|(name, _)| *name == state) {
            Some((_, count)) => *count += 1,
            None => states.push((state, 1)),
        }
    }
    let states: Vec<String> =
        states.iter().map(|(state, count)| format!("{count} {}", labels::state(state))).collect();
    let mut lines = vec![fit(&format!("  nodes          {}", states.join(", ")), page.columns)];
    lines.extend(list_lines(page, summary));
    if !summary.absent.is_empty() {
        let text = format!("  absent         {} (ruled out by a guard)", summary.absent.join(", "));
        lines.push(fit(&text, page.columns));
    }
    lines.extend(summary.carried.iter().take(CARRIED_MAX).map(|carried| {
        let CarriedApprovalView { node, by, run } = carried;
        let text = format!("  approved       {node}, by {by} in run {}", short_id(run));
        fit(&harmless_line(&text), page.columns)
    }));
    lines.extend(left_out_line(page, summary));
    lines.extend(undo_lines(page, summary));
    if summary.cost > 0 {
        let budget = summary.budget.map(|budget| format!(" of {budget}")).unwrap_or_default();
        let text = format!("  cost           {}{budget}", plural(summary.cost as usize, "credit"));
        lines.push(fit(&text, page.columns));
    }
    lines.extend(summary.models.as_ref().map(|usage| fit(&model_text(usage), page.columns)));
    lines.extend(
        summary.call_budget.as_ref().map(|budget| fit(&budget_text(budget, &summary.run), page.columns)),
    );
    lines.extend(lost_call_lines(page, summary));
    if verbose {
        lines.extend(verdict_lines(page, summary));
    }
    // A bound of 1 says only that nothing beyond schemas was checked.
    let is_uncertain = summary.reliability.is_some_and(|bounds| bounds.always < 1.0);
    lines.extend(reliability_line(page, summary).filter(|_| !verbose && is_uncertain));
    if let Some(parent) = &summary.parent {
        let text =
            format!("  opened by      step {:?} of {} of run {}", parent.step, parent.node, parent.run);
        lines.push(fit(&text, page.columns));
    }
    if !summary.on.is_empty() {
        let runs: Vec<&str> = summary.on.iter().map(String::as_str).collect();
        lines.push(fit(&format!("  on             {}", runs.join(", ")), page.columns));
    }
    if verbose {
        lines.extend(schedule_lines(page, summary));
    }
    lines
}

/// Warns of results that are shorter than what their programs printed.
fn left_out_line(page: &Page<'_>, summary: &Summary) -> Option<String> {
    let nodes: Vec<String> =
        summary.left_out.iter().map(|(node, left_out)| format!("{node} ({left_out} bytes)")).collect();
    let text = format!("  left out       of what programs printed: {}", nodes.join(", "));
    (!nodes.is_empty()).then(|| page.out.styled(Style::Warning, &fit(&text, page.columns)))
}

/// Most expanded nodes with a line.
const LISTS_MAX: usize = 5;

/// Executed and lost children of each expanded node.
fn list_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let line = |(node, list): (&String, &ListView)| {
        let lost = if list.lost > 0 { format!(", {} failed", list.lost) } else { String::new() };
        fit(&format!("  {node:<14} {}/{}{lost}", list.executed, list.items), page.columns)
    };
    let mut lines: Vec<String> = summary.lists.iter().take(LISTS_MAX).map(line).collect();
    if summary.lists.len() > LISTS_MAX {
        lines.push(format!("  … and {} more lists", summary.lists.len() - LISTS_MAX));
    }
    lines
}

/// Nodes whose settling commands are listed.
const SETTLED_MAX: usize = 3;

/// Progress of the undo, and effects that remain.
fn undo_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let Some(undo) = &summary.undo else { return Vec::new() };
    let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ");
    // A later round tries the undo of a node again.
    let undone = |node: &NodeId| node.as_str().split_once('.').map_or(String::new(), |(_, of)| of.to_owned());
    let is_executed =
        |node: &&NodeId| summary.nodes.get(node.as_str()).is_some_and(|state| state == "executed");
    let asked: BTreeSet<String> = undo.nodes.iter().map(undone).collect();
    let done: BTreeSet<String> = undo.nodes.iter().filter(is_executed).map(undone).collect();
    let done = format!("{} of {}", done.len(), plural(asked.len(), "undo"));
    let mut lines = vec![fit(&format!("  {:<14} {done} executed", undo.state.as_str()), page.columns)];
    if !undo.without.is_empty() {
        let by_hand = "nothing undoes them but a person, by hand";
        lines.push(fit(&format!("  without undo   {}: {by_hand}", names(&undo.without)), page.columns));
    }
    if !undo.unsure.is_empty() {
        let text = format!(
            "  unsure         {}: look at what they did, undo it by hand, then settle it",
            names(&undo.unsure)
        );
        lines.push(fit(&text, page.columns));
    }
    let settle = undo.settle.values().filter(|_| !summary.past);
    for commands in settle.clone().take(SETTLED_MAX) {
        lines.extend(commands.iter().map(|command| format!("    {command}")));
    }
    if settle.clone().count() > SETTLED_MAX {
        lines.push(format!("    … and {} more", settle.count() - SETTLED_MAX));
    }
    lines
}

/// Calls, tokens and price. Calls of an unknown price are counted, because the sum leaves them out.
pub(crate) fn model_text(usage: &ModelUsage) -> String {
    let price = match (usage.nano_usd, usage.unpriced) {
        (_, unpriced) if unpriced == usage.calls => String::new(),
        (nano_usd, 0) => format!(", {}", dollars(nano_usd)),
        (nano_usd, unpriced) => format!(", {} and {unpriced} of unknown price", dollars(nano_usd)),
    };
    let (calls, tokens) = (plural(usage.calls as usize, "call"), plural(usage.tokens() as usize, "token"));
    format!("  models         {calls}, {tokens}{price}")
}

/// What the calls of the run and of its child runs used of the budget, and whose budget it is.
fn budget_text(budget: &CallBudgetView, run: &str) -> String {
    let usd = budget.usd.map(|usd| format!("{} of {} usd", usd.spent, usd.budget));
    let tokens = budget.tokens.map(|tokens| format!("{} of {} tokens", tokens.spent, tokens.budget));
    let spent: Vec<String> = usd.into_iter().chain(tokens).collect();
    let whose = match budget.account == run {
        true => String::new(),
        false => format!(", shared with run {}", short_id(&budget.account)),
    };
    format!("  budget         {}{whose}", spent.join(", "))
}

/// Lost calls with a line.
const LOST_CALLS_MAX: usize = 5;

/// Calls of models that ended with their process, and what they count.
fn lost_call_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let line = |LostCallView { node, model, tokens, usd }: &LostCallView| {
        let price = usd.filter(|usd| usd.0 > 0).map(|usd| format!(", {}", dollars(usd.0)));
        let counts = tokens.map(|tokens| {
            let counted = format!("{}{}", plural(tokens as usize, "token"), price.unwrap_or_default());
            format!("ended with its process, counted in full ({counted})")
        });
        let counts = counts.unwrap_or_else(|| "ended with its process; the provider may bill it".to_owned());
        fit(&format!("  lost call      {node} of model {model}: {counts}"), page.columns)
    };
    let mut lines: Vec<String> = summary.lost_calls.iter().take(LOST_CALLS_MAX).map(line).collect();
    if summary.lost_calls.len() > LOST_CALLS_MAX {
        lines.push(format!("  … and {} more lost calls", summary.lost_calls.len() - LOST_CALLS_MAX));
    }
    lines
}

/// Rounds, makespan and reliability.
fn schedule_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let attempts = format!("  ({})", plural(summary.dispatches as usize, "attempt"));
    let before = "  rounds         ";
    let rounds = rounds_text(&summary.rounds, &attempts, page.columns.saturating_sub(before.len()));
    let mut lines =
        vec![fit(&format!("{before}{rounds}"), page.columns), fit(&makespan_text(summary), page.columns)];
    lines.extend(reliability_line(page, summary));
    lines.extend(
        summary
            .diagnoses
            .iter()
            .map(|(category, came)| format!("  diagnoses      {}", diagnosis_text(*category, came)))
            .map(|line| fit(&line, page.columns)),
    );
    lines
}

/// Diagnoses of a category of failures, and how often the level they proposed mended the failure.
pub(crate) fn diagnosis_text(category: FailureCategory, came: &DiagnosisView) -> String {
    let DiagnosisView { made, tried, mended, brier } = *came;
    let score = brier.map(|brier| format!("; the level mended {mended} of {tried}, Brier score {brier:.2}"));
    format!("{made} of {category}{}", score.unwrap_or_default())
}

/// The reliability of a result. A run without its outputs has none.
fn reliability_line(page: &Page<'_>, summary: &Summary) -> Option<String> {
    let has_result = matches!(summary.outcome, Some(RunOutcome::Succeeded | RunOutcome::Concluded));
    let bounds = summary.reliability.filter(|_| has_result)?;
    let text = format!(
        "  reliability    at least {:.3}; {:.3} if nodes err independently",
        bounds.always, bounds.independent
    );
    Some(fit(&text, page.columns))
}

/// Makespan, critical path and parallelism. Without measurable work, the parallelism is unknown.
fn makespan_text(summary: &Summary) -> String {
    let (path, parallelism) = match (summary.dispatches, summary.critical_path_ms) {
        (0, _) => ("-".to_owned(), "-".to_owned()),
        (_, ..1) => (elapsed(0), "-".to_owned()),
        (_, path) => (elapsed(path), format!("{:.2}", summary.parallelism)),
    };
    let whole = elapsed(summary.makespan_ms);
    format!("  makespan       {whole}  critical path {path}  parallelism {parallelism}")
}

/// Lists as many rounds as fit, then the total if some are missing, and the number of attempts if there is
/// room.
fn rounds_text(rounds: &[u32], attempts: &str, columns: usize) -> String {
    let many = rounds.len();
    let list = |some: usize| {
        if many == 0 {
            return "-".to_owned();
        }
        let mut parts: Vec<String> = rounds[..some].iter().map(ToString::to_string).collect();
        if some < many {
            parts.push(format!("… {many} in all"));
        }
        parts.join(", ")
    };
    let most = many.min(ROUNDS_MAX);
    let fitting =
        |least: usize, columns: usize| (least..=most).rev().map(list).find(|text| width(text) <= columns);
    let beside = columns.checked_sub(width(attempts)).and_then(|columns| fitting(most.min(1), columns));
    match beside {
        Some(text) => text + attempts,
        None => fitting(0, columns).unwrap_or_else(|| fit(&list(most), columns)),
    }
}
