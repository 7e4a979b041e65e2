//! Handlers for clients, their credits, and the run queue.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{ClientChange, ClientError, Weight};

use crate::extract::{JsonBody, PathParams};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{ClientList, ClientRequest, ClientRow, ClientTier, QueueView, WeightName, WeightRequest};

pub(crate) async fn list(State(api): State<Api>) -> Json<ClientList> {
    Json(ClientList { clients: api.system.clients().await })
}

pub(crate) async fn one(
    State(api): State<Api>,
    PathParams(name): PathParams<String>,
) -> Result<Json<ClientRow>, Problem> {
    find(&api, &name).await.map(Json)
}

pub(crate) async fn change(
    State(api): State<Api>,
    _: Operator,
    PathParams(name): PathParams<String>,
    JsonBody(request): JsonBody<ClientRequest>,
) -> Result<Json<ClientRow>, Problem> {
    let ClientRequest { weight, tier, credits, tokens, nano_usd } = request;
    let weight = weight.map(|weight| match weight {
        WeightRequest::Chosen(weight) => Weight::Chosen(weight),
        WeightRequest::Named(WeightName::Credits) => Weight::OfCredits,
    });
    let contracted = tier.map(|tier| tier == ClientTier::Contracted);
    api.system.change_client(&name, ClientChange { weight, contracted, credits, tokens, nano_usd }).await?;
    find(&api, &name).await.map(Json)
}

/// Answers with the last state of the removed account.
pub(crate) async fn remove(
    State(api): State<Api>,
    _: Operator,
    PathParams(name): PathParams<String>,
) -> Result<Json<ClientRow>, Problem> {
    Ok(Json(api.system.remove_client(&name).await?))
}

pub(crate) async fn queue(State(api): State<Api>) -> Result<Json<QueueView>, Problem> {
    let restarting = || {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "restarting", "the scheduler is restarting: try again")
    };
    let (queue, clients) = api.system.queue_and_clients().await.ok_or_else(restarting)?;
    Ok(Json(QueueView { queue, clients }))
}

async fn find(api: &Api, name: &str) -> Result<ClientRow, Problem> {
    let clients = api.system.clients().await;
    clients
        .into_iter()
        .find(|row| row.client.as_str() == name)
        .ok_or_else(|| ClientError::Unknown(name.into()).into())
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Problem {
        let (status, code) = match &error {
            ClientError::Name(_) => (StatusCode::BAD_REQUEST, "client_name"),
            ClientError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, "too_many_clients"),
            ClientError::Weight(_) => (StatusCode::UNPROCESSABLE_ENTITY, "weight_out_of_range"),
            ClientError::Configured(_) => (StatusCode::CONFLICT, "client_configured"),
            ClientError::Credits { .. } => (StatusCode::CONFLICT, "credits_out_of_range"),
            ClientError::Unknown(_) => (StatusCode::NOT_FOUND, "client_unknown"),
            ClientError::NoAccount(_) => (StatusCode::CONFLICT, "client_without_account"),
            ClientError::HasRun { .. } | ClientError::HasJob { .. } | ClientError::HasAttempts(_) => {
                (StatusCode::CONFLICT, "client_in_use")
            }
            ClientError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            ClientError::Journal(error) => return error.clone().into(),
        };
        Problem::new(status, code, error.to_string())
    }
}
