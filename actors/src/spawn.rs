//! Agents: making one, and giving it runs.

use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId, is_name};

use ostler_scheduler::AGENT_WEIGHT;

use crate::registry::{RegisterError, RegistryMessage, ReleaseError};
use crate::submission::{Submission, SubmitError};
use crate::system::{System, ask};

/// What an agent is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProfile {
    name: AgentId,
    client: ClientId,
    weight: u32,
}

impl AgentProfile {
    /// An agent of client [`CLIENT_DEFAULT`], of weight 100.
    pub fn new(name: &str) -> AgentProfile {
        AgentProfile { name: name.into(), client: CLIENT_DEFAULT.into(), weight: AGENT_WEIGHT }
    }

    /// Who pays for it.
    pub fn client(self, client: &str) -> AgentProfile {
        AgentProfile { client: client.into(), ..self }
    }

    /// Its weight among the agents of its client, 1 to 1,000,000.
    pub fn weight(self, weight: u32) -> AgentProfile {
        AgentProfile { weight, ..self }
    }
}

/// Why an agent was not spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The name is no name.
    #[error("agent name {0:?} is not {NAME_RULE}")]
    Name(String),
    /// The weight is out of range.
    #[error("weight {0} is not within 1 and 1,000,000")]
    Weight(u32),
    /// The registry said no.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// An agent that was spawned.
#[derive(Clone)]
pub struct AgentHandle {
    system: System,
    name: AgentId,
    client: ClientId,
}

impl AgentHandle {
    /// Its name.
    pub fn name(&self) -> &AgentId {
        &self.name
    }

    /// Gives it a plan to run, after those it has already. Durable when it returns; see [`System::submit`].
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        let (agent, client) = (Some(self.name.clone()), self.client.clone());
        self.system.submit(Submission { agent, client, ..submission }).await
    }
}

impl System {
    /// Makes an agent, or finds it. Durable when it returns; dropping the future may or may not have made it.
    pub async fn spawn(&self, profile: AgentProfile) -> Result<AgentHandle, SpawnError> {
        let AgentProfile { name, client, weight } = profile;
        if !is_name(name.as_str()) {
            return Err(SpawnError::Name(name.to_string()));
        }
        if !(1..=ostler_scheduler::WEIGHT_MAX).contains(&weight) {
            return Err(SpawnError::Weight(weight));
        }
        let registry = self.services.links.registry().ok_or(SpawnError::Restarting)?;
        let (agent, owner) = (name.clone(), client.clone());
        let register = move |reply| RegistryMessage::Register { agent, client: owner, weight, reply };
        let position = ask(&registry, register).await.ok_or(SpawnError::Restarting)??;
        self.services.journal.durable(position).await.map_err(RegisterError::from)?;
        Ok(AgentHandle { system: self.clone(), name, client })
    }

    /// Puts an agent that is quarantined back into service: it takes runs again. Those that were set aside go on when they are
    /// asked for, with [`System::resume`]. Durable when it returns; dropping the future may or may not have released it.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]; nothing has changed then.
    pub async fn release(&self, agent: &str) -> Result<(), ReleaseError> {
        let registry = self.services.links.registry().ok_or(ReleaseError::Restarting)?;
        let agent = AgentId::from(agent);
        let released = ask(&registry, |reply| RegistryMessage::Release { agent, reply }).await;
        let position = released.ok_or(ReleaseError::Restarting)??;
        Ok(self.services.journal.durable(position).await?)
    }
}
