//! The order of the runnable agents of one client.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::agent::Agent;

/// Position of a runnable agent among those of its client: least vruntime first, ties by `seq`. No two agents share a `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentKey {
    pub(crate) vruntime: i64,
    /// Nonzero, so that `Option<AgentKey>` has the size of a key.
    pub(crate) seq: NonZeroU64,
}

/// The runnable agents of a client that has two or more agents, as indices of the queue's arena.
#[derive(Default)]
pub(crate) struct AgentOrder {
    ready: BTreeMap<AgentKey, u32>,
    /// The agents with a first job without credits; filled only for a metered client.
    free: BTreeMap<AgentKey, u32>,
}

impl AgentOrder {
    /// Moves `agent`, stored at `at`, to the position of its present key; removes an agent that is not runnable.
    pub(crate) fn place(&mut self, at: u32, agent: &mut Agent, is_free: bool) {
        let key = agent.key();
        if key == agent.queued_under && is_free == agent.is_free {
            return;
        }
        if let Some(old) = agent.queued_under {
            self.ready.remove(&old);
            self.free.remove(&old);
        }
        (agent.queued_under, agent.is_free) = (key, is_free);
        if let Some(key) = key {
            self.ready.insert(key, at);
            if is_free {
                self.free.insert(key, at);
            }
        }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.ready.first_key_value().map(|(_, &at)| at)
    }

    /// The first agent with a first job without credits.
    pub(crate) fn first_free(&self) -> Option<u32> {
        self.free.first_key_value().map(|(_, &at)| at)
    }
}
