//! Agents: making one, and giving it runs.

use ostler_kernel::agent::{Oversight, Profile, ProfileError};
use ostler_kernel::id::{AgentId, CLIENT_DEFAULT, ClientId, NAME_RULE, RunId, is_name};

use crate::api::system::System;
use crate::messages::registry::{RegisterError, RegistryMessage, ReleaseError};
use crate::messages::submission::{Submission, SubmitError};

/// What an agent is to be. Its name, its client and what it says of itself never change.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentProfile {
    name: AgentId,
    client: ClientId,
    weight: Option<u32>,
    profile: Profile,
}

impl AgentProfile {
    /// An agent of client [`CLIENT_DEFAULT`], of weight 100, or of the one that it has already.
    pub fn new(name: &str) -> AgentProfile {
        let (client, profile) = (CLIENT_DEFAULT.into(), Profile::default());
        AgentProfile { name: name.into(), client, weight: None, profile }
    }

    /// Who pays for it.
    pub fn client(self, client: &str) -> AgentProfile {
        AgentProfile { client: client.into(), ..self }
    }

    /// Its weight among the agents of its client, 1 to 1,000,000. One that has another already is refused.
    pub fn weight(self, weight: u32) -> AgentProfile {
        AgentProfile { weight: Some(weight), ..self }
    }

    /// All that it says of itself, at once.
    pub fn profile(self, profile: Profile) -> AgentProfile {
        AgentProfile { profile, ..self }
    }

    /// What it can do, by names that jobs ask for.
    pub fn capabilities<T: Into<String>>(
        mut self,
        capabilities: impl IntoIterator<Item = T>,
    ) -> AgentProfile {
        self.profile.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// What it is for, such as `legal`: the domain of plans that name none.
    pub fn domain(mut self, domain: &str) -> AgentProfile {
        self.profile.domain = Some(domain.to_owned());
        self
    }

    /// How far people watch it; a plan may only ask for more.
    pub fn oversight(mut self, oversight: Oversight) -> AgentProfile {
        self.profile.oversight = Some(oversight);
        self
    }

    /// JSON Schema of what its runs are given.
    pub fn input(mut self, schema: serde_json::Value) -> AgentProfile {
        self.profile.input = Some(schema);
        self
    }

    /// JSON Schema of what comes of its runs: a run that gives something else has failed.
    pub fn output(mut self, schema: serde_json::Value) -> AgentProfile {
        self.profile.output = Some(schema);
        self
    }

    /// What it asks for a job, in credits.
    pub fn price(mut self, credits: u64) -> AgentProfile {
        self.profile.price = Some(credits);
        self
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
    /// What it says of itself cannot be.
    #[error(transparent)]
    Profile(#[from] ProfileError),
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
    /// Makes an agent, or finds it; one that says nothing of itself finds whichever has its name. Durable when it returns;
    /// dropping the future may or may not have made it.
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

    /// Puts an agent that is quarantined back into service: it takes runs again. Those that were set aside go on when they are
    /// asked for, with [`System::resume`]. Durable when it returns; dropping the future may or may not have released it.
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
