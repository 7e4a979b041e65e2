//! One mode on one goal, simulated.

use ostler_kernel::policy::{Aggregator, ContextForm};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::goal::{Costs, GoalShape, Strategy};
use crate::graph::BadCase;
use crate::modes::{case::Case, simulate};

/// A mode on a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The mode.
    pub strategy: Strategy,
    /// The goal.
    pub goal: GoalShape,
    /// How earlier results are repeated.
    pub context: ContextForm,
    /// The model that writes the answer.
    pub aggregator: Aggregator,
    /// What calls and results cost.
    pub costs: Costs,
}

/// A call of a model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MeasuredCall {
    /// The node that made it.
    pub node: String,
    /// Tokens of its context.
    pub input_tokens: u64,
}

/// What a run took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Calls of models, in their order.
    pub calls: Vec<MeasuredCall>,
    /// Input tokens of all calls.
    pub input_tokens: u64,
    /// Duration of the run.
    pub makespan_ms: i64,
}

/// A trial that did not end as its script says.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The case that the trial is written as cannot be read.
    #[error(transparent)]
    Case(#[from] BadCase),
    /// The run went another way.
    #[error("{strategy} with {} tools in {} levels: {problem}", goal.tools, goal.levels)]
    Course {
        /// The mode.
        strategy: Strategy,
        /// The goal.
        goal: GoalShape,
        /// Reason that the trial cannot be run.
        problem: String,
    },
}

/// Simulates a trial.
///
/// # Errors
///
/// The run did not succeed, or its answer lacks something.
pub fn measure(trial: &Trial) -> Result<Measured, TrialError> {
    let line = trial.case().to_string();
    let mut case = Case::read(&line).map_err(|wrong| BadCase::new(&line, wrong))?;
    // Models may be slower than cases allow by default.
    case.terms.control_timeout = trial.costs.model_ms.saturating_add(1);
    let (course, ()) = simulate(case, |_| ()).map_err(|wrong| BadCase::new(&line, wrong))?;
    let wrong = |problem| TrialError::Course { strategy: trial.strategy, goal: trial.goal, problem };
    if course["outcome"] != "succeeded" || course["labels"].as_array().is_some_and(|labels| labels.len() > 1)
    {
        return Err(wrong(format!("{} with labels {}", course["outcome"], course["labels"])));
    }
    let calls = course["calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| MeasuredCall {
        node: call["node"].as_str().unwrap_or_default().to_owned(),
        input_tokens: call["input_tokens"].as_u64().unwrap_or_default(),
    });
    Ok(Measured {
        calls: calls.collect(),
        input_tokens: course["tokens"]["input"].as_u64().unwrap_or_default(),
        makespan_ms: course["makespan"].as_i64().unwrap_or_default(),
    })
}

/// Name of the tool that all steps call.
const TOOL: &str = "work";

impl Trial {
    /// Answers of the opening model and its successors, by role: what a script has to say to make this trial. Reflections and
    /// observers always say continue.
    pub fn answers(&self, tool: &str) -> Vec<(&'static str, Vec<Value>)> {
        let call = |count: u32| -> Value {
            let calls: Vec<Value> = (0..count).map(|_| json!({"tool": tool, "params": {}})).collect();
            json!({"text": null, "calls": calls})
        };
        let GoalShape { tools, levels } = self.goal;
        let text = json!({"text": "done", "calls": []});
        let turns = |turns: u32, calls: u32| (0..turns).map(|_| call(calls)).chain([text.clone()]).collect();
        let opening = match self.strategy {
            Strategy::React => ("think", turns(tools, 1)),
            Strategy::ReactBatched => ("think", turns(levels, self.goal.width())),
            Strategy::Auto if tools == 0 => ("think", vec![text]),
            Strategy::Auto => ("think", vec![call(tools)]),
            Strategy::Reflect | Strategy::NReflect(_) | Strategy::Orchestrator | Strategy::Sgh => {
                ("planner", vec![self.plan(tool)])
            }
        };
        vec![
            opening,
            ("reflect", vec![json!({"decision": "continue", "verdict": null, "next": null, "cancel": []})]),
            ("observe", vec![json!({"decision": "continue", "next": null, "cancel": []})]),
            ("answer", vec![json!({"answer": "done", "citations": []})]),
        ]
    }

    /// A planner's answer: steps in levels, each after all of the level before.
    fn plan(&self, tool: &str) -> Value {
        let width = self.goal.width();
        let id = |level: u32, at: u32| format!("s{}", level * width + at + 1);
        let mut steps = Vec::new();
        for level in 0..self.goal.levels {
            let after: Vec<String> = match level.checked_sub(1) {
                Some(before) => (0..width).map(|at| id(before, at)).collect(),
                None => Vec::new(),
            };
            steps.extend((0..width).map(|at| {
                json!({"id": id(level, at), "tool": tool, "params": {}, "refs": [], "after": after, "why": null})
            }));
        }
        let answer = if steps.is_empty() { json!("done") } else { Value::Null };
        json!({"answer": answer, "missing": null, "steps": steps})
    }

    /// Ids of the steps, as planners and as turns name them.
    fn steps(&self) -> impl Iterator<Item = String> {
        let tools = self.goal.tools;
        let turns = (1..=tools).flat_map(move |turn| (1..=tools).map(move |at| format!("call.{turn}.{at}")));
        (1..=tools).map(|at| format!("s{at}")).chain(turns)
    }

    /// The trial as a case of `ostler simulate modes`.
    fn case(&self) -> Value {
        let Costs { base_tokens, result_tokens, digest_tokens, index_tokens, model_ms, tool_ms } = self.costs;
        let limit = u64::from(self.goal.tools) * 8 + 8;
        let mut case = json!({
            "id": self.strategy.to_string(),
            "goal": "done",
            "mode": self.strategy.mode(),
            "aggregator": self.aggregator,
            "context": self.context,
            "base_tokens": base_tokens,
            "digest_tokens": digest_tokens,
            "budgets": {"nodes": limit, "versions": limit, "depth": limit, "model_calls": limit},
            "tools": {TOOL: {"size": result_tokens, "index": index_tokens, "timeout": tool_ms.saturating_add(1)}},
        });
        let script: Map<String, Value> = self.steps().map(|step| (step, json!([{"dur": tool_ms}]))).collect();
        case["script"] = script.into();
        let timed = |answer: &Value| json!({"ok": answer, "dur": model_ms});
        for (role, answers) in self.answers(TOOL) {
            let answers: Vec<Value> = answers.iter().map(timed).collect();
            let repeated = || vec![answers[0].clone(); self.goal.tools as usize + 1];
            let (key, value) = match role {
                "planner" => ("plans", json!(answers)),
                "think" => ("thoughts", json!(answers)),
                "reflect" => ("reflections", json!(repeated())),
                "answer" => ("answers", json!(answers)),
                _ => {
                    let of_steps = self.steps().map(|step| (step, json!(answers)));
                    ("observations", Value::Object(of_steps.collect()))
                }
            };
            case[key] = value;
        }
        case
    }
}
