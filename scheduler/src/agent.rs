//! An agent: the queue within a client that jobs stand in.

use std::num::NonZeroU32;

use crate::account::Account;
use crate::backlog::Backlog;
use crate::bucket::Gate;
use crate::tournament::Key;

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
    pub(crate) gate: Option<Gate>,
    /// Its key among those of its client whose first job costs no credits.
    pub(crate) free: Option<Key>,
}

impl Agent {
    pub(crate) fn new(client: u32, number: u32, weight: u32) -> Self {
        Self {
            account: Account::new(weight),
            client,
            number,
            backlog: Backlog::default(),
            gate: None,
            free: None,
        }
    }

    /// Its place among the client's agents.
    pub(crate) fn key(&self) -> Key {
        if self.account.runnable { Key::new(self.account.vruntime, self.account.seq) } else { Key::ABSENT }
    }
}
