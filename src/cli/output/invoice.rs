//! The invoice of a repetition, in words.

use ostler_kernel::run::RecomputationCause;
use ostler_server::wire::{Invoice, InvoiceLine};

use crate::cli::output::cells::{harmless_line, padded, width};
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::output::units::{dollars, duration, plural};

/// Most nodes that an invoice prints.
const LINES_MAX: usize = 50;

/// Prints what a repetition would execute at most, and why: a result that comes out equal spares what is below it.
pub(crate) fn print(invoice: &Invoice, json: bool, out: &mut Out) {
    if json {
        out.json(&tagged("invoice", invoice));
        return;
    }
    let lines = &invoice.executes_at_most;
    out.line(format!("executes at most {}", plural(lines.len(), "node")));
    let columns = lines.iter().map(|line| width(&line.node)).max().unwrap_or(0);
    for line in lines.iter().take(LINES_MAX) {
        let why = why(line, invoice.node.as_deref());
        out.line(harmless_line(&format!("  {}  {}", padded(&line.node, columns), why)));
    }
    if lines.len() > LINES_MAX {
        out.line(format!("  … and {} more; --json lists all", lines.len() - LINES_MAX));
    }
    let named = |nodes: &[String]| if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
    out.line(format!("  last cost   {}", cost(invoice)));
    let impact = if invoice.impact > 0 { format!(" (impact {})", invoice.impact) } else { String::new() };
    out.line(harmless_line(&format!("  effects     {}{impact}", named(&invoice.effects))));
    out.line(harmless_line(&format!("  approvals   {}", named(&invoice.approvals))));
    if !invoice.stale_edits.is_empty() {
        let stale = named(&invoice.stale_edits);
        out.line(harmless_line(&format!(
            "  stale       {stale}: edited before, stays; edit it again, or with --stale recompute"
        )));
    }
    if !invoice.asked_edits.is_empty() {
        let asked = named(&invoice.asked_edits);
        out.line(harmless_line(&format!(
            "  stale       {asked}: edited before; stays with --keep-edits, is computed again with --drop-edits"
        )));
    }
    if !invoice.approvals_kept.is_empty() {
        let kept = named(&invoice.approvals_kept);
        out.line(harmless_line(&format!("  kept        approvals of {kept}, if they show the same again")));
    }
    if !invoice.approvals_void.is_empty() {
        out.line(harmless_line(&format!("  void        approvals of {}", named(&invoice.approvals_void))));
    }
}

fn why(line: &InvoiceLine, edited: Option<&str>) -> String {
    match line.cause {
        Some(RecomputationCause::Changed) => "changed in the plan".to_owned(),
        Some(RecomputationCause::New) => "new in the plan".to_owned(),
        Some(RecomputationCause::AskedFor) => "asked for".to_owned(),
        Some(RecomputationCause::Withdrawn) => "its result was withdrawn".to_owned(),
        Some(RecomputationCause::Undone) => "its effect was undone, and is made again".to_owned(),
        Some(RecomputationCause::NoResult) => "has no result yet".to_owned(),
        Some(RecomputationCause::OtherTool) => "its tool or model is another one now".to_owned(),
        Some(RecomputationCause::ContractFailed) => "its result does not satisfy the contract".to_owned(),
        Some(RecomputationCause::Damaged) => "its stored result is damaged or gone".to_owned(),
        Some(RecomputationCause::Expired) => "the recorded read is not fresh any more".to_owned(),
        Some(RecomputationCause::Repeats) => "acts, reads or asks in every run".to_owned(),
        None => match edited.filter(|edited| line.inputs.iter().any(|input| input == edited)) {
            Some(edited) => format!("uses the edited `{edited}`"),
            None => format!("if `{}` comes out changed", line.inputs.join("` or `")),
        },
    }
}

/// What the nodes cost when they were executed last. Another answer of a model costs something else.
fn cost(invoice: &Invoice) -> String {
    let Invoice { credits, tokens, nano_usd, unpriced, unknown, .. } = invoice;
    let time = duration(invoice.expected_ms);
    let mut parts = vec![plural(*credits as usize, "credit"), plural(*tokens as usize, "token"), time];
    match (*nano_usd, *unpriced) {
        (0, _) => {}
        (nano_usd, 0) => parts.push(dollars(nano_usd)),
        (nano_usd, unpriced) => {
            parts.push(format!(
                "{} and {} of unknown price",
                dollars(nano_usd),
                plural(unpriced as usize, "call")
            ));
        }
    }
    if !unknown.is_empty() {
        parts.push(format!("and what is not known: {}", unknown.join(", ")));
    }
    parts.join(", ")
}
