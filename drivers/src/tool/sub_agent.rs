//! `agent.ask`: a run of its own for a part of the work, by models or by a plan.

use std::num::NonZeroU64;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::{DURATION_RULE, HumanDuration, MODEL_DEFAULT, PlanDraft, SUB_AGENT_TOOL};
use ostler_kernel::policy::{Aggregator, GOAL_BYTES_MAX, GoalTerms, Mode};
use ostler_kernel::port::{
    BoxFuture, CallContext, ChildRunResult, ChildRunSpec, ParamProblem, Tool, ToolResult, ToolSpec,
    WorkspaceUse,
};
use ostler_kernel::run::RunOutcome;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool_spec::{READ, object, params, spec, structural};

/// Opens a run under the attempt and gives its answer. The run has at most the free budget, the scope and the impact of the
/// attempt, ends with it, and is found again after a crash: it belongs to the node, not to the try.
#[derive(Debug)]
pub(super) struct SubAgent {
    spec: ToolSpec,
}

/// Parameters that only a goal has.
const OF_GOALS: [&str; 7] = ["mode", "model", "tools", "calls", "tokens", "wall", "answer"];

/// Id of the step that opens the run.
const STEP: &str = "run";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    goal: Option<String>,
    plan: Option<PlanDraft>,
    #[serde(default = "auto")]
    mode: Mode,
    #[serde(default = "model")]
    model: String,
    tools: Option<Vec<String>>,
    budget: Option<NonZeroU64>,
    calls: Option<NonZeroU64>,
    tokens: Option<NonZeroU64>,
    wall: Option<String>,
    #[serde(default = "executor")]
    answer: Aggregator,
}

fn auto() -> Mode {
    Mode::Auto
}

fn model() -> String {
    MODEL_DEFAULT.to_owned()
}

fn executor() -> Aggregator {
    Aggregator::Executor
}

impl SubAgent {
    pub(super) fn new() -> SubAgent {
        let count = || json!({"type": "integer", "minimum": 1});
        let properties = json!({
            "goal": {"type": "string", "minLength": 1, "maxLength": GOAL_BYTES_MAX},
            "plan": {"type": "object", "additionalProperties": true},
            "mode": {"type": "string"},
            "model": {"type": "string"},
            "tools": {"type": "array", "items": {"type": "string"}},
            "budget": count(),
            "calls": count(),
            "tokens": count(),
            "wall": {"type": "string"},
            "answer": {"enum": ["executor", "planner", "off"]},
        });
        let text = || json!({"type": "string"});
        let names = || json!({"type": "array", "items": {"type": "string"}});
        let result = json!({
            "run": text(), "outcome": text(), "answer": text(), "citations": names(), "labels": names(),
            "outputs": {"type": "object"},
        });
        SubAgent {
            spec: spec(
                SUB_AGENT_TOOL,
                "Let another agent reach a goal, or run a plan, in a run of its own within the rights and the budget of this one.",
                object(&[], properties),
                json!({"type": "object", "required": ["run", "outcome"], "properties": result}),
            ),
        }
    }
}

/// The run that the parameters describe.
fn child(params: Params) -> Result<ChildRunSpec, Failure> {
    let Params { goal, plan, mode, model, tools, budget, calls, tokens, wall, answer } = params;
    let spec = match (goal, plan) {
        (None, Some(plan)) => ChildRunSpec::plan(plan),
        (Some(goal), None) => {
            let mut terms = GoalTerms { tools, aggregator: answer, ..GoalTerms::new(&goal, mode, &model) };
            terms.budgets.model_calls = calls.map_or(terms.budgets.model_calls, NonZeroU64::get);
            terms.budgets.tokens = tokens.map(NonZeroU64::get);
            terms.budgets.wall = wall.as_deref().and_then(wall_ms);
            ChildRunSpec::goal(terms)
        }
        (None, None) | (Some(_), Some(_)) => return Err(structural(format!("parameters: {ONE_OF}"))),
    };
    Ok(ChildRunSpec { budget: budget.map(NonZeroU64::get), ..spec })
}

const ONE_OF: &str = "give either `goal` or `plan`";

/// A duration above 0, in milliseconds.
fn wall_ms(text: &str) -> Option<i64> {
    HumanDuration::with_unit(text).map(|span| span.ticks(1_000)).filter(|ms| *ms > 0)
}

/// The result of the node: what the run answered, or the results of its outputs.
fn result(ended: ChildRunResult, is_goal: bool) -> ToolResult {
    let ChildRunResult { run, outcome, mut outputs, labels } = ended;
    if !matches!(outcome, RunOutcome::Succeeded | RunOutcome::Concluded) {
        return Err(structural(format!(
            "the run of the agent, {run}, is {outcome}: see `ostler show {run}`"
        )));
    }
    let mut result = Map::from_iter([("run".to_owned(), json!(run)), ("outcome".to_owned(), json!(outcome))]);
    if is_goal {
        let answer = outputs.get_mut("answer").and_then(Value::as_object_mut).map(std::mem::take);
        let mut answer = answer.unwrap_or_default();
        for part in ["answer", "citations"] {
            result.insert(part.to_owned(), answer.remove(part).unwrap_or_default());
        }
        result.insert("labels".to_owned(), json!(labels));
    } else {
        result.insert("outputs".to_owned(), Value::Object(outputs));
    }
    Ok(Value::Object(result))
}

impl Tool for SubAgent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// The run may do as much as its node says it may: a node raises the impact. A lost result is found again.
    fn class(&self, _params: &Map<String, Value>) -> CallClass {
        READ
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<ParamProblem> {
        let wrong = |name: &str, what: String, help: &str| ParamProblem {
            name: name.to_owned(),
            what,
            help: help.to_owned(),
            line: None,
        };
        let text = |name: &str| params.get(name).and_then(Value::as_str);
        let mut wrongs = Vec::new();
        if params.contains_key("goal") && params.contains_key("plan") {
            wrongs.push(wrong("plan", "stands beside a goal".to_owned(), ONE_OF));
        } else if params.contains_key("plan") {
            let of_goal = OF_GOALS.iter().filter(|name| params.contains_key(**name));
            wrongs.extend(
                of_goal.map(|name| {
                    wrong(name, "belongs to a goal, and a plan is given".to_owned(), "remove it")
                }),
            );
        }
        if let Some(Err(error)) = text("mode").map(str::parse::<Mode>) {
            wrongs.push(wrong("mode", error.to_string(), "see docs/guide/modes.md"));
        }
        if text("wall").is_some_and(|wall| wall_ms(wall).is_none()) {
            let help = format!("give {DURATION_RULE}, above 0");
            wrongs.push(wrong("wall", "no duration".to_owned(), &help));
        }
        wrongs
    }

    /// The run may have read texts of strangers.
    fn reads_strangers(&self) -> bool {
        true
    }

    /// The run works in the same workspace.
    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::BOTH
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(async move {
            let child = child(params(permit)?)?;
            let is_goal = child.goal.is_some();
            let ended = context.attempt.spawn(STEP, child).await;
            let ended = ended.map_err(|error| Failure::new(error.category(), error.to_string()))?;
            result(ended, is_goal)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_faults_before_any_run() {
        let named = |params: Value| {
            let tool = SubAgent::new();
            let wrongs = tool.check(params.as_object().expect("an object"));
            wrongs.into_iter().map(|wrong| wrong.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named(json!({"goal": "g", "mode": "nreflect:2", "wall": "10m"})), "");
        assert_eq!(named(json!({"goal": "g", "mode": "fast", "wall": "0s"})), "mode wall");
        assert_eq!(named(json!({"goal": "g", "plan": {}})), "plan");
        assert_eq!(named(json!({"plan": {}, "model": "m", "tools": []})), "model tools");
    }

    #[test]
    fn a_run_without_a_good_end_fails_the_node_for_good() {
        let ended = |outcome| ChildRunResult {
            run: Default::default(),
            outcome,
            outputs: Map::from_iter([("answer".to_owned(), json!({"answer": "42", "citations": ["a"]}))]),
            labels: Vec::new(),
        };
        let good = result(ended(RunOutcome::Succeeded), true).expect("it has an answer");
        assert_eq!((&good["answer"], &good["citations"]), (&json!("42"), &json!(["a"])));
        let failure = result(ended(RunOutcome::Cancelled), true).expect_err("it was cancelled");
        assert!(failure.message.contains("is cancelled: see `ostler show"), "{}", failure.message);
    }
}
