//! An agent: the queue within a client that jobs stand in.

use std::num::{NonZeroU32, NonZeroU64};

use crate::account::Account;
use crate::agent_order::AgentKey;
use crate::backlog::Backlog;
use crate::bucket::TokenDemand;

/// An agent of a client; it lasts as long as its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
}

pub(crate) struct Agent {
    pub(crate) account: Account,
    pub(crate) client: u32,
    /// Its number among its client's agents, in order of creation.
    pub(crate) number: u32,
    pub(crate) backlog: Backlog,
    /// What its first job needs of a bucket, if anything.
    pub(crate) demand: Option<TokenDemand>,
    /// Its key in the client's [`AgentOrder`](crate::agent_order::AgentOrder), while it stands there.
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

    /// Its position among the client's agents; `None` unless it is runnable.
    pub(crate) fn key(&self) -> Option<AgentKey> {
        let Account { vruntime, seq, runnable, .. } = self.account;
        NonZeroU64::new(seq).filter(|_| runnable).map(|seq| AgentKey { vruntime, seq })
    }
}
