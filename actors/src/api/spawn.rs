//! Agents: spawning them, and submitting runs to them.

use ostler_kernel::agent::{Oversight, Profile, ProfileError};
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId, is_name};

use crate::api::system::System;
use crate::messages::registry::{RegisterError, RegistryMessage, ReleaseError};
use crate::messages::submission::{Submission, SubmitError};

/// Profile of an agent to spawn. Name, client and profile never change.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentProfile {
    name: AgentId,
    client: ClientId,
    weight: Option<u32>,
    profile: Profile,
}

impl AgentProfile {
    /// An agent of client [`CLIENT_DEFAULT`] with weight 100, or the agent that has the name already.
    pub fn new(name: &str) -> AgentProfile {
        let (client, profile) = (CLIENT_DEFAULT.into(), Profile::default());
        AgentProfile { name: name.into(), client, weight: None, profile }
    }

    /// Sets the client that pays.
    pub fn client(self, client: &str) -> AgentProfile {
        AgentProfile { client: client.into(), ..self }
    }

    /// Sets the weight among the agents of the client, 1 to 1,000,000. An existing agent with another weight is
    /// refused.
    pub fn weight(self, weight: u32) -> AgentProfile {
        AgentProfile { weight: Some(weight), ..self }
    }

    /// Sets the whole profile.
    pub fn profile(self, profile: Profile) -> AgentProfile {
        AgentProfile { profile, ..self }
    }

    /// Sets capabilities, by names that jobs ask for.
    pub fn capabilities<T: Into<String>>(
        mut self,
        capabilities: impl IntoIterator<Item = T>,
    ) -> AgentProfile {
        self.profile.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the domain, such as `legal`, for plans that name none.
    pub fn domain(mut self, domain: &str) -> AgentProfile {
        self.profile.domain = Some(domain.to_owned());
        self
    }

    /// Sets the oversight; a plan may only ask for more.
    pub fn oversight(mut self, oversight: Oversight) -> AgentProfile {
        self.profile.oversight = Some(oversight);
        self
    }

    /// Sets the JSON Schema of the input of its runs.
    pub fn input(mut self, schema: serde_json::Value) -> AgentProfile {
        self.profile.input = Some(schema);
        self
    }

    /// Sets the JSON Schema of the output of its runs: a run with another output fails.
    pub fn output(mut self, schema: serde_json::Value) -> AgentProfile {
        self.profile.output = Some(schema);
        self
    }

    /// Sets the price for a job, in credits.
    pub fn price(mut self, credits: u64) -> AgentProfile {
        self.profile.price = Some(credits);
        self
    }
}

/// The reason why an agent was not spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The name is malformed.
    #[error("agent name {0:?} is not {NAME_RULE}")]
    Name(String),
    /// The weight is out of range.
    #[error("weight {0} is not within 1 and 1,000,000")]
    Weight(u32),
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The registry refused the agent.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// A spawned agent.
#[derive(Clone)]
pub struct AgentHandle {
    system: System,
    name: AgentId,
    client: ClientId,
}

impl AgentHandle {
    /// The name.
    pub fn name(&self) -> &AgentId {
        &self.name
    }

    /// Submits a plan, behind the agent's earlier runs. Durable on return; see [`System::submit`].
    pub async fn submit(&self, submission: Submission) -> Result<RunId, SubmitError> {
        let (agent, client) = (Some(self.name.clone()), self.client.clone());
        self.system.submit(Submission { agent, client, ..submission }).await
    }
}

impl System {
    /// Spawns an agent, or finds it; an empty profile finds any agent with the name. Durable on return; dropping
    /// the future may or may not have taken effect.
    pub async fn spawn(&self, profile: AgentProfile) -> Result<AgentHandle, SpawnError> {
        let AgentProfile { name, client, weight, profile } = profile;
        if !is_name(name.as_str()) {
            return Err(SpawnError::Name(name.to_string()));
        }
        if let Some(weight) = weight.filter(|weight| !(1..=ostler_scheduler::WEIGHT_MAX).contains(weight)) {
            return Err(SpawnError::Weight(weight));
        }
        let profile = profile.checked()?;
        let (agent, owner) = (name.clone(), client.clone());
        let register =
            move |reply| RegistryMessage::Register { agent, client: owner, weight, profile, reply };
        let position = self.ask_registry(register).await.ok_or(SpawnError::Restarting)??;
        self.services.journal.durable(position).await.map_err(RegisterError::from)?;
        Ok(AgentHandle { system: self.clone(), name, client })
    }

    /// Puts a quarantined agent back into service. Its suspended runs need [`System::resume`]. Durable on return;
    /// dropping the future may or may not have taken effect.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]; nothing has changed then.
    pub async fn release(&self, agent: &str) -> Result<(), ReleaseError> {
        let agent = AgentId::from(agent);
        let released = self.ask_registry(|reply| RegistryMessage::Release { agent, reply }).await;
        let position = released.ok_or(ReleaseError::Restarting)??;
        Ok(self.services.journal.durable(position).await?)
    }
}
