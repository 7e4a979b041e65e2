//! Results and events of queue operations.

use crate::client::ClientHandle;
use crate::job::JobHandle;
use crate::tier::Tier;

/// A change that an operation made, in order of occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The job was dispatched: start its attempt.
    Granted(Grant),
    /// A running job reached a step boundary. A job that yielded is queued again under the same handle.
    Stepped {
        /// The running job.
        job: JobHandle,
        /// True if the job released its slot.
        yielded: bool,
    },
    /// The balance of the client no longer covers its first job; only jobs without credits are dispatched.
    Parked(ClientHandle),
    /// The client is no longer parked. It need not be runnable.
    Unparked(ClientHandle),
    /// The virtual time of a tier and of all its clients was lowered by `by`.
    Rebased {
        /// The rebased tier.
        tier: Tier,
        /// Virtual time subtracted.
        by: i64,
    },
    /// The virtual time of a client's queue of agents, and of all its agents, was lowered by `by`.
    AgentsRebased {
        /// The owner of the rebased agents.
        client: ClientHandle,
        /// Virtual time subtracted.
        by: i64,
    },
}

/// A dispatched job, charged with its estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The job; its payload is [`RunQueue::job`](crate::RunQueue::job).
    pub job: JobHandle,
    /// The client that is charged.
    pub client: ClientHandle,
    /// The tier of the client.
    pub tier: Tier,
    /// vruntime − warp of the client before the charge: the key that was the least.
    pub key: i64,
    /// The accounts after the charge and before a later [`Event::Rebased`] of the same operation.
    pub accounts: Accounts,
}

/// Absolute values of the accounts that an operation charged. Recovery restores the last value of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounts {
    /// Virtual time of the client.
    pub client_vruntime: i64,
    /// Remainder of the last division by the weight.
    pub client_remainder: u32,
    /// Balance of the client in credits; `None` if unmetered.
    pub balance: Option<i64>,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Virtual time of the agent.
    pub agent_vruntime: i64,
    /// Remainder of the last division by the weight.
    pub agent_remainder: u32,
    /// Virtual time of the client's tier.
    pub tier_vruntime: i64,
    /// Amount owed to the marketplace, in thousandths of charge.
    pub owed: i128,
}

/// A settled job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled<P> {
    /// The payload given at enqueue.
    pub payload: P,
    /// The client that was charged.
    pub client: ClientHandle,
    /// The accounts after the settlement.
    pub accounts: Accounts,
    /// Handles of the jobs enqueued with the settlement, in the given order.
    pub following: Vec<JobHandle>,
}
