//! Acceptance of tools of devices by operators.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::DeviceError;
use serde_json::{Value, json};

use crate::extract::{JsonBody, PathParams};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;

/// `POST /v1/devices/{device}/accept`: passes the tools that an operator accepts to the device.
pub(crate) async fn accept(
    State(api): State<Api>,
    Operator { by }: Operator,
    PathParams(device): PathParams<String>,
    JsonBody(accepted): JsonBody<Value>,
) -> Result<Json<Value>, Problem> {
    api.system.accept_on_device(&device, accepted, &by).await?;
    Ok(Json(json!({"device": device, "by": by})))
}

impl From<DeviceError> for Problem {
    fn from(error: DeviceError) -> Problem {
        let (status, code) = match error {
            DeviceError::Unknown(_) => (StatusCode::NOT_FOUND, "device_unknown"),
            DeviceError::Refused { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "device_refused"),
        };
        Problem::new(status, code, error.to_string())
    }
}
