//! Adding, changing and removing clients and agents.

use crate::agent::{Agent, AgentHandle};
use crate::client::{Client, ClientHandle, Latency, NewClient, REPUTATION_MAX, REPUTATION_START};
use crate::config::{AMOUNT_DEBT_MAX, BALANCE_MAX, WEIGHT_MAX};
use crate::error::{
    AddAgentError, AddClientError, CreditError, RemoveClientError, ReputationError, UnknownClient,
    WeightError,
};
use crate::event::Event;
use crate::run_queue::RunQueue;
use crate::tier::Tier;

impl<P> RunQueue<P> {
    /// Adds a client without agents.
    pub fn add_client(&mut self, new: NewClient) -> Result<ClientHandle, AddClientError> {
        if !(1..=WEIGHT_MAX).contains(&new.weight) {
            return Err(AddClientError::BadWeight(new.weight));
        }
        if let Some(balance) = new.balance.filter(|balance| !(0..=BALANCE_MAX).contains(balance)) {
            return Err(AddClientError::BadBalance(balance));
        }
        if new.in_flight_max == Some(0) {
            return Err(AddClientError::BadCap);
        }
        if let Some(bucket) = new.tokens.filter(|bucket| !bucket.is_valid()) {
            return Err(AddClientError::BadBucket { rate: bucket.rate, burst: bucket.burst });
        }
        if self.clients.len() >= self.config.clients_max {
            return Err(AddClientError::Full(self.config.clients_max));
        }
        let warp = match new.latency {
            Latency::Interactive => self.config.warp.interactive,
            Latency::Normal => self.config.warp.normal,
            Latency::Batch => self.config.warp.batch,
        };
        self.clients_created += 1;
        let tokens = new.tokens.map(|bucket| self.buckets.add(&bucket));
        let client = Client::new(&new, tokens, warp as i64, self.clients_created);
        let (at, generation) = self.clients.insert(client, 0);
        Ok(ClientHandle { at, generation })
    }

    /// Removes a client with its agents, its debt and its balance. Refused while the client has queued or running jobs.
    ///
    /// A client added again starts without debt, so tenants must not be able to remove themselves.
    pub fn remove_client(&mut self, client: ClientHandle) -> Result<(), RemoveClientError> {
        let found = self.find_client(client)?;
        let queued = found.agents.iter().map(|&at| self.agents[at].backlog.len() as u64).sum();
        if queued > 0 || found.in_flight > 0 {
            return Err(RemoveClientError::Busy { queued, in_flight: found.in_flight });
        }
        let (removed, _) = self.clients.remove(client.at);
        for agent in removed.agents {
            self.agents.remove(agent);
        }
        if let Some(bucket) = removed.tokens {
            self.buckets.remove(bucket);
        }
        Ok(())
    }

    /// Adds an agent to a client, for the life of the client.
    pub fn add_agent(&mut self, client: ClientHandle, weight: u32) -> Result<AgentHandle, AddAgentError> {
        self.find_client(client)?;
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(AddAgentError::BadWeight(weight));
        }
        if self.agents.len() >= self.config.agents_max {
            return Err(AddAgentError::Full(self.config.agents_max));
        }
        let owner = &mut self.clients[client.at];
        let number = owner.agents.len() as u32;
        let (at, generation) = self.agents.insert(Agent::new(client.at, number, weight), 0);
        if number == 0 {
            owner.agents.reserve_exact(1); // most clients have one agent
        }
        owner.agents.push(at);
        if number == 1 {
            owner.agent_order = Some(Box::default());
            let first = &mut self.agents[owner.agents[0]];
            owner.reorder(owner.agents[0], first, first.is_free);
        }
        Ok(AgentHandle { at, generation })
    }

    /// Adds `amount` credits, which may be negative, to the balance. Returns the new balance.
    pub fn credit(
        &mut self,
        client: ClientHandle,
        amount: i64,
        events: &mut Vec<Event>,
    ) -> Result<i64, CreditError> {
        self.find_client(client)?;
        let balance = self.clients[client.at].balance.as_mut().ok_or(CreditError::Unmetered)?;
        // A deposit into an overdrawn balance may leave it below zero, so only the bound in the direction of `amount` counts.
        let changed = balance.checked_add(amount).filter(|&sum| match amount {
            1.. => sum <= BALANCE_MAX,
            0 => true,
            _ => sum >= 0,
        });
        *balance = changed.ok_or(CreditError::Overflow { balance: *balance, amount })?;
        let balance = *balance;
        self.refresh_client(client.at, events);
        self.tiers.reset_owed_if_idle();
        Ok(balance)
    }

    /// Sets the balance, which may be negative, and makes the client metered.
    pub fn set_balance(
        &mut self,
        client: ClientHandle,
        balance: i64,
        events: &mut Vec<Event>,
    ) -> Result<(), CreditError> {
        self.find_client(client)?;
        if !(-AMOUNT_DEBT_MAX..=BALANCE_MAX).contains(&balance) {
            return Err(CreditError::Overflow { balance: 0, amount: balance });
        }
        if self.clients[client.at].balance.replace(balance).is_none() {
            // The queue tracks agents with a job without credits for metered clients only.
            self.changed.extend(&self.clients[client.at].agents);
            self.refresh(events);
        }
        self.refresh_client(client.at, events);
        self.tiers.reset_owed_if_idle();
        Ok(())
    }

    /// Makes the client unmetered: its jobs need no balance.
    pub fn clear_balance(
        &mut self,
        client: ClientHandle,
        events: &mut Vec<Event>,
    ) -> Result<(), UnknownClient> {
        self.find_client(client)?;
        if self.clients[client.at].balance.take().is_some() {
            self.changed.extend(&self.clients[client.at].agents);
            self.refresh(events);
            self.refresh_client(client.at, events);
            self.tiers.reset_owed_if_idle();
        }
        Ok(())
    }

    /// Sets the base weight and returns the effective weight, which reputation modifies. The client keeps its lag.
    pub fn set_weight(&mut self, client: ClientHandle, weight: u32) -> Result<u32, WeightError> {
        self.find_client(client)?;
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(WeightError::BadWeight(weight));
        }
        self.clients[client.at].base_weight = weight;
        Ok(self.reweigh(client.at))
    }

    /// Sets the reputation, 0 to 1000 with 500 neutral, and returns the effective weight. The client keeps its lag.
    ///
    /// Reputation changes the weight by at most `reputation_pm_max`, so the feedback from service to reputation to service has
    /// a gain below 1 and cannot run away.
    pub fn set_reputation(&mut self, client: ClientHandle, reputation: u16) -> Result<u32, ReputationError> {
        self.find_client(client)?;
        if reputation > REPUTATION_MAX {
            return Err(ReputationError::OutOfRange(reputation));
        }
        self.clients[client.at].reputation = reputation;
        Ok(self.reweigh(client.at))
    }

    /// Moves a client to a tier. Backlog and lag are kept.
    pub fn set_tier(&mut self, client: ClientHandle, tier: Tier) -> Result<(), UnknownClient> {
        let from = self.find_client(client)?.tier;
        if from != tier {
            let moved = &mut self.clients[client.at];
            moved.account.shift(self.tiers.vruntime[tier as usize] - self.tiers.vruntime[from as usize]);
            moved.tier = tier;
            moved.requeue(client.at, &mut self.tiers);
            self.tiers.reset_owed_if_idle();
        }
        Ok(())
    }

    pub(crate) fn find_client(&self, client: ClientHandle) -> Result<&Client, UnknownClient> {
        if self.clients.contains(client.at, client.generation) {
            Ok(&self.clients[client.at])
        } else {
            Err(UnknownClient)
        }
    }

    fn reweigh(&mut self, at: u32) -> u32 {
        let client = &mut self.clients[at];
        let limit = i64::from(self.config.reputation_pm_max);
        let merit = i64::from(client.reputation) - i64::from(REPUTATION_START);
        let bend = (merit * i64::from(self.config.beta_pm))
            .div_euclid(i64::from(REPUTATION_START))
            .clamp(-limit, limit);
        let weight = (i64::from(client.base_weight) * (1000 + bend) / 1000).max(1) as u32;
        client.account.reweigh(weight, self.tiers.vruntime[client.tier as usize]);
        client.requeue(at, &mut self.tiers);
        weight
    }
}
