//! `POST /v1/goals`.

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Earlier, Submission, System};
use ostler_kernel::id::{AgentId, ClientId, Ticks};
use ostler_kernel::plan::{HumanDuration, MODEL_DEFAULT, TIMEOUT_MS_MAX, model_tool};
use ostler_kernel::policy::{
    Budgets, EARLIER_RUNS_MAX, EarlierRun, GOAL_BYTES_MAX, GoalModels, GoalTerms, OfferedTemplate,
    bounded_earlier, goal_plan,
};

use crate::extract::{RawBody, parse_body};
use crate::operator::AnyCaller;
use crate::problem::Problem;
use crate::routes::Api;
use crate::submit::absolute_workspace;
use crate::wire::amounts::call_terms;
use crate::wire::{GoalRequest, OverBudget, RunRef};
use crate::{agents, run_lookup};

pub(crate) async fn ask(
    State(api): State<Api>,
    caller: AnyCaller,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let request: GoalRequest = parse_body(&bytes)?;
    caller.may_intend(request.intent, &api)?;
    let run = api.system.submit(submission(&api.system, request).await?).await?;
    Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })))
}

async fn submission(system: &System, request: GoalRequest) -> Result<Submission, Problem> {
    let agent = request.agent.as_deref().map(AgentId::from);
    let client = match &agent {
        Some(agent) => agents::client_of(system, agent).await?,
        None => request.client.as_str().into(),
    };
    let on = earlier(system, &request.on, &client).await?;
    let templates = system.templates_for(&request.goal).await;
    let terms = terms(system, &request, on, templates)?;
    let plan =
        system.judge_opening(goal_plan(&terms)).await.map_err(|faults| Problem::faults(&faults))?.into();
    let over_budget = if request.confirm { OverBudget::Ask } else { OverBudget::Fail };
    let calls = call_terms(request.usd, request.tokens, request.over_budget.unwrap_or(over_budget))
        .map_err(|what| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "budget", what))?;
    let run = request.run.as_deref().map(|run| run_lookup::chosen_id(run, "run_id")).transpose()?;
    Ok(Submission {
        plan,
        client,
        agent,
        intent: request.intent.unwrap_or(system.default_intent()),
        scope: request.scope,
        workspace: absolute_workspace(request.workspace)?,
        run,
        budget: request.budget.map(NonZeroU64::get),
        calls,
        reuse: None,
        goal: Some(Arc::new(terms)),
    })
}

/// What the goal is told of the runs that the request names.
async fn earlier(system: &System, on: &[String], client: &ClientId) -> Result<Vec<EarlierRun>, Problem> {
    if on.len() > EARLIER_RUNS_MAX {
        let what = format!("a goal may use at most {EARLIER_RUNS_MAX} earlier runs, not {}", on.len());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "earlier_too_many", what));
    }
    let mut runs: Vec<EarlierRun> = Vec::new();
    for named in on {
        let run = run_lookup::find(system, named)?;
        let Earlier { told, client: owner, status } = system.earlier(run).await?;
        if owner != client.as_str() {
            let what = format!(
                "run {run} is of client {owner}, and the goal of client {client}; name a run of {client}"
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, "earlier_of_other_client", what));
        }
        if !status.is_over() {
            let word = status.as_str();
            let what = format!(
                "run {run} is {word}, so its results are not final; `ostler resume {run}` continues it, `ostler cancel {run}` ends it"
            );
            return Err(Problem::new(StatusCode::CONFLICT, "earlier_unfinished", what));
        }
        if !runs.iter().any(|known| known.run == run) {
            runs.push(told);
        }
    }
    Ok(bounded_earlier(runs))
}

fn terms(
    system: &System,
    request: &GoalRequest,
    on: Vec<EarlierRun>,
    templates: Vec<OfferedTemplate>,
) -> Result<GoalTerms, Problem> {
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
        let what = format!(
            "the process that holds the data folder ({}) knows no model {model:?}: it read its configuration when it started; \
             ask again when it has ended, or start it with that model in ostler.toml",
            std::process::id()
        );
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
    let terms = GoalTerms::new(goal, request.mode, MODEL_DEFAULT).on(on).offering(templates);
    let millis = |ms: NonZeroU64| {
        HumanDuration::Millis(Ticks::try_from(ms.get()).map_or(TIMEOUT_MS_MAX, |ms| ms.min(TIMEOUT_MS_MAX)))
    };
    Ok(GoalTerms {
        aggregator: request.aggregator,
        budgets,
        control_timeout: request.answer_timeout_ms.map_or(terms.control_timeout, millis),
        models: GoalModels { planner: Some(planner), executor: Some(executor) },
        model_file: request.model_file.clone(),
        tools: request.tools.clone(),
        confirm: request.confirm,
        ..terms
    })
}
