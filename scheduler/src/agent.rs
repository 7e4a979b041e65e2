//! An agent: a queue of jobs within a client.

use std::num::{NonZeroU32, NonZeroU64};

use crate::account::Account;
use crate::agent_order::AgentKey;
use crate::backlog::Backlog;
use crate::bucket::TokenDemand;

/// Handle of an agent; valid as long as the agent's client exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
}

pub(crate) struct Agent {
    pub(crate) account: Account,
    pub(crate) client: u32,
    /// Number among the client's agents, in order of creation.
    pub(crate) number: u32,
    pub(crate) backlog: Backlog,
    /// Tokens that the first job needs; `None` for a job without a bucket.
    pub(crate) demand: Option<TokenDemand>,
    /// Key in the client's [`AgentOrder`](crate::agent_order::AgentOrder), while the agent stands there.
    pub(crate) queued_under: Option<AgentKey>,
    /// The client is metered, and the first job costs no credits.
    pub(crate) is_free: bool,
}

impl Agent {
    pub(crate) fn new(client: u32, number: u32, weight: u32) -> Self {
        Self {
            account: Account::new(weight),
            client,
            number,
            backlog: Backlog::default(),
            demand: None,
            queued_under: None,
            is_free: false,
        }
    }

    /// Position among the client's agents; `None` unless the agent is runnable.
    pub(crate) fn key(&self) -> Option<AgentKey> {
        let Account { vruntime, seq, runnable, .. } = self.account;
        NonZeroU64::new(seq).filter(|_| runnable).map(|seq| AgentKey { vruntime, seq })
    }
}
