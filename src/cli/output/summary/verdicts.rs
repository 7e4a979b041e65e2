//! Verdicts of models on results, by rules of contracts.

use ostler_server::wire::{JudgedResultView, Summary};
use serde_json::Value;

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

/// A verdict of the records in a line: what was said, by which model, and the record of the judging call.
pub(crate) fn verdict_text(verdict: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (model, why, call) = (text(&verdict["model"]), text(&verdict["why"]), &verdict["call"]);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let answered = match call["answered_by"].as_str() {
        Some(name) if name != model => format!("{name}, "),
        _ => String::new(),
    };
    let tokens = ["input_tokens", "output_tokens"].map(|count| call[count].as_u64().unwrap_or(0));
    let tokens = plural(tokens[0].saturating_add(tokens[1]) as usize, "token");
    let (rule, attempt, record) = (&verdict["rule"], &verdict["attempt"], &call["record"]);
    let (says, precision) = (word(verdict["holds"] == true), precision_text(verdict["precision"].as_f64()));
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
