//! Handlers of grants.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::GrantError;
use ostler_kernel::grant::{Grant, GrantTerms};

use crate::extract::PathParams;
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{GrantList, GrantRow};

/// `GET /v1/grants`
pub(crate) async fn list(State(api): State<Api>) -> Json<GrantList> {
    Json(GrantList { grants: api.system.grants().into_iter().map(row).collect() })
}

/// `POST /v1/grants/{id}/revoke`
pub(crate) async fn revoke(
    State(api): State<Api>,
    operator: Operator,
    PathParams(id): PathParams<String>,
) -> Result<Json<GrantRow>, Problem> {
    Ok(Json(row(api.system.revoke_grant(&id, &operator.by).await?)))
}

fn row(grant: Grant) -> GrantRow {
    let Grant { terms, workspace, files } = grant;
    let pattern = terms.to_string();
    let GrantTerms { id, client, tool, until, by, .. } = terms;
    let (client, files) = (client.to_string(), files.into_keys().collect());
    GrantRow { id, client, workspace, tool, pattern, files, until_ms: until, by }
}

impl From<GrantError> for Problem {
    fn from(error: GrantError) -> Problem {
        let (status, code) = match &error {
            GrantError::Pattern(_) => (StatusCode::UNPROCESSABLE_ENTITY, "grant_pattern"),
            GrantError::Validity(_) => (StatusCode::UNPROCESSABLE_ENTITY, "grant_validity"),
            GrantError::NoCall(_) => (StatusCode::CONFLICT, "grant_without_call"),
            GrantError::Changed(_) => (StatusCode::CONFLICT, "grant_of_changed_call"),
            GrantError::OtherCall(_) => (StatusCode::CONFLICT, "grant_of_other_call"),
            GrantError::TooMany => (StatusCode::CONFLICT, "too_many_grants"),
            GrantError::Unknown(_) => (StatusCode::NOT_FOUND, "grant_unknown"),
            GrantError::Run(error) => return error.clone().into(),
            GrantError::Journal(error) => return error.clone().into(),
            GrantError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
        };
        Problem::new(status, code, error.to_string())
    }
}
