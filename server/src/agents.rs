//! Handlers for agents and the supervision tree.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ostler_actors::{AgentProfile, RegisterError, ReleaseError, SpawnError, System};
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, is_name};

use crate::extract::{JsonBody, PathParams};
use crate::operator::Operator;
use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{AgentList, AgentRef, SpawnRequest, TreeView};

pub(crate) async fn list(State(api): State<Api>) -> Json<AgentList> {
    Json(AgentList { agents: api.system.agents().await })
}

pub(crate) async fn spawn(
    State(api): State<Api>,
    JsonBody(request): JsonBody<SpawnRequest>,
) -> Result<(StatusCode, Json<AgentRef>), Problem> {
    let SpawnRequest { agent, client, weight, profile } = request;
    let client = match client {
        Some(client) => client,
        None => {
            let found = api.system.agent(&agent.as_str().into()).await;
            found.map_or_else(|| CLIENT_DEFAULT.to_owned(), |row| row.client.to_string())
        }
    };
    if !is_name(&client) {
        return Err(Problem::bad("client_name", format!("client name {client:?} is not {NAME_RULE}")));
    }
    let profile = AgentProfile::new(&agent).client(&client).profile(profile);
    let profile = weight.into_iter().fold(profile, AgentProfile::weight);
    api.system.spawn(profile).await?;
    Ok((StatusCode::CREATED, Json(AgentRef { agent })))
}

pub(crate) async fn client_of(system: &System, agent: &AgentId) -> Result<ClientId, Problem> {
    let found = system.agent(agent).await;
    found.map(|row| row.client).ok_or_else(|| ReleaseError::Unknown(agent.clone()).into())
}

pub(crate) async fn release(
    State(api): State<Api>,
    _: Operator,
    PathParams(agent): PathParams<String>,
) -> Result<Json<AgentRef>, Problem> {
    api.system.release(&agent).await?;
    Ok(Json(AgentRef { agent }))
}

pub(crate) async fn tree(State(api): State<Api>) -> Json<TreeView> {
    Json(TreeView { children: api.system.tree().await })
}

impl From<SpawnError> for Problem {
    fn from(error: SpawnError) -> Problem {
        let detail = error.to_string();
        let (status, code) = match error {
            SpawnError::Name(_) => (StatusCode::BAD_REQUEST, "agent_name"),
            SpawnError::Weight(_) => (StatusCode::UNPROCESSABLE_ENTITY, "agent_weight"),
            SpawnError::Profile(_) => (StatusCode::UNPROCESSABLE_ENTITY, "profile_invalid"),
            SpawnError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            SpawnError::Register(error) => match error {
                RegisterError::Taken { .. } => (StatusCode::CONFLICT, "agent_taken"),
                RegisterError::Weight { .. } => (StatusCode::CONFLICT, "weight_differs"),
                RegisterError::Profile(_) => (StatusCode::CONFLICT, "profile_differs"),
                RegisterError::Domain(_) => (StatusCode::UNPROCESSABLE_ENTITY, "domain_unknown"),
                RegisterError::Unwritable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "profile_unwritable"),
                RegisterError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, "too_many_agents"),
                RegisterError::Journal(error) => return error.into(),
            },
        };
        Problem::new(status, code, detail)
    }
}

impl From<ReleaseError> for Problem {
    fn from(error: ReleaseError) -> Problem {
        let (status, code) = match &error {
            ReleaseError::Unknown(_) => (StatusCode::NOT_FOUND, "agent_unknown"),
            ReleaseError::InService(_) => (StatusCode::CONFLICT, "agent_in_service"),
            ReleaseError::Restarting => (StatusCode::SERVICE_UNAVAILABLE, "restarting"),
            ReleaseError::Journal(error) => return error.clone().into(),
        };
        Problem::new(status, code, error.to_string())
    }
}
