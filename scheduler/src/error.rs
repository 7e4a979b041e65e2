//! Why a call was refused. A refused call has changed nothing.

use thiserror::Error;

use crate::config::{BALANCE_MAX, BUCKET_MAX, CAPACITY_MAX, PRODUCT_MAX, WEIGHT_MAX};
use crate::cost::{AMOUNT_MAX, Price};

/// Why a [`Config`](crate::Config) was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A setting is outside its range.
    #[error("{field} is {found}, expected {min} to {max}")]
    #[allow(missing_docs, reason = "the text names them")]
    OutOfRange { field: &'static str, found: u64, min: u64, max: u64 },
    /// A resource has no capacity, or too much.
    #[error("capacity of resource {resource} is {found}, expected 1 to {CAPACITY_MAX}")]
    #[allow(missing_docs, reason = "the text names them")]
    Capacity { resource: String, found: u64 },
    /// Virtual times could drift further apart than they have room for.
    #[error("scale * cost_max * (slots + 1) is {product}, expected at most {PRODUCT_MAX}")]
    #[allow(missing_docs, reason = "the text names it")]
    Product { product: u128 },
    /// A model's bucket is outside its range.
    #[error(
        "bucket of model {model} has rate {rate} and burst {burst}, expected at most {BUCKET_MAX} each and a burst of 1 or more"
    )]
    #[allow(missing_docs, reason = "the text names them")]
    Bucket { model: String, rate: u64, burst: u64 },
}

/// A price outside what the queue takes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cost is {} charge, {} credits, {} tokens, expected a charge of 1 to {cost_max} and at most {AMOUNT_MAX} of the others",
    price.charge, price.credits, price.tokens
)]
pub struct CostOutOfRange {
    /// What was asked for.
    pub price: Price,
    /// The largest charge that is taken.
    pub cost_max: u64,
}

/// The client was removed, or belongs to another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("client is not in this queue")]
pub struct UnknownClient;

/// Why a client was not added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddClientError {
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
    /// The balance is outside its range.
    #[error("balance is {0} credits, expected 0 to {BALANCE_MAX}")]
    BadBalance(i64),
    /// A client that may have nothing in flight would wait for ever.
    #[error("in-flight cap is 0, expected 1 or more")]
    BadCap,
    /// The queue contains as many clients as it may.
    #[error("queue contains {0} clients, its limit")]
    Full(u32),
}

/// Why a client was not removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RemoveClientError {
    /// There is no such client.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// It still has work: its debt may not be forgotten yet.
    #[error("client has {queued} queued and {in_flight} running jobs, expected none")]
    #[allow(missing_docs, reason = "the text names them")]
    Busy { queued: u64, in_flight: u32 },
}

/// Why an agent was not added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddAgentError {
    /// There is no such client.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
    /// The queue contains as many agents as it may.
    #[error("queue contains {0} agents, its limit")]
    Full(u32),
}

/// Why a job was not queued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnqueueError {
    /// The agent went with its client, or belongs to another queue.
    #[error("agent is not in this queue")]
    UnknownAgent,
    /// The estimate is outside its range.
    #[error("estimate refused: {0}")]
    Cost(#[from] CostOutOfRange),
    /// The model belongs to another queue.
    #[error("model is not in this queue")]
    UnknownModel,
    /// The queue contains as many jobs as it may.
    #[error("queue contains {0} jobs, its limit")]
    Full(u32),
}

/// Why a job was not settled, or its step not taken. The job keeps its slot and its charge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettleError {
    /// The job was settled or cancelled before.
    #[error("job is not in this queue")]
    UnknownJob,
    /// The job still waits for its dispatch.
    #[error("job is queued, expected it to run")]
    NotRunning,
    /// The cost is outside its range.
    #[error("cost refused: {0}")]
    Cost(#[from] CostOutOfRange),
    /// A job that was to be queued with the settlement was refused.
    #[error("following job refused: {0}")]
    Following(EnqueueError),
}

/// Why a job was not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CancelError {
    /// The job was settled or cancelled before.
    #[error("job is not in this queue")]
    UnknownJob,
    /// The job runs; what it costs has to be settled.
    #[error("job is running, expected it to be queued")]
    Running,
}

/// Why a balance was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreditError {
    /// There is no such client.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The client has no balance.
    #[error("client is unmetered, expected one with a balance")]
    Unmetered,
    /// The balance would leave its range.
    #[error("balance {balance} changed by {amount} credits, expected to stay within 0 to {BALANCE_MAX}")]
    #[allow(missing_docs, reason = "the text names them")]
    Overflow { balance: i64, amount: i64 },
}

/// Why a weight was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WeightError {
    /// There is no such client.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
}

/// Why a reputation was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReputationError {
    /// There is no such client.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The reputation is outside its range.
    #[error("reputation is {0}, expected 0 to 1000")]
    OutOfRange(u16),
}

/// Why an account was not restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// There is no such client or agent.
    #[error("client or agent is not in this queue")]
    Unknown,
    /// A value no account can have.
    #[error("{field} is {found}, expected {min} to {max}")]
    #[allow(missing_docs, reason = "the text names them")]
    OutOfRange { field: &'static str, found: i128, min: i128, max: i128 },
    /// A balance for a client without one, or none for a client that has one.
    #[error("restored values and the client differ in whether it is metered")]
    Metering,
}
