//! What a call answers, and what it changed besides its answer.

use crate::client::ClientHandle;
use crate::job::JobHandle;
use crate::tier::Tier;

/// One thing that happened, in the order it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A job runs now: start its attempt.
    Granted(Grant),
    /// A running job reached a step boundary; if it yielded it is queued again under the same handle.
    Stepped {
        /// The job.
        job: JobHandle,
        /// Whether it gave its slot back.
        yielded: bool,
    },
    /// The client's balance does not pay for its first job: nothing of it is dispatched until it does, but what costs no credits.
    Parked(ClientHandle),
    /// The client left that state; it need not be runnable.
    Unparked(ClientHandle),
    /// `by` was taken off the virtual time of a tier and of every client in it.
    Rebased {
        /// The tier.
        tier: Tier,
        /// How much.
        by: i64,
    },
    /// `by` was taken off the virtual time of a client's agents and of their queue.
    AgentsRebased {
        /// The client.
        client: ClientHandle,
        /// How much.
        by: i64,
    },
}

/// A job that was given a slot, its estimate charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The job; its payload is [`RunQueue::job`](crate::RunQueue::job).
    pub job: JobHandle,
    /// Who pays.
    pub client: ClientHandle,
    /// The tier it was taken from.
    pub tier: Tier,
    /// The client's virtual time less its head start, before the charge: what it won with.
    pub key: i64,
    /// The accounts right after the charge; a later [`Event::Rebased`] of the same call shifts them.
    pub accounts: Accounts,
}

/// Absolute values of the accounts that a charge touched: the last value of each is what to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounts {
    /// Virtual time of the client.
    pub client_vruntime: i64,
    /// What its last division left over.
    pub client_remainder: u32,
    /// Its balance in credits, if it is metered.
    pub balance: Option<i64>,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Virtual time of the agent.
    pub agent_vruntime: i64,
    /// What its last division left over.
    pub agent_remainder: u32,
    /// Virtual time of the client's tier.
    pub tier_vruntime: i64,
    /// What the marketplace is owed, in thousandths of charge.
    pub owed: i128,
}

/// A job that is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled<P> {
    /// What was queued.
    pub payload: P,
    /// Who paid.
    pub client: ClientHandle,
    /// The accounts after the settlement.
    pub accounts: Accounts,
    /// The jobs that were queued with the settlement, in the order they were given.
    pub following: Vec<JobHandle>,
}
