//! `POST /v1/goals`.

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Submission, System};
use ostler_kernel::id::{AgentId, Ticks};
use ostler_kernel::plan::{MODEL_DEFAULT, model_tool};
use ostler_kernel::policy::{Budgets, GOAL_BYTES_MAX, GoalModels, GoalTerms, goal_plan};

use crate::extract::{RawBody, parse_body};
use crate::problem::Problem;
use crate::routes::Api;
use crate::submit::absolute_workspace;
use crate::wire::{GoalRequest, RunRef};
use crate::{agents, run_lookup};

pub(crate) async fn ask(
    State(api): State<Api>,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let request: GoalRequest = parse_body(&bytes)?;
    let run = api.system.submit(submission(&api.system, request).await?).await?;
    Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })))
}

async fn submission(system: &System, request: GoalRequest) -> Result<Submission, Problem> {
    let terms = terms(system, &request)?;
    let draft = goal_plan(&terms);
    let plan = system.judge_plan(draft).await.map_err(|faults| Problem::faults(&faults))?.into();
    let agent = request.agent.as_deref().map(AgentId::from);
    let client = match &agent {
        Some(agent) => agents::client_of(system, agent).await?,
        None => request.client.as_str().into(),
    };
    let run = request.run.as_deref().map(|run| run_lookup::chosen_id(run, "run_id")).transpose()?;
    Ok(Submission {
        plan,
        client,
        agent,
        intent: request.intent,
        scope: request.scope,
        workspace: absolute_workspace(request.workspace)?,
        run,
        budget: request.budget.map(NonZeroU64::get),
        goal: Some(Arc::new(terms)),
    })
}

fn terms(system: &System, request: &GoalRequest) -> Result<GoalTerms, Problem> {
    let goal = request.goal.trim();
    if goal.is_empty() || goal.len() > GOAL_BYTES_MAX {
        let what = format!("a goal has 1 to {GOAL_BYTES_MAX} bytes, this has {}", goal.len());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "goal_unusable", what));
    }
    let model = |named: &Option<String>| -> Result<String, Problem> {
        let model = named.clone().unwrap_or_else(|| MODEL_DEFAULT.to_owned());
        if system.has_tool(&model_tool(&model)) {
            return Ok(model);
        }
        let what = format!("no model {model:?} is configured; add [models.{model}] to ostler.toml");
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "model_unknown", what))
    };
    let (planner, executor) = (model(&request.planner)?, model(&request.executor)?);
    if let Some(unknown) = request.tools.iter().flatten().find(|tool| !system.has_tool(tool)) {
        let what = format!("there is no tool {unknown:?}; `ostler help tools` lists the tools");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "tool_unknown", what));
    }
    let mut budgets = Budgets::of_mode(request.mode);
    budgets.model_calls = request.model_calls.map_or(budgets.model_calls, NonZeroU64::get);
    budgets.tokens = request.tokens.map(NonZeroU64::get);
    budgets.wall = request.wall_ms.map(|ms| Ticks::try_from(ms.get()).unwrap_or(Ticks::MAX));
    Ok(GoalTerms {
        aggregator: request.aggregator,
        budgets,
        models: GoalModels { planner: Some(planner), executor: Some(executor) },
        tools: request.tools.clone(),
        confirm: request.confirm,
        ..GoalTerms::new(goal, request.mode, MODEL_DEFAULT)
    })
}
