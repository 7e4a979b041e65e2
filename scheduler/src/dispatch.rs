//! Dispatch: selects the next jobs and charges their estimates.
//!
//! The selection goes down three levels. The tier is the contracted one, unless the marketplace is owed its next job. Within the tier,
//! the client with the least vruntime − warp; within the client, the agent with the least vruntime; within the agent, the
//! first job. For a parked client, the agent is the first with a first job without credits.

use crate::bucket::Taking;
use crate::client::ClientHandle;
use crate::cost::Price;
use crate::event::{Event, Grant};
use crate::job::JobHandle;
use crate::run_queue::RunQueue;
use crate::settle::{CostDelta, accounts};
use crate::tier::Tier;

impl<P> RunQueue<P> {
    /// Dispatches up to `n` jobs: each takes a slot, is charged its estimate, and appends a grant to `events`.
    ///
    /// Serving the least virtual time keeps every client within the bound T1 of the crate's documentation. Serving the
    /// marketplace as soon as it is owed the charge of its next job gives T2.
    ///
    /// Returns the number of dispatched jobs, less than `n` if the slots or the runnable clients run out.
    pub fn dispatch(&mut self, n: u32, events: &mut Vec<Event>) -> u32 {
        let mut granted = 0;
        while granted < n
            && self.running < self.config.slots
            && let Some((client, shared)) = self.pick()
        {
            self.grant(client, shared, events);
            granted += 1;
        }
        granted
    }

    /// The client to serve next, and true if the other tier also waits.
    fn pick(&self) -> Option<(u32, bool)> {
        let contracted = self.tiers.first(Tier::Contracted);
        match (contracted, self.tiers.first(Tier::Marketplace)) {
            (Some(_), Some(marketplace)) if self.marketplace_is_owed() => Some((marketplace, true)),
            (Some(contracted), marketplace) => Some((contracted, marketplace.is_some())),
            (None, marketplace) => Some((marketplace?, false)),
        }
    }

    /// True if the marketplace is owed the charge of its next job.
    pub(crate) fn marketplace_is_owed(&self) -> bool {
        let Some(client) = self.tiers.first(Tier::Marketplace) else { return false };
        let agent = self.clients[client].next_agent().expect("a runnable client has a runnable agent");
        let job = self.agents[agent].backlog.first().expect("a runnable agent has a job");
        self.tiers.owes(self.jobs.price(job).charge)
    }

    fn grant(&mut self, client_at: u32, shared: bool, events: &mut Vec<Event>) {
        let (client, generation) = self.clients.with_generation(client_at);
        let client_handle = ClientHandle { at: client_at, generation };
        let agent_at = client.next_agent().expect("a runnable client has a runnable agent");
        let agent = &mut self.agents[agent_at];
        let at = agent.backlog.pop_first(&mut self.jobs.payloads).expect("a runnable agent has a job");
        let (tier, key) = (client.tier, client.effective_vruntime());
        let tier_vruntime = &mut self.tiers.vruntime[tier as usize];
        *tier_vruntime = key.max(*tier_vruntime);
        client.agents_vruntime = client.agents_vruntime.max(agent.account.vruntime);
        client.in_flight += 1;
        self.running += 1;
        self.dispatches += 1;
        let owed_pm = if shared { self.tiers.owed_pm(tier) } else { 0 };
        let (running, generation) = self.jobs.start(at, owed_pm, self.dispatches);
        client.held += running.price.credits;
        let delta = CostDelta::between(Price::flat(0), running.price);
        delta.charge(client, agent, &mut self.tiers, owed_pm, self.scale);
        client.account.seq = self.seq + 1;
        agent.account.seq = self.seq + 2;
        self.seq += 2;
        if let Some(model) = running.model {
            let taking = Taking { model, client: client.tokens, tokens: delta.tokens, requests: 1 };
            self.buckets.take(taking, &mut self.changed);
        }
        events.push(Event::Granted(Grant {
            job: JobHandle { at, generation, agent: agent_at },
            client: client_handle,
            tier,
            key,
            accounts: accounts(client, agent, &self.tiers),
        }));
        let high = client.agents_vruntime.max(self.tiers.vruntime[tier as usize]);
        self.refresh_with(agent_at, events);
        if high > self.rebase_at {
            self.rebase(tier, client_at, events);
        }
    }
}
