//! Keeps virtual times within 64 bits: subtracts a queue's virtual time from all of its entities.
//!
//! All keys of a queue shift by the same amount, so the order stays the same.

use crate::client::ClientHandle;
use crate::event::Event;
use crate::run_queue::RunQueue;
use crate::tier::Tier;

impl<P> RunQueue<P> {
    /// Rebases the queues of the last pick, `tier` and the agents of `client`, if their virtual time exceeds `rebase_at`.
    pub(crate) fn rebase(&mut self, tier: Tier, client: u32, events: &mut Vec<Event>) {
        if self.tiers.vruntime[tier as usize] > self.rebase_at {
            self.rebase_tier(tier, events);
        }
        if self.clients[client].agents_vruntime > self.rebase_at {
            self.rebase_agents(client, events);
        }
    }

    fn rebase_tier(&mut self, tier: Tier, events: &mut Vec<Event>) {
        let by = std::mem::take(&mut self.tiers.vruntime[tier as usize]);
        for (at, client) in self.clients.iter_mut() {
            if client.tier == tier {
                client.account.shift(-by);
                client.requeue(at, &mut self.tiers);
            }
        }
        events.push(Event::Rebased { tier, by });
    }

    fn rebase_agents(&mut self, at: u32, events: &mut Vec<Event>) {
        let client = &mut self.clients[at];
        let by = std::mem::take(&mut client.agents_vruntime);
        for place in 0..client.agents.len() {
            let agent_at = client.agents[place];
            let agent = &mut self.agents[agent_at];
            agent.account.shift(-by);
            client.reorder(agent_at, agent, agent.is_free);
        }
        let generation = self.clients.generation(at);
        events.push(Event::AgentsRebased { client: ClientHandle { at, generation }, by });
    }
}
