//! The order of the runnable agents of one client.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::agent::Agent;

/// Position of a runnable agent among its client's: least vruntime first, ties by `seq`, which no two agents share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentKey {
    pub(crate) vruntime: i64,
    /// Never 0, so that an `Option` of a key takes no more room.
    pub(crate) seq: NonZeroU64,
}

/// The runnable agents of a client that has two or more. The numbers are their places in the queue's agents.
#[derive(Default)]
pub(crate) struct AgentOrder {
    ready: BTreeMap<AgentKey, u32>,
    /// Those whose first job costs no credits; kept while the client has a balance.
    free: BTreeMap<AgentKey, u32>,
}

impl AgentOrder {
    /// Moves `agent`, stored at `at`, to its present position, and out of the order while it is not runnable.
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

    /// The first of the agents whose first job costs no credits.
    pub(crate) fn first_free(&self) -> Option<u32> {
        self.free.first_key_value().map(|(_, &at)| at)
    }
}
