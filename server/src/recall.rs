//! Handlers of `/v1/retractions`: withdraws results, and what rests on them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{RecallTarget, Recalled, RetractError};
use ostler_kernel::event::{Retraction, Withdrawn};
use ostler_kernel::plan::model_tool;

use crate::extract::{JsonBody, PathParams};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{
    NodeRef, ReachedRow, RecallReport, RetractRequest, RetractionList, RetractionRow, UnreadableRun, word,
};

/// `GET /v1/retractions`
pub(crate) async fn list(State(api): State<Api>) -> Json<RetractionList> {
    Json(RetractionList { retractions: api.system.retractions().into_iter().map(row).collect() })
}

/// `POST /v1/retractions`
pub(crate) async fn retract(
    State(api): State<Api>,
    operator: Operator,
    JsonBody(request): JsonBody<RetractRequest>,
) -> Result<Json<RecallReport>, Problem> {
    let RetractRequest { run, node, tool, version, model, dry_run } = request;
    let target = match (run, node, tool, model) {
        (Some(run), Some(node), None, None) if version.is_none() => {
            RecallTarget::Result { run: run_lookup::find(&api.system, &run)?, node: node.as_str().into() }
        }
        (None, None, Some(tool), None) => RecallTarget::Tool { tool, version },
        (None, None, None, Some(model)) => RecallTarget::Tool { tool: model_tool(&model), version },
        _ => {
            let what = "name one thing to withdraw: a `run` with a `node`, or a `tool`, or a `model`";
            return Err(Problem::bad("retraction", what));
        }
    };
    let recalled = match dry_run {
        true => api.system.recall_preview(target).await?,
        false => api.system.retract(target, &operator.by).await?,
    };
    Ok(Json(report(recalled)))
}

/// `POST /v1/retractions/{id}/lift`
pub(crate) async fn lift(
    State(api): State<Api>,
    operator: Operator,
    PathParams(id): PathParams<String>,
) -> Result<Json<RetractionRow>, Problem> {
    Ok(Json(row(api.system.lift_retraction(&id, &operator.by).await?)))
}

fn report(recalled: Recalled) -> RecallReport {
    let Recalled { retraction, records, reached, reached_total, voided, grants, again, unreadable } =
        recalled;
    let reached = reached.into_iter().map(|reached| ReachedRow {
        run: reached.run.to_string(),
        node: reached.node.to_string(),
        state: word(&reached.state),
        withdrawn: reached.is_withdrawn,
        effect: reached.has_acted,
    });
    let voided = voided.iter().map(|(run, node)| NodeRef { run: run.to_string(), node: node.to_string() });
    let unreadable = unreadable.into_iter().map(|(run, error)| UnreadableRun {
        run: run.to_string(),
        detail: Problem::from(error).detail().to_owned(),
    });
    RecallReport {
        retraction: retraction.map(row),
        records,
        reached: reached.collect(),
        reached_total,
        voided: voided.collect(),
        grants: grants.into_iter().map(|grant| grant.terms.id).collect(),
        again: again.iter().map(ToString::to_string).collect(),
        unreadable: unreadable.collect(),
    }
}

fn row(retraction: Retraction) -> RetractionRow {
    let Retraction { id, what, by, .. } = retraction;
    let empty = RetractionRow { id, by, run: None, node: None, tool: None, version: None };
    match what {
        Withdrawn::Result { run, node, .. } => {
            RetractionRow { run: Some(run.to_string()), node: Some(node.to_string()), ..empty }
        }
        Withdrawn::Executable(fields) => {
            let fields = fields.value();
            let text = |key: &str| fields[key].as_str().map(str::to_owned);
            RetractionRow { tool: text("tool"), version: text("tool_version"), ..empty }
        }
    }
}

impl From<RetractError> for Problem {
    fn from(error: RetractError) -> Problem {
        let (status, code) = match &error {
            RetractError::Run(error) => return error.clone().into(),
            RetractError::Edited(..) => (StatusCode::CONFLICT, "edited"),
            RetractError::Name(_) | RetractError::UnknownTool { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, "retraction_name")
            }
            RetractError::TooMany => (StatusCode::CONFLICT, "too_many_retractions"),
            RetractError::Unknown(_) => (StatusCode::NOT_FOUND, "retraction_unknown"),
            RetractError::Journal(error) => return error.clone().into(),
            RetractError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
        };
        Problem::new(status, code, error.to_string())
    }
}
