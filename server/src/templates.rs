//! Templates: `GET /v1/runs/{run}/learnt`, `GET /v1/templates`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::TemplateError;
use serde::Deserialize;

use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::Api;
use crate::run_lookup;
use crate::wire::{LearntPlan, TemplateRecords};

/// Names of templates in one request.
const NAMES_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LearnQuery {
    /// Name of the template.
    name: String,
}

pub(crate) async fn learnt(
    State(api): State<Api>,
    PathParams(run): PathParams<String>,
    QueryParams(LearnQuery { name }): QueryParams<LearnQuery>,
) -> Result<Json<LearntPlan>, Problem> {
    let run = run_lookup::find(&api.system, &run)?;
    let learnt = api.system.learn(run, &name).await.map_err(|error| match error {
        TemplateError::Run(error) => Problem::from(error),
        TemplateError::Learn(error) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_learnable", error.to_string())
        }
    })?;
    Ok(Json(LearntPlan {
        run: run.to_string(),
        plan: learnt.plan,
        params: learnt.params,
        tainted: learnt.is_tainted,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordsQuery {
    /// Names of templates, separated by commas.
    names: String,
}

pub(crate) async fn records(
    State(api): State<Api>,
    QueryParams(RecordsQuery { names }): QueryParams<RecordsQuery>,
) -> Result<Json<TemplateRecords>, Problem> {
    let names = names.split(',').filter(|name| !name.is_empty()).take(NAMES_MAX).map(str::to_owned).collect();
    Ok(Json(TemplateRecords { records: api.system.template_records(&names).await? }))
}
