//! Parameters of sub-agents that only the whole system can judge: their models, their tools, and a plan of their own.

use serde_json::Value;

use super::super::settings::BadParam;
use super::super::{MODEL_DEFAULT, Node, PlanDraft, model_of_tool, model_tool};
use super::Context;

/// Names in the help of a fault.
const NAMES_TOLD_MAX: usize = 12;

/// Faults of the parameters that are known before the run.
pub(super) fn check(node: &Node, context: &Context<'_>) -> Vec<BadParam> {
    let literal = |name: &str| node.params.get(name);
    let is_given = |name: &str| node.params.contains_key(name) || node.param_refs.contains_key(name);
    let mut bad = Vec::new();
    if !is_given("goal") && !is_given("plan") {
        let says = "what the agent is to reach, in your words; or a `plan`";
        bad.push(BadParam::Missing { pointer: String::new(), name: "goal".into(), says: says.into() });
    }
    if is_given("goal") && !node.param_refs.contains_key("model") {
        bad.extend(unknown_model(literal("model").and_then(Value::as_str), context));
    }
    for (at, tool) in literal("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        bad.extend(tool.as_str().and_then(|tool| unknown_tool(at, tool, context)));
    }
    bad.extend(literal("plan").into_iter().flat_map(|plan| faults_of_plan(plan, context)));
    bad
}

fn wrong(pointer: impl Into<String>, what: String, help: String) -> BadParam {
    BadParam::Wrong { pointer: pointer.into(), what, help, line: None }
}

fn unknown_model(named: Option<&str>, context: &Context<'_>) -> Option<BadParam> {
    let model = named.unwrap_or(MODEL_DEFAULT);
    if context.tools.contains(&model_tool(model)) {
        return None;
    }
    let known: Vec<&str> = context.tools.iter().filter_map(|tool| model_of_tool(tool)).collect();
    let help = match known.as_slice() {
        [] => {
            "no model is configured: add [models.default] to ostler.toml; see `ostler help models`".to_owned()
        }
        known => {
            let otherwise = format!("name one of {}", known[..known.len().min(NAMES_TOLD_MAX)].join(", "));
            context.suggestions.help(model, known.iter().copied(), &otherwise)
        }
    };
    Some(wrong("/model", format!("unknown model {model}"), help))
}

fn unknown_tool(at: usize, tool: &str, context: &Context<'_>) -> Option<BadParam> {
    if context.tools.contains(tool) {
        return None;
    }
    let names = || context.tools.iter().filter(|name| model_of_tool(name).is_none()).map(String::as_str);
    let told: Vec<&str> = names().take(NAMES_TOLD_MAX).collect();
    let help = context.suggestions.help(tool, names(), &format!("name tools such as {}", told.join(", ")));
    Some(wrong(format!("/tools/{at}"), format!("unknown tool {tool}"), help))
}

/// The faults of a plan within the plan. Sub-agents of that plan are checked in turn, as deep as JSON nests.
fn faults_of_plan(plan: &Value, context: &Context<'_>) -> Vec<BadParam> {
    let draft = match serde_json::from_value::<PlanDraft>(plan.clone()) {
        Ok(draft) => draft,
        Err(error) => return vec![wrong("/plan", error.to_string(), "write it like a plan file".to_owned())],
    };
    let faults = draft.validate(context.settings).err().unwrap_or_default();
    let told = |fault: super::Diagnostic| {
        let what = format!("{}: {} ({})", fault.node, fault.detail, fault.code);
        wrong(format!("/plan{}", fault.pointer), what, fault.help)
    };
    faults.into_iter().map(told).collect()
}
