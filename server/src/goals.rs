//! `POST /v1/goals`.

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Earlier, Submission, System};
use ostler_kernel::id::{AgentId, ClientId, Ticks};
use ostler_kernel::plan::{HumanDuration, MODEL_DEFAULT, PlanDraft, PolicyDraft, model_tool};
use ostler_kernel::policy::{
    BaseTokens, Budgets, ContextForm, EARLIER_RUNS_MAX, EarlierRun, GOAL_LIMIT, GoalModels, GoalTerms,
    OfferedTemplate, Role, bounded_earlier, earlier_tokens, opening_plan, text_tokens,
};

use crate::extract::{RawBody, parse_body};
use crate::problem::Problem;
use crate::routes::Api;
use crate::submit::absolute_workspace;
use crate::wire::amounts::call_terms;
use crate::wire::{GOAL_BYTES_MAX, GoalRequest, OverBudget, RunRef};
use crate::{agents, run_lookup};

/// Longest digest of a result in a prompt, in tokens.
const DIGEST_TOKENS: u64 = 256;

/// Tokens of instructions and schema in every prompt, as an estimate.
const BASE_TOKENS: u64 = 400;

/// Longest time of an attempt of a control node.
const CONTROL_TIMEOUT: HumanDuration = HumanDuration::Whole(180);

/// Longest wait for a person who approves a plan or a step.
const HUMAN_TIMEOUT: HumanDuration = HumanDuration::Whole(24 * 3_600);

pub(crate) async fn ask(
    State(api): State<Api>,
    RawBody(bytes): RawBody,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let request: GoalRequest = parse_body(&bytes)?;
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
    let limit = Some(GOAL_LIMIT);
    // Results of earlier runs take no room of the goal's own work.
    let results = terms.on.iter().map(|earlier| earlier.results.len() as u32).sum::<u32>();

    let policy = PolicyDraft {
        max_nodes: Some(GOAL_LIMIT + results),
        max_versions: limit,
        max_depth: Some(GOAL_LIMIT + results.min(1)),
        // Recovery ends with the micro-planner; replans are steps of the mode.
        max_replans: Some(0),
        ..PolicyDraft::default()
    };
    let draft = PlanDraft { title: Some(title(&request.goal)), policy: Some(policy), ..opening_plan(&terms) };
    let plan = system.judge_opening(draft).await.map_err(|faults| Problem::faults(&faults))?.into();
    let over_budget = if request.confirm { OverBudget::Ask } else { OverBudget::Fail };
    let calls = call_terms(request.usd, request.tokens, request.over_budget.unwrap_or(over_budget))
        .map_err(|what| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "budget", what))?;
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
        calls,
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
        let what = format!("no model {model:?} is configured; add [models.{model}] to ostler.toml");
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "model_unknown", what))
    };
    let models =
        GoalModels { planner: Some(model(&request.planner)?), executor: Some(model(&request.executor)?) };
    if let Some(unknown) = request.tools.iter().flatten().find(|tool| !system.has_tool(tool)) {
        let what = format!("there is no tool {unknown:?}; `ostler help tools` lists the tools");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "tool_unknown", what));
    }
    let mut budgets = Budgets::of_mode(request.mode);
    budgets.model_calls = request.model_calls.map_or(budgets.model_calls, NonZeroU64::get);
    budgets.tokens = request.tokens.map(NonZeroU64::get);
    budgets.wall = request.wall_ms.map(|ms| Ticks::try_from(ms.get()).unwrap_or(Ticks::MAX));
    let told = text_tokens(goal) + earlier_tokens(&on);
    let other = BASE_TOKENS + told;
    let shown: u64 = templates.iter().map(|template| text_tokens(&template.text)).sum();
    let base = BaseTokens { other, roles: [(Role::Planner, other + shown)].into() };
    Ok(GoalTerms {
        goal: goal.to_owned(),
        mode: request.mode,
        aggregator: request.aggregator,
        context: ContextForm::Bounded,
        digest_tokens: DIGEST_TOKENS,
        budgets,
        base,
        control_timeout: CONTROL_TIMEOUT,
        human_timeout: HUMAN_TIMEOUT,
        opened_at: 0,
        models,
        tools: request.tools.clone(),
        confirm: request.confirm,
        on,
        templates,
    })
}

/// The first line of a goal, for lists.
fn title(goal: &str) -> String {
    const CHARS_MAX: usize = 80;
    let line = goal.trim().lines().next().unwrap_or_default();
    match line.chars().count() {
        0..=CHARS_MAX => line.to_owned(),
        _ => line.chars().take(CHARS_MAX - 1).chain(['…']).collect(),
    }
}
