//! Verdicts of models on results, by rules of contracts.

use ostler_server::wire::{JudgedResultView, Summary};

use crate::cli::output::cells::fit;
use crate::cli::output::hints;
use crate::cli::output::summary::Page;
use crate::cli::output::units::{dollars, plural};

/// Verdicts with a line in the figures of a run.
const LINES_MAX: usize = 5;

/// A line for each verdict, those that do not hold first.
pub(crate) fn verdict_lines(page: &Page<'_>, summary: &Summary) -> Vec<String> {
    let mut verdicts: Vec<&JudgedResultView> = summary.verdicts.iter().collect();
    verdicts.sort_by_key(|verdict| verdict.holds);
    let line = |verdict: &&JudgedResultView| {
        let JudgedResultView { node, rule, model, precision, holds, call, .. } = verdict;
        let (says, precision) = (word(*holds), precision_text(*precision));
        let price = call.usd.filter(|usd| usd.0 > 0).map(|usd| format!(", {}", dollars(usd.0)));
        let cost = format!("{}{}", plural(call.tokens as usize, "token"), price.unwrap_or_default());
        let text =
            format!("  judged         {node} {says}: contract[{rule}]{precision}, by model {model} ({cost})");
        fit(&text, page.columns)
    };
    let mut lines: Vec<String> = verdicts.iter().take(LINES_MAX).map(line).collect();
    if verdicts.len() > LINES_MAX {
        let all = hints::command("explain", &[&summary.run], "");
        lines.push(format!("  … and {} more verdicts: `{all}`", verdicts.len() - LINES_MAX));
    }
    lines
}

/// A verdict in a line: the reason, the model, and the record of the judging call.
pub(crate) fn verdict_text(verdict: &JudgedResultView) -> String {
    let JudgedResultView { attempt, rule, model, precision, holds, why, call, .. } = verdict;
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let answered = match &call.answered_by {
        Some(name) if name != model => format!("{name}, "),
        _ => String::new(),
    };
    let (says, precision) = (word(*holds), precision_text(*precision));
    let (record, tokens) = (call.record, plural(call.tokens as usize, "token"));
    format!(
        "    contract[{rule}]{precision} {says}, judged by model {model}{why} (attempt {attempt}; call: record {record}, \
         {answered}{tokens})"
    )
}

fn word(holds: bool) -> &'static str {
    if holds { "holds" } else { "does not hold" }
}

/// The precision of a rule behind a comma; empty if unknown.
fn precision_text(precision: Option<f64>) -> String {
    precision.map(|p| format!(", p {p}")).unwrap_or_default()
}
