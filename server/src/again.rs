//! `POST /v1/runs/{run}/rerun` and `.../nodes/{node}/edit`: runs that repeat a run; `GET .../nodes/{node}/invoice`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Again, AgainError, Fork, ForkError, NodeEdit, RunError};
use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::EditRefusal;
use ostler_kernel::port::Seq;

use crate::extract::{JsonBody, PathParams};
use crate::operator::{AnyCaller, Operator};
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{EditRequest, ForkRequest, Invoice, RerunRequest, RunRef};

pub(crate) async fn rerun(
    State(api): State<Api>,
    caller: AnyCaller,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<RerunRequest>,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let view = api.system.view(run, None).await?;
    caller.may_intend(Some(view.opened.intent), &api)?;
    let from = request.from.map(|node| NodeId::from(node.as_str()));
    opened(&api, run, Again { from, edit: None }).await
}

/// Opens a run in which a person's artifact stands in the place of a result. 412 if `if_digest` is not the digest of the result.
pub(crate) async fn edit(
    State(api): State<Api>,
    operator: Operator,
    PathParams((name, node)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<EditRequest>,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let EditRequest { value, if_digest, stale } = request;
    let seen = if_digest.map(|digest| digest.parse());
    let seen = seen.transpose().map_err(|error| Problem::bad("digest", format!("if_digest: {error}")))?;
    let edit = NodeEdit { node: node.as_str().into(), value, author: operator.by, seen, stale: stale.into() };
    opened(&api, run, Again { from: None, edit: Some(edit) }).await
}

/// Opens a run that continues another one from one of its records.
pub(crate) async fn fork(
    State(api): State<Api>,
    operator: Operator,
    PathParams(name): PathParams<String>,
    JsonBody(ForkRequest { at, set }): JsonBody<ForkRequest>,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let set = set.into_iter().map(|(node, params)| (NodeId::from(node.as_str()), params)).collect();
    let forked = api.system.fork(run, Fork { at: Seq(at.get()), set, by: operator.by }).await?;
    Ok((StatusCode::CREATED, Json(RunRef { run: forked.to_string() })))
}

/// Nodes that an edit of a node executes again at most. Changes nothing.
pub(crate) async fn invoice(
    State(api): State<Api>,
    PathParams((name, node)): PathParams<(String, String)>,
) -> Result<Json<Invoice>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let view = api.system.view(run, None).await?;
    let id = NodeId::from(node.as_str());
    api.system.check_editable(&view, &id)?;
    let invoice = view.run.invoice(&id, &view.figures.spending).ok_or(RunError::UnknownNode(id))?;
    Ok(Json(Invoice::new(run.to_string(), node, invoice)))
}

async fn opened(
    api: &Api,
    run: ostler_kernel::id::RunId,
    again: Again,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = api.system.run_again(run, again).await?;
    Ok((StatusCode::CREATED, Json(RunRef { run: run.to_string() })))
}

impl From<AgainError> for Problem {
    fn from(error: AgainError) -> Problem {
        let told = error.to_string();
        let (status, code) = match error {
            AgainError::Run(error) => return error.into(),
            AgainError::Submit(error) => return error.into(),
            AgainError::Goal(_) => (StatusCode::CONFLICT, "goal_run"),
            AgainError::Edit { why, .. } => match why {
                EditRefusal::NoArtifact => (StatusCode::CONFLICT, "no_artifact"),
                EditRefusal::OldMismatch => (StatusCode::PRECONDITION_FAILED, "old_mismatch"),
                EditRefusal::Effectful => (StatusCode::CONFLICT, "effectful"),
                EditRefusal::ContractFailed => (StatusCode::UNPROCESSABLE_ENTITY, "contract_failed"),
            },
            AgainError::Content { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "content_unusable"),
            AgainError::Plan(_) => (StatusCode::INTERNAL_SERVER_ERROR, "plan_unreadable"),
        };
        Problem::new(status, code, told)
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Problem {
        let told = error.to_string();
        let (status, code) = match error {
            ForkError::Run(error) => return error.into(),
            ForkError::Submit(error) => return error.into(),
            ForkError::Goal(_) => (StatusCode::CONFLICT, "goal_run"),
            ForkError::Running(_) => (StatusCode::CONFLICT, "run_running"),
            ForkError::Record { .. } => (StatusCode::NOT_FOUND, "record_unknown"),
            ForkError::TooLong => (StatusCode::CONFLICT, "fork_too_long"),
            ForkError::Reference { .. } => (StatusCode::CONFLICT, "param_reference"),
            ForkError::Withdrawn(_) => (StatusCode::CONFLICT, "result_withdrawn"),
            ForkError::Started(_) => (StatusCode::CONFLICT, "node_started"),
            ForkError::Plan(_) => (StatusCode::INTERNAL_SERVER_ERROR, "plan_unreadable"),
        };
        Problem::new(status, code, told)
    }
}
