//! `POST /v1/runs/{run}/rerun` and `.../nodes/{node}/edit`: runs that repeat a run; `POST .../invoice` beside each: what it would execute.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{Again, AgainError, Fork, ForkError, NodeEdit};
use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::EditRefusal;
use ostler_kernel::port::Seq;

use crate::extract::{JsonBody, PathParams};
use crate::operator::{AnyCaller, Operator};
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{EditRequest, ForkRequest, Invoice, RerunRequest, RunRef};

/// Code of the refusal of a repetition that has to know what becomes of earlier edits.
pub const STALE_EDITS: &str = "stale_edits";

pub(crate) async fn rerun(
    State(api): State<Api>,
    caller: AnyCaller,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<RerunRequest>,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let view = api.system.view(run, None).await?;
    caller.may_intend(Some(view.opened.intent), &api)?;
    opened(&api, run, repetition(&api, request).await?).await
}

/// The repetition that a request describes.
async fn repetition(api: &Api, request: RerunRequest) -> Result<Again, Problem> {
    let RerunRequest { from, plan, earlier_edits } = request;
    let from = from.map(|node| NodeId::from(node.as_str()));
    let plan = match plan {
        Some(draft) => {
            Some(api.system.judge_plan(draft).await.map_err(|faults| Problem::faults(&faults))?.into())
        }
        None => None,
    };
    Ok(Again { from, edit: None, plan, stale: earlier_edits.into() })
}

/// What a repetition executes at most. Changes nothing.
pub(crate) async fn rerun_invoice(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<RerunRequest>,
) -> Result<Json<Invoice>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let invoice = api.system.invoice(run, &repetition(&api, request).await?).await?;
    Ok(Json(Invoice::new(run.to_string(), None, &invoice)))
}

/// The edit that a request describes.
fn node_edit(node: &str, request: EditRequest, author: String) -> Result<NodeEdit, Problem> {
    let EditRequest { value, if_digest, stale, earlier_edits: _ } = request;
    let seen = if_digest.map(|digest| digest.parse()).transpose();
    let seen = seen.map_err(|error| Problem::bad("digest", format!("the digest of the result: {error}")))?;
    Ok(NodeEdit { node: node.into(), value, author, seen, stale: stale.into() })
}

/// Opens a run in which a person's artifact stands in the place of a result. 412 if `if_digest` is not the digest of the result.
pub(crate) async fn edit(
    State(api): State<Api>,
    operator: Operator,
    PathParams((name, node)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<EditRequest>,
) -> Result<(StatusCode, Json<RunRef>), Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let stale = request.earlier_edits.into();
    let edit = node_edit(&node, request, operator.by)?;
    opened(&api, run, Again { edit: Some(edit), stale, ..Again::default() }).await
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

/// What an edit executes again at most. Checks the edit as [`edit`] does, and changes nothing.
pub(crate) async fn invoice(
    State(api): State<Api>,
    PathParams((name, node)): PathParams<(String, String)>,
    JsonBody(request): JsonBody<EditRequest>,
) -> Result<Json<Invoice>, Problem> {
    let run = run_lookup::find(&api.system, &name)?;
    let stale = request.earlier_edits.into();
    let edit = Some(node_edit(&node, request, String::new())?);
    let invoice = api.system.invoice(run, &Again { edit, stale, ..Again::default() }).await?;
    Ok(Json(Invoice::new(run.to_string(), Some(node), &invoice)))
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
            AgainError::Doubt { .. } => (StatusCode::CONFLICT, "in_doubt"),
            AgainError::StaleEdits { nodes } => {
                return Problem::new(StatusCode::CONFLICT, STALE_EDITS, told).with_nodes(&nodes);
            }
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
            ForkError::Undone(_) => (StatusCode::CONFLICT, "effect_undone"),
            ForkError::Started(_) => (StatusCode::CONFLICT, "node_started"),
            ForkError::Plan(_) => (StatusCode::INTERNAL_SERVER_ERROR, "plan_unreadable"),
        };
        Problem::new(status, code, told)
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;
    use ostler_kernel::id::NodeId;

    use super::*;
    use crate::wire::ProblemDetails;

    #[tokio::test]
    async fn a_question_about_earlier_edits_names_its_nodes_apart_from_its_text() {
        let nodes = [NodeId::from("a"), NodeId::from("b")];
        let problem = Problem::from(AgainError::StaleEdits { nodes: nodes.to_vec() });
        let body = problem.into_response().into_body().collect().await.expect("it is whole").to_bytes();
        let details: ProblemDetails = serde_json::from_slice(&body).expect("a problem");
        assert_eq!(
            (details.code.as_str(), details.nodes),
            (STALE_EDITS, nodes.map(|node| node.to_string()).to_vec())
        );
    }
}
