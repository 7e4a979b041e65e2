//! The calls of models that follow a plan which a model wrote, before anybody approves it.

use std::collections::BTreeMap;

use super::answer::{Answer, Step};
use super::{Aggregator, Mode, Role, View, graft, text_tokens};
use crate::id::NodeId;
use crate::json::Json;
use crate::plan::{Kind, model_of_tool};

/// Calls of a model that a plan makes if all goes well: nothing fails, and no answer asks for more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedCalls {
    /// The role; `None` for a step that calls the model itself.
    pub role: Option<Role>,
    /// Name of the model in the configuration.
    pub model: String,
    /// Number of calls.
    pub calls: u64,
    /// Tokens of all prompts, without the results that they show.
    pub input_tokens: u64,
}

/// The calls that the answer `result` of the opening node leads to, in the order of their first; none for an answer without steps.
pub fn forecast(view: View<'_>, author: &NodeId, result: &Json) -> Vec<ExpectedCalls> {
    let answer = view.role(author).and_then(|role| Answer::read(role, result));
    let steps = match answer {
        Some(Answer::Planned(plan)) => plan.steps,
        Some(Answer::Thought(turn)) => turn.steps(author),
        Some(Answer::Reflected(_) | Answer::Observed(_)) | None => return Vec::new(),
    };
    if steps.is_empty() {
        return Vec::new();
    }
    let mut found = of_steps(&steps);
    let terms = &view.goal.terms;
    for (role, calls) in control_calls(view, author, &steps) {
        let Some(model) = terms.model_of(role).filter(|_| calls > 0) else { continue };
        let input_tokens = u64::try_from(view.base_tokens(role)).unwrap_or(0).saturating_mul(calls);
        found.push(ExpectedCalls { role: Some(role), model: model.to_owned(), calls, input_tokens });
    }
    found
}

/// The calls that the steps make themselves.
fn of_steps(steps: &[Step]) -> Vec<ExpectedCalls> {
    let mut by_model: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for step in steps {
        if let Some(model) = model_of_tool(&step.tool) {
            let (calls, tokens) = by_model.entry(model).or_default();
            *calls += 1;
            *tokens += step.params.values().map(|value| text_tokens(&value.to_string())).sum::<u64>();
        }
    }
    let expected = |(model, (calls, input_tokens)): (&str, _)| ExpectedCalls {
        role: None,
        model: model.to_owned(),
        calls,
        input_tokens,
    };
    by_model.into_iter().map(expected).collect()
}

/// The calls of the mode, by role.
fn control_calls(view: View<'_>, author: &NodeId, steps: &[Step]) -> Vec<(Role, u64)> {
    let mode = view.goal.terms.mode;
    let grafted = graft::graft(view, author, steps).add;
    let added = |kind: Kind| grafted.iter().filter(|node| node.kind == Some(kind)).count() as u64;
    // A turn writes the answer itself, and so needs nobody to write it.
    let (turns, answers) = match mode {
        Mode::React => (added(Kind::Model), 0),
        _ => (0, u64::from(view.goal.terms.aggregator != Aggregator::Off)),
    };
    let has_list = steps.iter().any(|step| step.for_each.is_some());
    let reflections = match mode {
        // The children of a list are in no level: one more reflection reads them at the end.
        Mode::Reflect | Mode::Auto => added(Kind::Reflection) + u64::from(has_list),
        Mode::NReflect(results) => (steps.len() as u64).div_ceil(u64::from(results.max(1))),
        // Observers cover nothing: one reflection reads all of it at the end.
        Mode::Orchestrator => 1,
        Mode::React | Mode::Sgh => 0,
    };
    vec![
        (Role::Observe, added(Kind::Observer)),
        (Role::Reflect, reflections),
        (Role::Think, turns),
        (Role::Answer, answers),
    ]
}
