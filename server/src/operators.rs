//! Handlers of the keys whose operators are obeyed.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::extract::{JsonBody, PathParams};
use crate::operator::{KeyRefused, Operator, PublicKey};
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{OperatorList, OperatorRow};

/// `GET /v1/operators`
pub(crate) async fn list(State(api): State<Api>) -> Json<OperatorList> {
    Json(OperatorList { operators: api.operators().rows() })
}

/// `POST /v1/operators`: accepts a key, or renames one.
pub(crate) async fn add(
    State(api): State<Api>,
    _: Operator,
    JsonBody(OperatorRow { key, name }): JsonBody<OperatorRow>,
) -> Result<Json<OperatorList>, Problem> {
    api.operators().add(parsed(&key)?, &name)?;
    Ok(list(State(api)).await)
}

/// `POST /v1/operators/{key}/remove`
pub(crate) async fn remove(
    State(api): State<Api>,
    _: Operator,
    PathParams(key): PathParams<String>,
) -> Result<Json<OperatorList>, Problem> {
    api.operators().remove(&parsed(&key)?)?;
    Ok(list(State(api)).await)
}

fn parsed(key: &str) -> Result<PublicKey, Problem> {
    key.parse().map_err(|what: String| Problem::bad("operator_key", what))
}

impl From<KeyRefused> for Problem {
    fn from(refused: KeyRefused) -> Problem {
        let (status, code) = match refused {
            KeyRefused::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "operator_invalid"),
            KeyRefused::Unknown(_) => (StatusCode::NOT_FOUND, "operator_key_unknown"),
            KeyRefused::Last(_) => (StatusCode::CONFLICT, "operator_last"),
            KeyRefused::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "operators_unwritable"),
        };
        Problem::new(status, code, refused.to_string())
    }
}
