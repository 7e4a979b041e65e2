//! Agents and the supervision tree.

use ostler_actors::{AgentRow, TreeRow};
use ostler_kernel::agent::Profile;
use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    /// All agents by name.
    pub agents: Vec<AgentRow>,
}

/// The body of `POST /v1/agents`: registers an agent, or finds the one with the name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// Name of the agent.
    pub agent: String,
    /// The client that pays; `None`: the client of the agent with the name, else the default client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Weight among the agents of the client, 1 to 1,000,000; `None`: the present weight, else 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The profile, which never changes afterwards.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

/// The answer to `POST /v1/agents` and to `POST /v1/agents/{agent}/release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRef {
    /// Name of the agent.
    pub agent: String,
}

/// The answer to `GET /v1/tree`: the supervision tree of the process that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeView {
    /// Children of the root in start order: a crash restarts a child and all after it.
    pub children: Vec<TreeRow>,
}
