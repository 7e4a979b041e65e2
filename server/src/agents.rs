//! Agents, and what supervises them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use ostler_actors::{ReleaseError, TreeRow};

use crate::problem::Problem;
use crate::routes::Api;
use crate::wire::{AgentLine, AgentList, AgentNamed, TreeLine, TreeView};

pub(crate) async fn list(State(api): State<Api>) -> Json<AgentList> {
    let agents = api.system.agents().await.into_iter().map(|row| AgentLine {
        agent: row.agent.to_string(),
        client: row.client.to_string(),
        weight: row.weight,
        state: row.state.to_owned(),
        reason: row.reason,
        runs_open: row.runs_open,
    });
    Json(AgentList { agents: agents.collect() })
}

pub(crate) async fn release(
    State(api): State<Api>,
    Path(agent): Path<String>,
) -> Result<Json<AgentNamed>, Problem> {
    api.system.release(&agent).await?;
    Ok(Json(AgentNamed { agent }))
}

pub(crate) async fn tree(State(api): State<Api>) -> Json<TreeView> {
    Json(TreeView { children: api.system.tree().await.into_iter().map(line).collect() })
}

fn line(row: TreeRow) -> TreeLine {
    TreeLine {
        name: row.name,
        kind: row.kind.to_owned(),
        state: row.state.to_owned(),
        generation: row.generation,
        restarts: row.restarts,
        last_exit: row.last_exit,
        width: row.width,
        children: row.children.into_iter().map(line).collect(),
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
