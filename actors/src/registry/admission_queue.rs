//! Agents that wait for a place for their actor: there are as many actors as there may be. Clients take turns, so that no flood of one
//! keeps another out, and of each client who came first goes first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ostler_kernel::id::{AgentId, ClientId};
use ostler_supervisor::{ChildSpec, Pool, Restart, StartChildError};

use super::agent_lifecycle::{Input, Step};
use super::{RegistryMessage, RegistryState};
use crate::messages::mailboxes::{START_AGAIN, start_in};
use crate::run::{Agent, AgentArguments};
use crate::scheduler::{Lane, Owner};

/// Who waits.
#[derive(Default)]
pub(super) struct Line {
    agents: BTreeMap<ClientId, VecDeque<AgentId>>,
    /// Whose turn it is, in this order.
    turns: VecDeque<ClientId>,
    /// Whether somebody is about to be called, or tries this moment.
    moves: bool,
}

impl Line {
    /// Puts an agent at the end of its client's, or back to the front: it was its turn.
    fn push(&mut self, client: ClientId, agent: AgentId, is_its_turn: bool) {
        let agents = self.agents.entry(client.clone()).or_default();
        match (is_its_turn, agents.is_empty()) {
            (true, true) => self.turns.push_front(client),
            (false, true) => self.turns.push_back(client),
            // It is the turn of another agent of the same client only after this one.
            (true, false) => {
                self.turns.retain(|other| *other != client);
                self.turns.push_front(client);
            }
            (false, false) => {}
        }
        if is_its_turn { agents.push_front(agent) } else { agents.push_back(agent) }
    }

    /// Who is next.
    fn pop(&mut self) -> Option<AgentId> {
        let client = self.turns.pop_front()?;
        let agents = self.agents.get_mut(&client)?;
        let agent = agents.pop_front();
        if agents.is_empty() {
            self.agents.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        agent
    }

    /// Takes an agent out: it has nothing to do any more.
    pub(super) fn forget(&mut self, client: &ClientId, agent: &AgentId) {
        let Some(agents) = self.agents.get_mut(client) else { return };
        agents.retain(|other| other != agent);
        if agents.is_empty() {
            self.agents.remove(client);
            self.turns.retain(|other| other != client);
        }
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl RegistryState {
    /// Starts an actor for an agent, unless others wait for a place: then it waits behind them. `called`: it has waited.
    pub(super) fn start(&mut self, agent: &AgentId, pool: Option<(Pool, u64)>, called: bool) {
        let (Some(entry), Some((pool, number))) = (self.agents.get(agent), pool) else { return };
        if !called && !self.line.is_empty() {
            return self.no_place(agent.clone(), number, false);
        }
        let lane = Lane { client: entry.client.clone(), agent: entry.registered.then(|| agent.clone()) };
        let owner = Arc::new(Owner { agent: agent.clone(), lane, weight: entry.weight });
        let arguments = AgentArguments { owner, services: Arc::clone(&self.services) };
        let spec = ChildSpec::actor(agent.as_str(), || Agent, move || arguments.clone());
        let spec = spec.restart(Restart::Transient);
        let (services, agent) = (Arc::clone(&self.services), agent.clone());
        tokio::spawn(async move {
            let tell = |message| services.links.tell_registry(message);
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

    /// There is no place for an agent: it stands in line. One that was called stays the next.
    pub(super) fn no_place(&mut self, agent: AgentId, pool: u64, called: bool) {
        if !self.is_pool(pool) {
            // Whoever wants a place in the pool that is up now has asked for it.
            return;
        }
        self.take(&agent, Input::NoPlace);
        if let Some(entry) = self.agents.get(&agent).filter(|entry| entry.is_in_line()) {
            self.line.push(entry.client.clone(), agent, called);
        }
        // Whoever was called and is gone by now leaves the turn to the next.
        if called || !std::mem::replace(&mut self.line.moves, true) {
            let services = Arc::clone(&self.services);
            tokio::spawn(async move {
                tokio::time::sleep(START_AGAIN).await;
                services.links.tell_registry(RegistryMessage::CallNext { pool });
            });
        }
    }

    /// Lets the next one try that still wants a place.
    pub(super) fn call_next(&mut self, pool: u64) {
        if !self.is_pool(pool) {
            return;
        }
        while let Some(agent) = self.line.pop() {
            let pool = self.services.links.pool();
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
        self.services.links.pool().is_some_and(|(_, present)| present == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_who_was_called_stays_the_next() {
        let mut line = Line::default();
        for (client, agent) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]
        {
            line.push(client.into(), agent.into(), false);
        }
        let next = |line: &mut Line| line.pop().map(|agent| agent.to_string()).unwrap_or_default();
        assert_eq!([next(&mut line), next(&mut line)], ["a1", "b1"]);
        line.push("b".into(), "b1".into(), true);
        assert_eq!([(); 6].map(|()| next(&mut line)), ["b1", "c1", "a2", "b2", "a3", ""]);
        assert!(line.is_empty());
        line.push("a".into(), "a4".into(), true);
        assert_eq!(next(&mut line), "a4");
        for agent in ["a1", "a2"] {
            line.push("a".into(), agent.into(), false);
        }
        ["a1", "a2", "a3"].into_iter().for_each(|agent| line.forget(&"a".into(), &agent.into()));
        assert!(line.is_empty() && line.agents.is_empty());
    }
}
