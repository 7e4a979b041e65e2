//! Recomputes, after each operation, which agents and clients are runnable or parked.
//!
//! Only agents that the operation can have changed are visited, in order of creation. Numbers `seq` and events therefore come in
//! the same order as if every agent were visited.

use crate::client::ClientHandle;
use crate::event::Event;
use crate::run_queue::RunQueue;

impl<P> RunQueue<P> {
    /// Refreshes `agent`, the agents in `changed`, and their clients.
    pub(crate) fn refresh_with(&mut self, agent: u32, events: &mut Vec<Event>) {
        if self.changed.is_empty() {
            let client = self.refresh_agent(agent);
            self.refresh_client(client, events);
            self.tiers.reset_owed_if_idle();
        } else {
            self.changed.push(agent);
            self.refresh(events);
        }
    }

    /// As [`RunQueue::refresh_with`], for a settlement, which leaves the first job of the agent the same.
    pub(crate) fn refresh_settled(&mut self, agent_at: u32, events: &mut Vec<Event>) {
        let agent = &mut self.agents[agent_at];
        let client = &mut self.clients[agent.client];
        if !self.changed.is_empty() || !client.account.runnable || client.balance.is_some() {
            return self.refresh_with(agent_at, events);
        }
        // The client and the agent stay runnable, so only their keys changed.
        client.reorder(agent_at, agent, agent.is_free);
        client.requeue(agent.client, &mut self.tiers);
        self.tiers.reset_owed_if_idle();
    }

    /// Refreshes the agents in `changed` and their clients.
    pub(crate) fn refresh(&mut self, events: &mut Vec<Event>) {
        if !self.changed.is_empty() {
            self.refresh_many(events);
        }
        self.tiers.reset_owed_if_idle();
    }

    fn refresh_many(&mut self, events: &mut Vec<Event>) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable_by_key(|&at| {
            let agent = &self.agents[at];
            (self.clients[agent.client].ordinal, agent.number)
        });
        changed.dedup();
        for (&agent, next) in changed.iter().zip(1..) {
            let client = self.refresh_agent(agent);
            if changed.get(next).is_none_or(|&next| self.agents[next].client != client) {
                self.refresh_client(client, events);
            }
        }
        changed.clear();
        self.changed = changed;
    }

    /// An agent is runnable if its first job is admitted by the bucket of the job's model. Returns the agent's client.
    fn refresh_agent(&mut self, at: u32) -> u32 {
        let agent = &mut self.agents[at];
        let first = agent.backlog.first();
        let mut demand = None;
        if !self.buckets.is_empty() {
            demand = first
                .and_then(|job| self.jobs.attributes(job))
                .and_then(|attributes| self.buckets.demand(attributes, self.clients[agent.client].tokens));
            if demand != agent.demand {
                self.buckets.move_waiting(at, agent.demand, demand);
                agent.demand = demand;
            }
        }
        let client = &mut self.clients[agent.client];
        let is_free = client.balance.is_some() && first.is_some_and(|job| self.jobs.is_free(job));
        let runnable = first.is_some() && demand.is_none_or(|demand| self.buckets.admits(demand));
        if runnable && !agent.account.runnable {
            self.seq += 1;
            agent.account.wake(client.agents_vruntime, self.seq);
        }
        agent.account.runnable = runnable;
        client.reorder(at, agent, is_free);
        agent.client
    }

    /// A client is runnable if one of its agents is, the cap is not reached, and the balance covers the first job. Otherwise
    /// the client is parked, and runnable only through an agent with a first job without credits.
    pub(crate) fn refresh_client(&mut self, at: u32, events: &mut Vec<Event>) {
        let client = &mut self.clients[at];
        let first = client.first_agent.filter(|_| client.in_flight < client.in_flight_max);
        let parked = match (first, client.balance) {
            (Some(agent), Some(balance)) => {
                let job = self.agents[agent].backlog.first().expect("a runnable agent has a job");
                !self.jobs.is_free(job) && balance < self.jobs.price(job).credits as i64
            }
            _ => false,
        };
        client.free_agent = match &client.agent_order {
            Some(order) if parked => order.first_free(),
            _ => None, // the first job of a parked client's only agent costs credits
        };
        let runnable = first.is_some() && (!parked || client.free_agent.is_some());
        if runnable && !client.account.runnable {
            self.seq += 1;
            client.account.wake(self.tiers.vruntime[client.tier as usize], self.seq);
        }
        client.account.runnable = runnable;
        client.requeue(at, &mut self.tiers);
        if parked != client.parked {
            client.parked = parked;
            let client = ClientHandle { at, generation: self.clients.generation(at) };
            events.push(if parked { Event::Parked(client) } else { Event::Unparked(client) });
        }
    }
}
