//! `POST /v1/goals`.

use std::num::NonZeroU64;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Goal, GoalError, ReleaseError, System};
use ostler_kernel::id::{AgentId, Ticks};
use ostler_kernel::plan::{HumanDuration, MODEL_DEFAULT, TIMEOUT_MS_MAX};
use ostler_kernel::policy::{Budgets, EARLIER_RUNS_MAX, GoalModels, GoalTerms};

use crate::extract::{RawBody, parse_body};
use crate::operator::AnyCaller;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::submit::absolute_workspace;
use crate::wire::amounts::call_terms;
use crate::wire::{GoalRequest, OverBudget, RunRef};

pub(crate) async fn ask(
    State(api): State<Api>,
    caller: AnyCaller,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let request: GoalRequest = parse_body(&bytes)?;
    caller.may_intend(request.intent, &api)?;
    let run = api.system.goal(goal(&api.system, request)?).await?;
    Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })))
}

fn goal(system: &System, request: GoalRequest) -> Result<Goal, Problem> {
    // The limit bounds the lookups.
    if request.on.len() > EARLIER_RUNS_MAX {
        return Err(GoalError::TooManyEarlier(request.on.len()).into());
    }
    let on = request.on.iter().map(|named| run_lookup::find(system, named)).collect::<Result<_, _>>()?;
    let over_budget = if request.confirm { OverBudget::Ask } else { OverBudget::Fail };
    let calls = call_terms(request.usd, request.tokens, request.over_budget.unwrap_or(over_budget))
        .map_err(|what| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "budget", what))?;
    let run = request.run.as_deref().map(|run| run_lookup::chosen_id(run, "run_id")).transpose()?;
    Ok(Goal {
        terms: terms(&request),
        on,
        client: request.client.as_str().into(),
        agent: request.agent.as_deref().map(AgentId::from),
        intent: request.intent.unwrap_or(system.default_intent()),
        scope: request.scope,
        workspace: absolute_workspace(request.workspace)?,
        run,
        budget: request.budget.map(NonZeroU64::get),
        calls,
    })
}

fn terms(request: &GoalRequest) -> GoalTerms {
    let mut budgets = Budgets::of_mode(request.mode);
    budgets.model_calls = request.model_calls.map_or(budgets.model_calls, NonZeroU64::get);
    budgets.tokens = request.tokens.map(NonZeroU64::get);
    budgets.wall = request.wall_ms.map(|ms| Ticks::try_from(ms.get()).unwrap_or(Ticks::MAX));
    let terms = GoalTerms::new(request.goal.trim(), request.mode, MODEL_DEFAULT);
    let millis = |ms: NonZeroU64| {
        HumanDuration::Millis(Ticks::try_from(ms.get()).map_or(TIMEOUT_MS_MAX, |ms| ms.min(TIMEOUT_MS_MAX)))
    };
    GoalTerms {
        aggregator: request.aggregator,
        budgets,
        control_timeout: request.answer_timeout_ms.map_or(terms.control_timeout, millis),
        models: GoalModels { planner: request.planner.clone(), executor: request.executor.clone() },
        model_file: request.model_file.clone(),
        tools: request.tools.clone(),
        confirm: request.confirm,
        ..terms
    }
}

impl From<GoalError> for Problem {
    fn from(error: GoalError) -> Problem {
        let what = error.to_string();
        let (status, code) = match error {
            GoalError::Length(_) => (StatusCode::UNPROCESSABLE_ENTITY, "goal_unusable"),
            GoalError::Model(model) => {
                let what = format!(
                    "the process that holds the data folder ({}) knows no model {model:?}: it read its configuration when it \
                     started; ask again when it has ended, or start it with that model in ostler.toml",
                    std::process::id()
                );
                return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "model_unknown", what);
            }
            GoalError::Tool { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "tool_unknown"),
            GoalError::TooManyEarlier(_) => (StatusCode::UNPROCESSABLE_ENTITY, "earlier_too_many"),
            GoalError::OtherClient { .. } => (StatusCode::FORBIDDEN, "earlier_of_other_client"),
            GoalError::Unfinished { .. } => (StatusCode::CONFLICT, "earlier_unfinished"),
            GoalError::Agent(agent) => return ReleaseError::Unknown(agent).into(),
            GoalError::Earlier(error) => return error.into(),
            GoalError::Plan(faults) => return Problem::faults(&faults),
            GoalError::Submit(error) => return error.into(),
        };
        Problem::new(status, code, what)
    }
}
