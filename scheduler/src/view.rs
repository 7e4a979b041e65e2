//! What the queue shows of itself.

use crate::agent::AgentHandle;
use crate::client::{Client, ClientHandle};
use crate::error::UnknownClient;
use crate::run_queue::RunQueue;
use crate::tier::Tier;

/// A client at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientView {
    /// Which client.
    pub client: ClientHandle,
    /// Which tier it is served in.
    pub tier: Tier,
    /// The weight that counts, bent by reputation.
    pub weight: u32,
    /// 0 to 1000, 500 in the middle.
    pub reputation: u16,
    /// Virtual time.
    pub vruntime: i64,
    /// What its last division left over.
    pub remainder: u32,
    /// Its head start.
    pub warp: i64,
    /// Virtual time of the queue of its agents.
    pub agents_vruntime: i64,
    /// Jobs that run.
    pub in_flight: u32,
    /// Most jobs that may run at once; `u32::MAX` is no cap.
    pub in_flight_max: u32,
    /// Jobs that wait.
    pub queued: u64,
    /// All it was ever charged.
    pub charged: i128,
    /// Credits that its running jobs are charged until they are settled.
    pub held: u64,
    /// Its credits, if it is metered.
    pub balance: Option<i64>,
    /// Whether the next dispatch may take a job of it.
    pub runnable: bool,
    /// Whether its balance does not pay for its first job: nothing of it is dispatched but what costs no credits.
    pub parked: bool,
}

/// An agent at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentView {
    /// Which agent.
    pub agent: AgentHandle,
    /// Its weight among its client's agents.
    pub weight: u32,
    /// Virtual time.
    pub vruntime: i64,
    /// What its last division left over.
    pub remainder: u32,
    /// Jobs that wait.
    pub queued: u64,
    /// Whether it has a job that its model's bucket admits.
    pub runnable: bool,
}

/// A tier at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierView {
    /// Virtual time.
    pub vruntime: i64,
    /// How many clients are runnable.
    pub runnable: u32,
}

impl<P> RunQueue<P> {
    /// One client.
    pub fn client(&self, client: ClientHandle) -> Result<ClientView, UnknownClient> {
        self.find_client(client).map(|found| self.view(client, found))
    }

    /// All clients, in order of creation.
    pub fn clients(&self) -> Vec<ClientView> {
        let mut all: Vec<_> = self.clients.iter().collect();
        all.sort_unstable_by_key(|(_, _, client)| client.ordinal);
        all.into_iter()
            .map(|(at, generation, client)| self.view(ClientHandle { at, generation }, client))
            .collect()
    }

    /// The agents of a client, in order of creation.
    pub fn agents(&self, client: ClientHandle) -> Result<Vec<AgentView>, UnknownClient> {
        let found = self.find_client(client)?;
        Ok(found
            .agents
            .iter()
            .map(|&at| {
                let agent = &self.agents[at];
                AgentView {
                    agent: self.agent_handle(at),
                    weight: agent.account.weight,
                    vruntime: agent.account.vruntime,
                    remainder: agent.account.remainder,
                    queued: agent.backlog.len() as u64,
                    runnable: agent.account.runnable,
                }
            })
            .collect())
    }

    /// Credits that the running jobs of a client are charged until they are settled.
    pub fn held(&self, client: ClientHandle) -> Result<u64, UnknownClient> {
        Ok(self.find_client(client)?.held)
    }

    /// A tier.
    pub fn tier(&self, tier: Tier) -> TierView {
        TierView { vruntime: self.tiers.vruntime[tier as usize], runnable: self.tiers.runnable(tier) }
    }

    /// What a client was charged less than its tier's virtual time entitles it to, in units of charge; below zero, more.
    /// One that wants nothing is never behind.
    pub fn lag(&self, client: &ClientView) -> i128 {
        let behind = i128::from(self.tier(client.tier).vruntime) - i128::from(client.vruntime);
        let has_work = client.runnable || client.in_flight > 0;
        let behind = if has_work { behind } else { behind.min(0) };
        behind * i128::from(client.weight) / i128::from(self.config.scale)
    }

    /// What the marketplace is owed, in thousandths of charge; negative if it is ahead.
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
