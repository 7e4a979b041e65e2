//! Agents, and the tree that they are supervised in, as it is told.

use ostler_kernel::agent::Profile;
use serde::{Deserialize, Serialize};

use super::OfferRequest;

/// The answer to `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<AgentLine>,
}

/// One line of the table of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentLine {
    /// Its name.
    pub agent: String,
    /// Who pays.
    pub client: String,
    /// Its weight among the agents of its client.
    pub weight: u32,
    /// `idle` (it has no actor, as nothing of it goes on), `waiting` (for a place for its actor), `starting`, `live`, `stopping` or `quarantined`.
    pub state: String,
    /// Why it is quarantined, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Runs it has to drive.
    pub runs_open: usize,
    /// What it said of itself when it was spawned, which never changes.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
    /// What it offers now: without a domain, that of its profile counts; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<OfferRequest>,
}

/// The body of `POST /v1/agents`: an agent to be made, or found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// Its name.
    pub agent: String,
    /// Who pays; absent: who pays for the agent of this name, else the default client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Its weight among the agents of its client, 1 to 1,000,000; absent: what it has already, else 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

/// The answer to `POST /v1/agents` and to `POST /v1/agents/{agent}/release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRef {
    /// The agent, which is there; or in service again.
    pub agent: String,
}

/// The answer to `GET /v1/tree`: what supervises what in the process that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeView {
    /// The children of the root, in start order: a crash restarts a child and all after it.
    pub children: Vec<TreeLine>,
}

/// A supervised child, and what is below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeLine {
    /// Its name among its siblings.
    pub name: String,
    /// `worker`, `supervisor` or `pool`.
    pub kind: String,
    /// `down`, `starting`, `restarting`, `running` or `stopping`.
    pub state: String,
    /// How many times it was started, failed attempts included.
    pub generation: u64,
    /// How many times it was brought up again.
    pub restarts: u64,
    /// How it ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// How many children it has; `children` lists the first thousand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: usize,
    /// Its children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeLine>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
