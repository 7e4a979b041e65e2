//! Handlers of `/v1/runs/...`: listing, reading, following and controlling runs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ostler_actors::{ReadResult, ResolveHow, RunView, System};
use ostler_kernel::id::RunId;
use ostler_kernel::lineage;
use ostler_kernel::policy::Decider;
use ostler_kernel::port::{RunPlace, RunRow, RunRowStatus, RunsPage, Seq};
use ostler_kernel::provenance::Provenance;
use ostler_kernel::run::RunStatus;
use serde::Deserialize;

use crate::events::Until;
use crate::extract::{JsonBody, PathParams, QueryParams, RawBody, parse_body};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{
    DamagedResult, GraphView, InterjectRequest, Interjected, ModelExchanges, Resolution, ResolveRequest,
    ResultsCheck, RunList, RunRef, Summary, UndoRequest,
};
use crate::{events, graph, run_lookup, streaming, summary};

/// Maximum runs on one page of `GET /v1/runs`.
pub const RUNS_LISTED_MAX: usize = 1_000;

/// Rows read from the table of runs at once.
const ROWS_READ: usize = 256;

/// First lines of a list with undos and absent outputs of closed runs: each costs a fold of the run's records.
const RUNS_DETAILED_MAX: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsQuery {
    /// Lists only runs with work left.
    #[serde(default)]
    open: bool,
    /// Lists only runs with the status.
    status: Option<RunStatus>,
    after: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(api): State<Api>,
    QueryParams(query): QueryParams<RunsQuery>,
) -> Result<Json<RunList>, Problem> {
    let RunsQuery { open, status, after, limit } = query;
    let limit = limit.unwrap_or(RUNS_LISTED_MAX).clamp(1, RUNS_LISTED_MAX);
    let after = after.as_deref().map(parse_cursor).transpose()?;
    let is_first = after.is_none();
    let (mut runs, mut before) = (Vec::new(), after);
    loop {
        // One row more than is looked at tells whether there are more.
        let rows = api.system.runs_page(RunsPage { open_only: open, before, limit: ROWS_READ + 1 })?;
        for (row, left) in rows.iter().zip((0..rows.len()).rev()).take(ROWS_READ) {
            before = Some(row.place());
            if status.is_none_or(|status| may_have(row, status)) {
                let line =
                    summary::run_line(&api.system, row, is_first && runs.len() < RUNS_DETAILED_MAX).await?;
                // A long list blocks no thread: the command may be waiting for a signal on it.
                tokio::task::yield_now().await;
                runs.extend(status.is_none_or(|status| line.status == status).then_some(line));
            }
            if runs.len() == limit {
                let next = (left > 0).then(|| format!("{}.{}", row.opened_ms, row.run));
                return Ok(Json(RunList { runs, next }));
            }
        }
        if rows.len() <= ROWS_READ {
            return Ok(Json(RunList { runs, next: None }));
        }
    }
}

/// Parses the cursor `OPENED_MS.RUN` of the last line of a page.
fn parse_cursor(cursor: &str) -> Result<RunPlace, Problem> {
    let place =
        cursor.split_once('.').and_then(|(opened, run)| Some((opened.parse().ok()?, run.parse().ok()?)));
    place.ok_or_else(|| Problem::bad("cursor", "`after` is no cursor of this list"))
}

/// True if a run may have the status, by its row alone: rows do not tell the statuses of open runs apart.
fn may_have(row: &RunRow, status: RunStatus) -> bool {
    match &row.status {
        RunRowStatus::Closed(outcome) => status == (*outcome).into(),
        RunRowStatus::Quarantined(_) => status == RunStatus::Quarantined,
        RunRowStatus::Open | RunRowStatus::Parked(_) => !status.is_over() && status != RunStatus::Quarantined,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AtQuery {
    at: Option<u64>,
}

impl AtQuery {
    fn seq(&self) -> Result<Option<Seq>, Problem> {
        match self.at {
            Some(0) => Err(Problem::bad("at", "records are numbered from 1")),
            at => Ok(at.map(Seq)),
        }
    }
}

/// The run as of record `at`, which must exist; `None`: as of its last record.
async fn view_at(system: &System, run: RunId, at: Option<Seq>) -> Result<RunView, Problem> {
    let view = system.view(run, at).await?;
    match at.filter(|at| *at > view.last) {
        Some(at) => Err(beyond_last_record(run, at, view.last)),
        None => Ok(view),
    }
}

fn beyond_last_record(run: RunId, at: Seq, last: Seq) -> Problem {
    let what = format!("run {run} has the records 1 to {}: there is no record {}", last.0, at.0);
    Problem::new(StatusCode::NOT_FOUND, "record_unknown", what)
}

pub(crate) async fn show(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<AtQuery>,
) -> Result<Json<Summary>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let at = query.seq()?;
    let view = view_at(&api.system, run, at).await?;
    let is_past = at.is_some() && api.system.events(run, view.last)?.next_known().await.is_some();
    let left_out = summary::left_out(&api.system, &view).await;
    let shown =
        if is_past { summary::in_the_past(&view) } else { summary::current(&api.system, &view).await? };
    Ok(Json(Summary { left_out, ..shown }))
}

pub(crate) async fn graph(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<AtQuery>,
) -> Result<Json<GraphView>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let at = query.seq()?;
    let view = view_at(&api.system, run, at).await?;
    let ahead = if at.is_none() { api.system.ahead(&view) } else { None };
    let withdrawn = api.system.withdrawn_results(run, &view)?;
    Ok(Json(graph::graph_view(run, &view, ahead.as_ref(), &withdrawn)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    after: Option<u64>,
    until: Option<Until>,
}

pub(crate) async fn events(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let after = Seq(query.after.or(streaming::last_event_id(&headers)?).unwrap_or(0));
    let now = api.system.view(run, None).await?;
    if after > now.last {
        return Err(beyond_last_record(run, after, now.last));
    }
    let until = match query.until.unwrap_or(Until::Closed) {
        // A closed run has no further record to wait for.
        Until::Closed if now.closed.is_some() => Until::Settled,
        until => until,
    };
    let lines = events::follow(api.system, run, after, until, now.last)?;
    Ok(streaming::respond(&headers, lines))
}

pub(crate) async fn checkpoint(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    api.system.checkpoint(run).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn cancel(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    api.system.cancel(run).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn undo(
    State(api): State<Api>,
    _: Operator,
    PathParams(name): PathParams<String>,
    RawBody(body): RawBody,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    // Without a body the run's own intent holds.
    let request: Option<UndoRequest> = if body.is_empty() { None } else { parse_body(&body)? };
    api.system.undo(run, request.and_then(|request| request.intent)).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn cancel_node(
    State(api): State<Api>,
    _: Operator,
    PathParams((name, node)): PathParams<(String, String)>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    api.system.cancel_node(run, node.as_str().into()).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn skip_node(
    State(api): State<Api>,
    _: Operator,
    PathParams((name, node)): PathParams<(String, String)>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    api.system.skip_node(run, node.as_str().into()).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn interject(
    State(api): State<Api>,
    _: Operator,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<InterjectRequest>,
) -> Result<Json<Interjected>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let wait = Duration::from_millis(request.wait_ms.get());
    let decider = match (request.answer, request.hold) {
        (Some(answer), _) => Decider::Operator(answer),
        (None, true) => Decider::Person,
        (None, false) => Decider::Model,
    };
    let node = api.system.interject_by(run, &request.text, wait, decider).await?;
    Ok(Json(Interjected { run: run.to_string(), node: node.to_string() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeQuery {
    /// Counts as crash recovery: a run that keeps crashing its process is suspended instead.
    #[serde(default)]
    among_all: bool,
}

pub(crate) async fn resume(
    State(api): State<Api>,
    _: Operator,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<ResumeQuery>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    if query.among_all {
        api.system.resume_among_all(run).await?;
    } else {
        api.system.resume(run).await?;
    }
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn resolve(
    State(api): State<Api>,
    operator: Operator,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<ResolveRequest>,
) -> Result<Json<RunRef>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let ResolveRequest { node, attempt, how, value } = request;
    let how = match (how, value) {
        (Resolution::Done, Some(value)) => ResolveHow::Done(value),
        (Resolution::Redo, None) => ResolveHow::Redo,
        (Resolution::Fail, None) => ResolveHow::Fail,
        (Resolution::Gone, None) if attempt.is_some() => {
            return Err(Problem::bad("resolve", "what is gone belongs to no attempt: remove `attempt`"));
        }
        (Resolution::Gone, None) => ResolveHow::Gone,
        (Resolution::Done, None) => {
            return Err(Problem::bad("resolve", "what was done has a result: give `value`"));
        }
        (Resolution::Redo | Resolution::Fail | Resolution::Gone, Some(_)) => {
            return Err(Problem::bad("resolve", "only what was done has a result: remove `value`"));
        }
    };
    let node = node.as_str().into();
    api.system.resolve_by(operator.by, run, node, attempt, how).await?;
    Ok(Json(RunRef { run: run.to_string() }))
}

pub(crate) async fn artifact(
    State(api): State<Api>,
    PathParams((name, node)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let artifact = api.system.artifact(run, &node.as_str().into()).await?;
    let digest = lineage::artifact(&artifact.media, &artifact.content);
    let headers = [(header::CONTENT_TYPE, artifact.media), (header::ETAG, format!("\"{digest}\""))];
    Ok((headers, artifact.content).into_response())
}

pub(crate) async fn model_exchanges(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ModelExchanges>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    Ok(Json(api.system.model_exchanges(run).await?))
}

/// The digests, names and times from which exports of provenance are made.
pub(crate) async fn provenance(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Provenance>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    Ok(Json(api.system.provenance(run)?))
}

pub(crate) async fn results(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ResultsCheck>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let mut check = ResultsCheck { read: 0, bytes: 0, damaged: Vec::new() };
    for ReadResult { node, artifact, found } in api.system.read_results(run).await? {
        let damage = match found {
            Ok((digest, bytes)) => {
                check.read += 1;
                check.bytes += bytes;
                (digest != artifact).then(|| format!("its bytes give digest {digest}"))
            }
            Err(error) => Some(Problem::from(error).detail().to_owned()),
        };
        check.damaged.extend(damage.map(|what| DamagedResult { node: node.to_string(), what }));
    }
    Ok(Json(check))
}
