//! Lockdown of the gate, and reloading of the policy.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::OperatorError;

use crate::extract::JsonBody;
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{Lockdown, PolicyEpoch};

pub(crate) async fn lockdown(State(api): State<Api>) -> Json<Lockdown> {
    Json(Lockdown { on: api.system.is_locked_down() })
}

pub(crate) async fn set_lockdown(
    State(api): State<Api>,
    _: Operator,
    JsonBody(wanted): JsonBody<Lockdown>,
) -> Result<Json<Lockdown>, Problem> {
    api.system.set_lockdown(wanted.on).await?;
    Ok(Json(Lockdown { on: api.system.is_locked_down() }))
}

pub(crate) async fn reload(State(api): State<Api>, _: Operator) -> Result<Json<PolicyEpoch>, Problem> {
    Ok(Json(PolicyEpoch { epoch: api.system.reload_policy().await? }))
}

impl From<OperatorError> for Problem {
    fn from(error: OperatorError) -> Problem {
        let (status, code) = match &error {
            OperatorError::Lockdown(_) => (StatusCode::INTERNAL_SERVER_ERROR, "lockdown_not_kept"),
            OperatorError::NoSource => (StatusCode::CONFLICT, "no_policy_file"),
            OperatorError::Policy(_) => (StatusCode::UNPROCESSABLE_ENTITY, "policy_invalid"),
        };
        Problem::new(status, code, error.to_string())
    }
}
