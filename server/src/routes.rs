//! Which path asks what of the system.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use ostler_actors::{ReadResult, ResolveHow, RunView, Submission, System, new_run_id};
use ostler_kernel::id::{AgentId, Digest, RunId, Ticks};
use ostler_kernel::json;
use ostler_kernel::lineage;
use ostler_kernel::port::{RunRow, RunStanding, Seq};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::events::{self, Until};
use crate::keys::{self, Keys};
use crate::lines;
use crate::problem::Problem;
use crate::socket::Leaving;
use crate::summary::Stands;
use crate::wire::{
    DamagedResult, GraphView, Health, How, InterjectRequest, Interjected, ResolveRequest, ResultsRead,
    RunList, RunNamed, SubmitRequest, Summary,
};
use crate::{agents, approvals, clients, evaluations, graph, market, names, pipelines, summary};

/// Bytes of a request's body.
pub const BODY_BYTES_MAX: usize = 5 << 20;

/// Arrays and objects within each other in a request's body.
pub const BODY_DEPTH_MAX: usize = 64;

/// Runs on one page of the table of runs.
pub const RUNS_LISTED_MAX: usize = 1_000;

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) system: System,
    keys: Arc<Mutex<Keys>>,
}

impl Api {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The API over `system`. Costs nothing until it is asked.
pub fn router(system: System) -> Router {
    let api = Api { system, keys: Arc::default() };
    Router::new()
        .route("/v1/runs", get(runs).post(submit))
        .route("/v1/runs/{run}", get(run))
        .route("/v1/runs/{run}/events", get(run_events))
        .route("/v1/runs/{run}/graph", get(run_graph))
        .route("/v1/runs/{run}/results", get(results))
        .route("/v1/runs/{run}/evaluation", get(evaluations::one).post(evaluations::judge))
        .route("/v1/runs/{run}/cancel", post(cancel))
        .route("/v1/runs/{run}/interject", post(interject))
        .route("/v1/runs/{run}/resolve", post(resolve))
        .route("/v1/runs/{run}/checkpoint", post(checkpoint))
        .route("/v1/runs/{run}/resume", post(resume))
        .route("/v1/runs/{run}/nodes/{node}/artifact", get(artifact))
        .route("/v1/runs/{run}/nodes/{node}/cancel", post(cancel_node))
        .route("/v1/runs/{run}/nodes/{node}/skip", post(skip_node))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::one).post(approvals::answer))
        .route("/v1/agents", get(agents::list).post(agents::spawn))
        .route("/v1/agents/{agent}/release", post(agents::release))
        .route("/v1/agents/{agent}/offer", post(market::offer))
        .route("/v1/evaluations", get(evaluations::list))
        .route("/v1/market", get(market::list).post(market::post))
        .route("/v1/market/{job}", get(market::one))
        .route("/v1/market/{job}/resume", post(market::resume))
        .route("/v1/audit", get(market::audit))
        .route("/v1/tree", get(agents::tree))
        .route("/v1/clients", get(clients::list))
        .route("/v1/clients/{client}", get(clients::one).post(clients::change))
        .route("/v1/queue", get(clients::queue))
        .route("/v1/pipelines", get(pipelines::list).post(pipelines::create))
        .route("/v1/pipelines/{pipeline}", get(pipelines::one))
        .route("/v1/pipelines/{pipeline}/events", get(pipelines::events).post(pipelines::publish))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/events", get(pipelines::heard))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/ack", post(pipelines::ack))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/catch-up", post(pipelines::catch_up))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/release", post(pipelines::release))
        .route("/v1/pipelines/{pipeline}/stages/{stage}/end", post(pipelines::end))
        .route("/healthz", get(health))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_this_way)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(api)
}

async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "path_unknown", "there is nothing at this path")
}

async fn not_this_way() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_unknown", "this path does not take this method")
}

/// The parameters of a query, refused as a problem.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(asked)| Asked(asked)).map_err(|error| Problem::bad("query", error.body_text()))
    }
}

/// What a path names, refused as a problem.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let named = Path::<T>::from_request_parts(parts, state).await;
        named.map(|Path(named)| Named(named)).map_err(|error| Problem::bad("path", error.body_text()))
    }
}

/// How long the body of a request may take to come.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// The body of a request, whole: whoever sends none of it does not keep a connection from others.
pub(crate) struct Received(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Received {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let received = tokio::time::timeout(BODY_WAIT, Bytes::from_request(request, state)).await;
        let late = || {
            let what = format!("the body of the request did not come within {} s", BODY_WAIT.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "body_late", what)
        };
        whole(received.map_err(|_| late())?).map(Received)
    }
}

/// The body of a request, as strict JSON of the wanted form; refused as a problem.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Received(bytes) = Received::from_request(request, state).await?;
        body(&bytes).map(Sent)
    }
}

fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| Problem::bad("body", error.to_string()))?;
    let value = json::parse_value(text).map_err(|error| Problem::bad("body", error.to_string()))?;
    if json::depth(&value) > BODY_DEPTH_MAX {
        return Err(Problem::bad("body", format!("the body is nested more than {BODY_DEPTH_MAX} deep")));
    }
    serde_json::from_value(value).map_err(|error| Problem::bad("body", error.to_string()))
}

fn whole(bytes: Result<Bytes, BytesRejection>) -> Result<Bytes, Problem> {
    bytes.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("the body has more than {BODY_BYTES_MAX} bytes"),
        ),
        status => Problem::new(status, "body", error.body_text()),
    })
}

async fn submit(
    State(api): State<Api>,
    headers: HeaderMap,
    Received(bytes): Received,
) -> Result<Response, Problem> {
    let key = headers.get("idempotency-key").map(|key| {
        let text =
            key.to_str().map_err(|_| Problem::bad("idempotency_key", "an idempotency key is ASCII"))?;
        Ok::<_, Problem>(text.to_owned())
    });
    let key = key.transpose()?.map(|key| (key, lineage::hash("aos/request/1", &[&bytes])));
    let run = match key {
        None => api.system.submit(asked(&api.system, &bytes).await?).await?,
        Some((key, digest)) => submit_once(&api, &key, digest, &bytes).await?,
    };
    Ok((StatusCode::CREATED, Json(RunNamed { run: run.to_string() })).into_response())
}

/// Opens the run of a key, unless that is done: then nothing of the request is looked at again, whatever has changed since. As long as
/// it is not, another body may be what was meant, and opens the same run. One request of a key waits for the one before it.
async fn submit_once(api: &Api, key: &str, digest: Digest, bytes: &Bytes) -> Result<RunId, Problem> {
    let bound = api.keys().bind(key, digest, new_run_id())?;
    let mut bound = bound.lock().await;
    let (seen, run) = *bound;
    if api.system.has_opened(run).await? {
        return if seen == digest { Ok(run) } else { Err(keys::reused()) };
    }
    let mut submission = asked(&api.system, bytes).await?;
    // A run that the body names is the key's only when it is there by these terms.
    if submission.run.is_none() {
        *bound = (digest, run);
        submission.run = Some(run);
    }
    let run = api.system.submit(submission).await?;
    *bound = (digest, run);
    Ok(run)
}

/// What the body of a request wants opened.
async fn asked(system: &System, bytes: &Bytes) -> Result<Submission, Problem> {
    let SubmitRequest { plan, client, agent, intent, scope, workspace, budget, run } = body(bytes)?;
    let workspace = std::path::PathBuf::from(workspace);
    if !workspace.is_absolute() {
        let what = format!("the workspace {} is not an absolute path", workspace.display());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "workspace_unusable", what));
    }
    let plan = system.judge_plan(plan).await.map_err(|faults| Problem::faults(&faults))?;
    let agent = agent.as_deref().map(AgentId::from);
    let client = match &agent {
        Some(agent) => agents::client_of(system, agent).await?,
        None => client.as_str().into(),
    };
    let run = run.as_deref().map(|run| names::chosen(run, "run_id")).transpose()?;
    let budget = budget.map(NonZeroU64::get);
    Ok(Submission { plan: plan.into(), client, agent, intent, scope, workspace, run, budget })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunsAsked {
    #[serde(default)]
    open: bool,
    /// Only runs that were set aside.
    #[serde(default)]
    set_aside: bool,
    after: Option<String>,
    limit: Option<usize>,
}

async fn runs(State(api): State<Api>, Asked(asked): Asked<RunsAsked>) -> Result<Json<RunList>, Problem> {
    let limit = asked.limit.unwrap_or(RUNS_LISTED_MAX).clamp(1, RUNS_LISTED_MAX);
    let after = asked.after.map(|cursor| {
        let (opened, run) = cursor.split_once('.')?;
        Some((opened.parse::<Ticks>().ok()?, run.parse::<RunId>().ok()?))
    });
    if after == Some(None) {
        return Err(Problem::bad("cursor", "`after` is no cursor of this list"));
    }
    let place = |row: &RunRow| (row.opened_ms, row.run);
    let mut rows = api.system.runs(asked.open)?;
    rows.retain(|row| !asked.set_aside || matches!(row.standing, RunStanding::Parked(_)));
    rows.sort_by_key(|row| std::cmp::Reverse(place(row)));
    rows.retain(|row| after.flatten().is_none_or(|after| place(row) < after));
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| format!("{}.{}", row.opened_ms, row.run));
    let mut runs = Vec::with_capacity(rows.len());
    for row in &rows {
        runs.push(summary::row(&api.system, row).await?);
    }
    Ok(Json(RunList { runs, next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PointAsked {
    /// Sequence number of the last record to tell of.
    at: Option<u64>,
}

impl PointAsked {
    fn seq(&self) -> Result<Option<Seq>, Problem> {
        match self.at {
            Some(0) => Err(Problem::bad("at", "records are numbered from 1")),
            at => Ok(at.map(Seq)),
        }
    }
}

/// A run as it stood at a record, which must be there.
async fn view(system: &System, run: RunId, at: Option<Seq>) -> Result<RunView, Problem> {
    let view = system.view(run, at).await?;
    match at.filter(|at| *at > view.last) {
        Some(at) => Err(beyond(run, at, view.last)),
        None => Ok(view),
    }
}

fn beyond(run: RunId, at: Seq, last: Seq) -> Problem {
    let what = format!("run {run} has only {} records: there is no record {}", last.0, at.0);
    Problem::new(StatusCode::NOT_FOUND, "record_unknown", what)
}

async fn run(
    State(api): State<Api>,
    Named(name): Named<String>,
    Asked(asked): Asked<PointAsked>,
) -> Result<Json<Summary>, Problem> {
    let run = names::run(&api.system, &name)?;
    let at = asked.seq()?;
    let view = view(&api.system, run, at).await?;
    let is_past = at.is_some() && api.system.events(run, view.last)?.next_known().await.is_some();
    let stands = if is_past { Stands::then(&view) } else { Stands::now(&api.system, &view)? };
    Ok(Json(summary::of(run, &view, stands)))
}

async fn run_graph(
    State(api): State<Api>,
    Named(name): Named<String>,
    Asked(asked): Asked<PointAsked>,
) -> Result<Json<GraphView>, Problem> {
    let run = names::run(&api.system, &name)?;
    let at = asked.seq()?;
    let view = view(&api.system, run, at).await?;
    let ahead = if at.is_none() { api.system.ahead(&view) } else { None };
    Ok(Json(graph::of(run, &view, ahead.as_ref())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsAsked {
    after: Option<u64>,
    until: Option<Until>,
}

async fn run_events(
    State(api): State<Api>,
    Named(name): Named<String>,
    Asked(asked): Asked<EventsAsked>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = names::run(&api.system, &name)?;
    let after = Seq(asked.after.or(lines::last_seen(&headers)?).unwrap_or(0));
    let now = api.system.view(run, None).await?;
    if after > now.last {
        return Err(beyond(run, after, now.last));
    }
    let until = match asked.until.unwrap_or(Until::Closed) {
        // Nothing comes after the last record, so it is not waited for.
        Until::Closed if now.closed.is_some() => Until::Settled,
        until => until,
    };
    let told = events::follow(api.system, run, after, until, now.last)?;
    Ok(lines::answer(&headers, told))
}

async fn checkpoint(State(api): State<Api>, Named(name): Named<String>) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    api.system.checkpoint(run).await?;
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn cancel(State(api): State<Api>, Named(name): Named<String>) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    api.system.cancel(run).await?;
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn cancel_node(
    State(api): State<Api>,
    Named((name, node)): Named<(String, String)>,
) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    api.system.cancel_node(run, node.as_str().into()).await?;
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn skip_node(
    State(api): State<Api>,
    Named((name, node)): Named<(String, String)>,
) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    api.system.skip_node(run, node.as_str().into()).await?;
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn interject(
    State(api): State<Api>,
    Named(name): Named<String>,
    Sent(asked): Sent<InterjectRequest>,
) -> Result<Json<Interjected>, Problem> {
    let run = names::run(&api.system, &name)?;
    let wait = Duration::from_millis(asked.wait_ms.get());
    let node = api.system.interject(run, &asked.text, wait).await?;
    Ok(Json(Interjected { run: run.to_string(), node: node.to_string() }))
}

/// How a run is to be taken up.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeAsked {
    /// As one of all that are open, so that one which ends its process again and again is set aside.
    #[serde(default)]
    among_all: bool,
}

async fn resume(
    State(api): State<Api>,
    Named(name): Named<String>,
    Asked(asked): Asked<ResumeAsked>,
) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    if asked.among_all {
        api.system.resume_among_all(run).await?;
    } else {
        api.system.resume(run).await?;
    }
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn resolve(
    State(api): State<Api>,
    Named(name): Named<String>,
    Sent(asked): Sent<ResolveRequest>,
) -> Result<Json<RunNamed>, Problem> {
    let run = names::run(&api.system, &name)?;
    let ResolveRequest { node, attempt, how, value } = asked;
    let how = match (how, value) {
        (How::Done, Some(value)) => ResolveHow::Done(value),
        (How::Redo, None) => ResolveHow::Redo,
        (How::Fail, None) => ResolveHow::Fail,
        (How::Done, None) => return Err(Problem::bad("resolve", "what was done has a result: give `value`")),
        (How::Redo | How::Fail, Some(_)) => {
            return Err(Problem::bad("resolve", "only what was done has a result: leave `value` out"));
        }
    };
    let node = node.as_str().into();
    match attempt {
        Some(attempt) => api.system.resolve_attempt(run, node, attempt, how).await?,
        None => api.system.resolve(run, node, how).await?,
    }
    Ok(Json(RunNamed { run: run.to_string() }))
}

async fn artifact(
    State(api): State<Api>,
    Named((name, node)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let run = names::run(&api.system, &name)?;
    let artifact = api.system.artifact(run, &node.as_str().into()).await?;
    let digest = lineage::artifact(&artifact.media, &artifact.content);
    let headers = [(header::CONTENT_TYPE, artifact.media), (header::ETAG, format!("\"{digest}\""))];
    Ok((headers, artifact.content).into_response())
}

async fn results(State(api): State<Api>, Named(name): Named<String>) -> Result<Json<ResultsRead>, Problem> {
    let run = names::run(&api.system, &name)?;
    let mut told = ResultsRead { read: 0, bytes: 0, damaged: Vec::new() };
    for ReadResult { node, artifact, found } in api.system.read_results(run).await? {
        let what = match found {
            Ok((digest, bytes)) => {
                told.read += 1;
                told.bytes += bytes;
                (digest != artifact).then(|| format!("its bytes give digest {digest}"))
            }
            Err(error) => Some(Problem::from(error).detail().to_owned()),
        };
        told.damaged.extend(what.map(|what| DamagedResult { node: node.to_string(), what }));
    }
    Ok(Json(told))
}

async fn health(State(api): State<Api>, leaving: Option<Extension<Leaving>>) -> Json<Health> {
    let drain_ms = || u64::try_from(api.system.drain().as_millis()).unwrap_or(u64::MAX);
    Json(Health {
        status: "ok".to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        active: api.system.active(),
        disk_full: api.system.full().borrow().clone(),
        leaving_within_ms: leaving.map(|_| drain_ms()),
    })
}
