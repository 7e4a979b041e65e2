//! Starts the actors of agents while the pool has places.

use std::sync::Arc;

use ostler_kernel::id::AgentId;
use ostler_supervisor::{ChildSpec, Pool, Restart, StartChildError};

use super::RegistryState;
use super::agent_lifecycle::{Input, Step};
use crate::base::keys::{FairShareKey, Owner};
use crate::messages::mailboxes::{START_AGAIN, start_in};
use crate::messages::registry::RegistryMessage;
use crate::run::Agent;
use crate::run::arguments::AgentArguments;

impl RegistryState {
    /// Starts an actor, or puts the agent in line behind others. `called`: the agent comes from the line.
    pub(super) fn start(&mut self, agent: &AgentId, pool: Option<(Pool, u64)>, called: bool) {
        let (Some(entry), Some((pool, number))) = (self.agents.get(agent), pool) else { return };
        if !called && !self.line.is_empty() {
            return self.no_place(agent.clone(), number, false);
        }
        let lane =
            FairShareKey { client: entry.client.clone(), agent: entry.registered.then(|| agent.clone()) };
        let owner = Arc::new(Owner { agent: agent.clone(), lane, weight: entry.weight });
        let arguments = AgentArguments { owner, services: Arc::clone(&self.services) };
        let spec = ChildSpec::actor(agent.as_str(), || Agent, move || arguments.clone());
        let spec = spec.restart(Restart::Transient);
        let (services, agent) = (Arc::clone(&self.services), agent.clone());
        tokio::spawn(async move {
            let tell = |message| services.mailboxes.tell_registry(message);
            match start_in(&pool, spec).await {
                Ok(_) | Err(StartChildError::AlreadyStarted { .. }) => {}
                Err(StartChildError::MaxChildren { .. }) => {
                    return tell(RegistryMessage::NoPlace { agent, pool: number, called });
                }
                Err(StartChildError::Ended) => tell(RegistryMessage::PoolGone { agent, pool: number }),
                Err(error) => tell(RegistryMessage::GivenUp { agent, reason: error.to_string() }),
            }
            if called {
                tell(RegistryMessage::CallNext { pool: number });
            }
        });
    }

    /// Puts an agent in line; one that was called stays next.
    pub(super) fn no_place(&mut self, agent: AgentId, pool: u64, called: bool) {
        if !self.is_pool(pool) {
            // The present pool has been asked already.
            return;
        }
        self.take(&agent, Input::NoPlace);
        if let Some(entry) = self.agents.get(&agent).filter(|entry| entry.is_in_line()) {
            self.line.push(entry.client.clone(), agent, called);
        }
        // A called agent that is gone leaves the turn to the next.
        if called || !std::mem::replace(&mut self.line.moves, true) {
            let services = Arc::clone(&self.services);
            tokio::spawn(async move {
                tokio::time::sleep(START_AGAIN).await;
                services.mailboxes.tell_registry(RegistryMessage::CallNext { pool });
            });
        }
    }

    /// Lets the next agent in line try to start.
    pub(super) fn call_next(&mut self, pool: u64) {
        if !self.is_pool(pool) {
            return;
        }
        while let Some(agent) = self.line.pop() {
            let pool = self.services.mailboxes.pool();
            let Some(entry) = self.agents.get_mut(&agent) else { continue };
            match entry.take(Input::Called, pool.is_some()) {
                Step::Start => return self.start(&agent, pool, true),
                _ if entry.runs.is_empty() && !entry.registered => drop(self.agents.remove(&agent)),
                _ => {}
            }
        }
        self.line.moves = false;
    }

    fn is_pool(&self, number: u64) -> bool {
        self.services.mailboxes.pool().is_some_and(|(_, present)| present == number)
    }
}
