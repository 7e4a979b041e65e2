//! The market, what agents offer there, and whether credits add up.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{JobRequest as Job, JobRow, MarketError, OfferRefused};
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::market::{Offer, Stage, score};
use serde::Deserialize;

use crate::run_lookup;
use crate::extract::{JsonBody, PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::submit::absolute_workspace;
use crate::wire::{
    AuditLine, AuditView, JobLine, JobList, JobRequest, OfferRequest, OfferView, ProposalLine,
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
    JsonBody(request): JsonBody<JobRequest>,
) -> Result<(StatusCode, Json<JobLine>), Problem> {
    let posted = api.system.post(job_request(request)?).await?;
    Ok((StatusCode::CREATED, Json(line(api.system.job_at(posted, Stage::Job).await?))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobQuery {
    /// Answer once the job is there or beyond, or once nothing takes it on any more.
    at: Option<Stage>,
}

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<JobQuery>,
) -> Result<Json<JobLine>, Problem> {
    let job = id(&name)?;
    Ok(Json(line(api.system.job_at(job, query.at.unwrap_or(Stage::Job)).await?)))
}

pub(crate) async fn resume(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<JobLine>, Problem> {
    let job = id(&name)?;
    api.system.resume_job(job).await?;
    Ok(Json(line(api.system.job_at(job, Stage::Job).await?)))
}

pub(crate) async fn list(State(api): State<Api>) -> Result<Json<JobList>, Problem> {
    Ok(Json(JobList { jobs: api.system.jobs()?.into_iter().map(line).collect() }))
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
    Ok(Json(AuditView { clients: lines.collect() }))
}

fn id(name: &str) -> Result<RunId, Problem> {
    name.parse().map_err(|_| Problem::bad("job_name", format!("{name:?} is no id of a job")))
}

fn line(row: JobRow) -> JobLine {
    let budget = row.budget;
    let proposals = row.proposals.into_iter().map(|proposal| ProposalLine {
        score: score(&proposal, budget),
        agent: proposal.agent.to_string(),
        price: proposal.price,
        time_ms: proposal.time_ms,
        reputation_pm: proposal.reputation_pm,
    });
    JobLine {
        job: row.job.to_string(),
        client: row.client.to_string(),
        title: row.title,
        stage: row.stage.as_str().to_owned(),
        proposals: proposals.collect(),
        winner: row.winner.map(|winner| winner.to_string()),
        price: row.price,
        budget,
        deadline_ms: row.deadline,
        oversight: row.oversight,
        spent: row.spent,
        outcome: row.outcome,
        composite_pm: row.composite_pm,
        reason: row.reason,
        posted_ms: row.posted_ms,
        since_ms: row.since_ms,
    }
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
        let told = error.to_string();
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
        Problem::new(status, code, told)
    }
}

/// The job of a request, as the system takes it.
fn job_request(request: JobRequest) -> Result<Job, Problem> {
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
        intent: request.intent,
        scope: request.scope,
        workspace,
    })
}
