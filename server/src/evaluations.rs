//! Handlers of evaluations.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{AgentEvaluation, EvaluationError, RunEvaluation, VerdictRequest as Verdict, like};
use ostler_kernel::evaluation::{Dimension, Judgement, Regression, Scores};
use ostler_kernel::id::RunId;
use ostler_kernel::port::RunRowStatus;
use serde::Deserialize;

use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::summary::diagnoses_of;
use crate::wire::{
    AgentEvaluationLine, DegradationView, EvaluationList, EvaluationView, JudgementView, ScoresView,
    VerdictRequest, VerdictView,
};
use crate::{agents, run_lookup};

const LIKE_MAX: usize = 10;

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<EvaluationView>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    told(&api, run).await
}

pub(crate) async fn judge(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<VerdictRequest>,
) -> Result<Json<EvaluationView>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let VerdictRequest { quality_pm, adherence_pm, by, note } = request;
    api.system.judge(run, Verdict { quality_pm, adherence_pm, by, note }).await?;
    told(&api, run).await
}

async fn told(api: &Api, run: RunId) -> Result<Json<EvaluationView>, Problem> {
    let RunEvaluation { row, appraised, composite, verdicts } = api.system.evaluation(run).await?;
    let weights = Dimension::ALL.iter().map(|dimension| dimension.to_string()).zip(appraised.weights.pm());
    let outcome = match &row.status {
        RunRowStatus::Closed(outcome) => Some(outcome.to_string()),
        _ => None,
    };
    let verdicts = verdicts.into_iter().map(|(at_ms, verdict)| VerdictView {
        by: verdict.by,
        at_ms,
        quality: verdict.quality,
        adherence: verdict.adherence,
        note: verdict.note,
    });
    Ok(Json(EvaluationView {
        run: run.to_string(),
        client: row.client.to_string(),
        agent: row.agent.to_string(),
        outcome,
        domain: appraised.domain,
        weights: weights.collect(),
        scores: row.evaluated.map(|evaluated| scores(evaluated.scores)),
        composite_micro: composite.map(|composite| composite.micro()),
        target_ms: appraised.target.time_ms,
        target_credits: appraised.target.credits,
        judge: appraised.judgement.map(|Judgement { by, quality, note }| JudgementView { by, quality, note }),
        verdicts: verdicts.collect(),
        acts: row.acts,
        diagnoses: api.system.view(run, None).await.map(|view| diagnoses_of(&view.run)).unwrap_or_default(),
    }))
}

fn scores(Scores { quality, adherence, speed, cost, errors, revisions }: Scores) -> ScoresView {
    ScoresView { quality, adherence, speed, cost, errors, revisions }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Agents with the nearest scores only.
    like: Option<String>,
}

pub(crate) async fn list(
    State(api): State<Api>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<EvaluationList>, Problem> {
    let all = api.system.evaluations()?;
    let Some(agent) = query.like else {
        return Ok(Json(EvaluationList { agents: all.iter().map(|one| line(one, None)).collect() }));
    };
    let Some(near) = like(&all, &agent, api.system.domains(), LIKE_MAX) else {
        agents::client_of(&api.system, &agent.as_str().into()).await?;
        let what = format!("no run of agent {agent} was evaluated: there is nothing to compare others with");
        return Err(Problem::new(StatusCode::CONFLICT, "agent_not_evaluated", what));
    };
    let lines = near.into_iter().filter_map(|near| {
        let one = all.iter().find(|one| one.agent.as_ref() == Some(near.id))?;
        Some(line(one, Some(near.distance_micro)))
    });
    Ok(Json(EvaluationList { agents: lines.collect() }))
}

fn line(one: &AgentEvaluation, distance_micro: Option<u32>) -> AgentEvaluationLine {
    let degradation = one.degradation.map(|Regression { distance_micro, dimension, from_pm, to_pm }| {
        DegradationView { distance_micro, dimension: dimension.to_string(), from_pm, to_pm }
    });
    AgentEvaluationLine {
        client: one.client.to_string(),
        agent: one.agent.as_ref().map(ToString::to_string),
        domain: one.domain.clone(),
        reputation_pm: one.reputation.pm(),
        evaluations: one.reputation.scores(),
        scores: one.scores.map(scores),
        composite_micro: one.composite.map(|composite| composite.micro()),
        runs: one.runs,
        zero_intervention_pm: one.zero_intervention_pm(),
        degradation,
        distance_micro,
    }
}

impl From<EvaluationError> for Problem {
    fn from(error: EvaluationError) -> Problem {
        let (status, code) = match &error {
            EvaluationError::Nothing => (StatusCode::BAD_REQUEST, "verdict_empty"),
            EvaluationError::Score(_) => (StatusCode::UNPROCESSABLE_ENTITY, "score_out_of_range"),
            EvaluationError::NotOver(_) => (StatusCode::CONFLICT, "run_not_over"),
            EvaluationError::NotEvaluated(_) => (StatusCode::CONFLICT, "run_not_evaluated"),
            EvaluationError::Run(error) => return error.clone().into(),
            EvaluationError::Journal(error) => return error.clone().into(),
        };
        Problem::new(status, code, error.to_string())
    }
}
