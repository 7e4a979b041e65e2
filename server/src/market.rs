//! Handlers for market jobs, offers of agents and the audit of credits.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{JobRequest as Job, MarketError, OfferRefused};
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::market::{Offer, Stage};
use serde::Deserialize;

use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::operator::AnyCaller;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::submit::absolute_workspace;
use crate::wire::{
    AuditLine, AuditView, CallAuditLine, JobList, JobRequest, JobRow, OfferRequest, OfferView,
};

pub(crate) async fn offer(
    State(api): State<Api>,
    PathParams(agent): PathParams<String>,
    JsonBody(offer): JsonBody<OfferRequest>,
) -> Result<Json<OfferView>, Problem> {
    let id = AgentId::from(agent.as_str());
    let owner = api.system.agent(&id).await.ok_or(OfferRefused::Unknown(id))?.client;
    if let Some(client) = offer.client.as_deref().filter(|client| *client != owner.as_str()) {
        let what = format!("agent {agent} belongs to client {owner}, not to {client}");
        return Err(Problem::new(StatusCode::CONFLICT, "agent_taken", what));
    }
    let OfferRequest { capabilities, domain, price, time_ms, .. } = offer.clone();
    api.system.offer(&agent, Offer { capabilities, domain, price, time_ms }).await?;
    let offer = OfferRequest { client: Some(owner.to_string()), ..offer };
    Ok(Json(OfferView { agent, offer }))
}

pub(crate) async fn post(
    State(api): State<Api>,
    caller: AnyCaller,
    JsonBody(request): JsonBody<JobRequest>,
) -> Result<(StatusCode, Json<JobRow>), Problem> {
    caller.may_intend(request.intent, &api)?;
    let posted = api.system.post(job_request(request, api.system.default_intent())?).await?;
    Ok((StatusCode::CREATED, Json(api.system.job_at(posted, Stage::Job).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobQuery {
    /// Waits until the job has reached the stage or cannot reach it.
    at: Option<Stage>,
}

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<JobQuery>,
) -> Result<Json<JobRow>, Problem> {
    let job = job_id(&name)?;
    Ok(Json(api.system.job_at(job, query.at.unwrap_or(Stage::Job)).await?))
}

pub(crate) async fn resume(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<JobRow>, Problem> {
    let job = job_id(&name)?;
    api.system.resume_job(job).await?;
    Ok(Json(api.system.job_at(job, Stage::Job).await?))
}

pub(crate) async fn list(State(api): State<Api>) -> Result<Json<JobList>, Problem> {
    Ok(Json(JobList { jobs: api.system.jobs()? }))
}

pub(crate) async fn audit(State(api): State<Api>) -> Result<Json<AuditView>, Problem> {
    let lines = api.system.audit()?.into_iter().map(|one| AuditLine {
        client: one.client.to_string(),
        deposited: one.credits.deposited(),
        free: one.credits.balance(),
        reserved: one.credits.reserved(),
        spent: one.credits.spent(),
        violations: one.violations.iter().map(ToString::to_string).collect(),
    });
    let calls = api.system.audit_calls()?.into_iter().map(|one| CallAuditLine {
        client: one.client.to_string(),
        used: one.used.into(),
        for_jobs: one.aside.into(),
        violations: one.violations.iter().map(ToString::to_string).collect(),
    });
    Ok(Json(AuditView { clients: lines.collect(), calls: calls.collect() }))
}

fn job_id(name: &str) -> Result<RunId, Problem> {
    name.parse().map_err(|_| Problem::bad("job_name", format!("{name:?} is no id of a job")))
}

impl From<OfferRefused> for Problem {
    fn from(error: OfferRefused) -> Problem {
        let (status, code) = match &error {
            OfferRefused::Unknown(_) => (StatusCode::NOT_FOUND, "agent_unknown"),
            OfferRefused::Offer(_) => (StatusCode::UNPROCESSABLE_ENTITY, "offer_invalid"),
            OfferRefused::Domain(_) => (StatusCode::UNPROCESSABLE_ENTITY, "domain_unknown"),
            OfferRefused::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            OfferRefused::Journal(error) => return error.clone().into(),
        };
        Problem::new(status, code, error.to_string())
    }
}

impl From<MarketError> for Problem {
    fn from(error: MarketError) -> Problem {
        let detail = error.to_string();
        let (status, code) = match error {
            MarketError::Plan(faults) => return Problem::faults(&faults),
            MarketError::Submit(error) => return error.into(),
            MarketError::Journal(error) => return error.into(),
            MarketError::Job(_) => (StatusCode::UNPROCESSABLE_ENTITY, "job_invalid"),
            MarketError::Domain(_) => (StatusCode::UNPROCESSABLE_ENTITY, "domain_unknown"),
            MarketError::Taken(_) => (StatusCode::CONFLICT, "job_taken"),
            MarketError::Unknown(_) => (StatusCode::NOT_FOUND, "job_unknown"),
            MarketError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, "too_many_jobs"),
            MarketError::Credits(_) => (StatusCode::CONFLICT, "credits_out_of_range"),
            MarketError::Stage(_) => (StatusCode::CONFLICT, "job_elsewhere"),
            MarketError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
        };
        Problem::new(status, code, detail)
    }
}

fn job_request(request: JobRequest, default_intent: u8) -> Result<Job, Problem> {
    let workspace = absolute_workspace(request.workspace)?;
    let id = request.job.as_deref().map(|job| run_lookup::chosen_id(job, "job_name")).transpose()?;
    Ok(Job {
        id,
        client: request.client.as_str().into(),
        title: request.title,
        capabilities: request.capabilities,
        domain: request.domain,
        budget: request.budget,
        deadline: request.deadline_ms,
        oversight: request.oversight,
        plan: request.plan,
        intent: request.intent.unwrap_or(default_intent),
        scope: request.scope,
        workspace,
    })
}
