//! Steps that a planner or a turn asks for, in a question.

use ostler_server::wire::{ApprovalView, StepView};
use serde_json::Value;

use crate::cli::output::approval::{Detail, value_lines};

/// The steps of a plan, one line each: what they call, with what, after what.
pub(super) fn step_lines(steps: &[StepView], detail: Detail, lines: &mut Vec<String>) {
    for step in steps {
        let id = step.id.as_deref().map(|id| format!("{id}: ")).unwrap_or_default();
        let mut text = format!("{id}{}, impact {}", step.tool, step.impact);
        for (name, value) in step.params.as_object().into_iter().flatten() {
            text += &format!("  {name}: {value}");
        }
        for reference in &step.refs {
            text += &format!("  {reference}");
        }
        if let Some(list) = &step.for_each {
            text += &format!("  for each of {list}");
        }
        if !step.when.is_empty() {
            text += &format!("  if {}", step.when.join(" and "));
        }
        if !step.after.is_empty() {
            text += &format!("  after {}", step.after.join(", "));
        }
        lines.push(format!("    {}", detail.line(&text)));
        if let Some(why) = &step.why {
            lines.push(format!("      {}", detail.line(why)));
        }
    }
}

/// What a planner or a turn says besides its steps: later nodes can use these members as well.
pub(super) fn rest_lines(question: &ApprovalView, result: &Value, detail: Detail, lines: &mut Vec<String>) {
    // Calls of a turn have no ids.
    let shown = if question.steps.iter().any(|step| step.id.is_some()) { "steps" } else { "calls" };
    for (name, value) in result.as_object().into_iter().flatten() {
        if name != shown && !value.is_null() {
            value_lines(name, value, detail, lines);
        }
    }
}
