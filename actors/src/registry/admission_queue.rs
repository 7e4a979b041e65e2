//! Agents that wait for a place in a full pool. Clients take turns, so that no client keeps others out; within a client
//! the first comes first.

use std::collections::{BTreeMap, VecDeque};

use ostler_kernel::id::{AgentId, ClientId};

#[derive(Default)]
pub(super) struct AdmissionQueue {
    agents: BTreeMap<ClientId, VecDeque<AgentId>>,
    /// Order of the clients' turns.
    turns: VecDeque<ClientId>,
    pub(super) moves: bool,
}

impl AdmissionQueue {
    /// Adds an agent at the end of its client's line, or at the front if its turn was interrupted.
    pub(super) fn push(&mut self, client: ClientId, agent: AgentId, is_its_turn: bool) {
        let agents = self.agents.entry(client.clone()).or_default();
        match (is_its_turn, agents.is_empty()) {
            (true, true) => self.turns.push_front(client),
            (false, true) => self.turns.push_back(client),
            // The next agent of the same client has its turn only after this one.
            (true, false) => {
                self.turns.retain(|other| *other != client);
                self.turns.push_front(client);
            }
            (false, false) => {}
        }
        if is_its_turn { agents.push_front(agent) } else { agents.push_back(agent) }
    }

    pub(super) fn pop(&mut self) -> Option<AgentId> {
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

    pub(super) fn forget(&mut self, client: &ClientId, agent: &AgentId) {
        let Some(agents) = self.agents.get_mut(client) else { return };
        agents.retain(|other| other != agent);
        if agents.is_empty() {
            self.agents.remove(client);
            self.turns.retain(|other| other != client);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_who_was_called_stays_the_next() {
        let mut line = AdmissionQueue::default();
        for (client, agent) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]
        {
            line.push(client.into(), agent.into(), false);
        }
        let next = |line: &mut AdmissionQueue| line.pop().map(|agent| agent.to_string()).unwrap_or_default();
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
