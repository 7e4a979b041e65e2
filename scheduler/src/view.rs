//! Read-only views of the queue.

use crate::agent::AgentHandle;
use crate::client::{Client, ClientHandle};
use crate::error::UnknownClient;
use crate::run_queue::RunQueue;
use crate::tier::Tier;

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientView {
    /// Handle of the client.
    pub client: ClientHandle,
    /// The tier that serves the client.
    pub tier: Tier,
    /// Effective weight, after reputation.
    pub weight: u32,
    /// 0 to 1000; 500 is neutral.
    pub reputation: u16,
    /// Virtual time.
    pub vruntime: i64,
    /// Remainder of the last division by the weight.
    pub remainder: u32,
    /// Head start in virtual time.
    pub warp: i64,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Number of running jobs.
    pub in_flight: u32,
    /// Maximum number of running jobs; `u32::MAX` is no cap.
    pub in_flight_max: u32,
    /// Number of queued jobs.
    pub queued: u64,
    /// Total charge since creation.
    pub charged: i128,
    /// Credits charged for running jobs, subject to settlement.
    pub held: u64,
    /// Credits; `None` if unmetered.
    pub balance: Option<i64>,
    /// True if the next dispatch may take a job of this client.
    pub runnable: bool,
    /// True if the balance does not cover the first job: only jobs without credits are dispatched.
    pub parked: bool,
}

/// State of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentView {
    /// Handle of the agent.
    pub agent: AgentHandle,
    /// Weight among the client's agents.
    pub weight: u32,
    /// Virtual time.
    pub vruntime: i64,
    /// Remainder of the last division by the weight.
    pub remainder: u32,
    /// Number of queued jobs.
    pub queued: u64,
    /// True if the first job is admitted by its bucket.
    pub runnable: bool,
}

/// State of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierView {
    /// Virtual time.
    pub vruntime: i64,
    /// Number of runnable clients.
    pub runnable: u32,
}

impl<P> RunQueue<P> {
    /// State of one client.
    pub fn client(&self, client: ClientHandle) -> Result<ClientView, UnknownClient> {
        self.find_client(client).map(|found| self.view(client, found))
    }

    /// States of all clients, in order of creation.
    pub fn clients(&self) -> Vec<ClientView> {
        let mut all: Vec<_> = self.clients.iter().collect();
        all.sort_unstable_by_key(|(_, _, client)| client.ordinal);
        all.into_iter()
            .map(|(at, generation, client)| self.view(ClientHandle { at, generation }, client))
            .collect()
    }

    /// States of the agents of a client, in order of creation.
    pub fn agents(&self, client: ClientHandle) -> Result<Vec<AgentView>, UnknownClient> {
        let found = self.find_client(client)?;
        Ok(found.agents.iter().map(|&at| self.view_agent(self.agent_handle(at))).collect())
    }

    /// State of one agent; `None` if it was removed with its client, or belongs to another queue.
    pub fn agent(&self, agent: AgentHandle) -> Option<AgentView> {
        self.agents.contains(agent.at, agent.generation).then(|| self.view_agent(agent))
    }

    fn view_agent(&self, handle: AgentHandle) -> AgentView {
        let agent = &self.agents[handle.at];
        AgentView {
            agent: handle,
            weight: agent.account.weight,
            vruntime: agent.account.vruntime,
            remainder: agent.account.remainder,
            queued: agent.backlog.len() as u64,
            runnable: agent.account.runnable,
        }
    }

    /// Credits charged for running jobs of a client, subject to settlement.
    pub fn held(&self, client: ClientHandle) -> Result<u64, UnknownClient> {
        Ok(self.find_client(client)?.held)
    }

    /// State of a tier.
    pub fn tier(&self, tier: Tier) -> TierView {
        TierView { vruntime: self.tiers.vruntime[tier as usize], runnable: self.tiers.runnable(tier) }
    }

    /// Lag of a client: the service that the client's entitlement exceeds its charge by, in units of charge; negative for a client
    /// ahead of its tier. A client without work has no positive lag.
    pub fn lag(&self, client: &ClientView) -> i128 {
        let behind = i128::from(self.tier(client.tier).vruntime) - i128::from(client.vruntime);
        let has_work = client.runnable || client.in_flight > 0;
        let behind = if has_work { behind } else { behind.min(0) };
        behind * i128::from(client.weight) / i128::from(self.config.scale)
    }

    /// Amount owed to the marketplace, in thousandths of charge; negative if the marketplace is ahead.
    pub fn owed(&self) -> i128 {
        self.tiers.owed
    }

    fn view(&self, handle: ClientHandle, client: &Client) -> ClientView {
        ClientView {
            client: handle,
            tier: client.tier,
            weight: client.account.weight,
            reputation: client.reputation,
            vruntime: client.account.vruntime,
            remainder: client.account.remainder,
            warp: client.warp,
            agents_vruntime: client.agents_vruntime,
            in_flight: client.in_flight,
            in_flight_max: client.in_flight_max,
            queued: client.agents.iter().map(|&at| self.agents[at].backlog.len() as u64).sum(),
            charged: client.charged,
            held: client.held,
            balance: client.balance,
            runnable: client.account.runnable,
            parked: client.parked,
        }
    }
}
