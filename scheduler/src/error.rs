//! Errors of refused operations. A refused operation changes nothing.

use thiserror::Error;

use crate::config::{BALANCE_MAX, BUCKET_MAX, CAPACITY_MAX, PRODUCT_MAX, WEIGHT_MAX};
use crate::cost::{AMOUNT_MAX, Price};

/// Violation of a range of [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A setting is outside its range.
    #[error("{field} is {found}, expected {min} to {max}")]
    #[allow(missing_docs, reason = "the text names them")]
    OutOfRange { field: &'static str, found: u64, min: u64, max: u64 },
    /// The capacity of a resource is outside its range.
    #[error("capacity of resource {resource} is {found}, expected 1 to {CAPACITY_MAX}")]
    #[allow(missing_docs, reason = "the text names them")]
    Capacity { resource: String, found: u64 },
    /// The greatest distance of virtual times is above [`PRODUCT_MAX`].
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

/// A price outside its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cost is {} charge, {} credits, {} tokens, expected a charge of 1 to {cost_max} and at most {AMOUNT_MAX} of the others",
    price.charge, price.credits, price.tokens
)]
pub struct CostOutOfRange {
    /// The refused price.
    pub price: Price,
    /// The largest accepted charge.
    pub cost_max: u64,
}

/// The client was removed, or belongs to another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("client is not in this queue")]
pub struct UnknownClient;

/// Error of [`RunQueue::add_client`](crate::RunQueue::add_client).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddClientError {
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
    /// The balance is outside its range.
    #[error("balance is {0} credits, expected 0 to {BALANCE_MAX}")]
    BadBalance(i64),
    /// The cap is 0, which would block the client for ever.
    #[error("in-flight cap is 0, expected 1 or more")]
    BadCap,
    /// The bucket is outside its range.
    #[error(
        "bucket has rate {rate} and burst {burst}, expected at most {BUCKET_MAX} each and a burst of 1 or more"
    )]
    #[allow(missing_docs, reason = "the text names them")]
    BadBucket { rate: u64, burst: u64 },
    /// `clients_max` is reached.
    #[error("queue holds {0} clients, its limit")]
    Full(u32),
}

/// Error of [`RunQueue::remove_client`](crate::RunQueue::remove_client).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RemoveClientError {
    /// The client is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The client has queued or running jobs.
    #[error("client has {queued} queued and {in_flight} running jobs, expected none")]
    #[allow(missing_docs, reason = "the text names them")]
    Busy { queued: u64, in_flight: u32 },
}

/// Error of [`RunQueue::add_agent`](crate::RunQueue::add_agent).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddAgentError {
    /// The client is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
    /// `agents_max` is reached.
    #[error("queue holds {0} agents, its limit")]
    Full(u32),
}

/// Error of [`RunQueue::enqueue`](crate::RunQueue::enqueue).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnqueueError {
    /// The agent was removed with its client, or belongs to another queue.
    #[error("agent is not in this queue")]
    UnknownAgent,
    /// The estimate is outside its range.
    #[error("estimate refused: {0}")]
    Cost(#[from] CostOutOfRange),
    /// The model belongs to another queue.
    #[error("model is not in this queue")]
    UnknownModel,
    /// `jobs_max` is reached.
    #[error("queue holds {0} jobs, its limit")]
    Full(u32),
}

/// Error of [`RunQueue::settle`](crate::RunQueue::settle) and related operations. The job keeps its slot and its charge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettleError {
    /// The job was settled or cancelled before.
    #[error("job is not in this queue")]
    UnknownJob,
    /// The job is queued.
    #[error("job is queued, expected it to run")]
    NotRunning,
    /// The cost is outside its range.
    #[error("cost refused: {0}")]
    Cost(#[from] CostOutOfRange),
    /// A job to enqueue with the settlement was refused.
    #[error("following job refused: {0}")]
    Following(EnqueueError),
}

/// Error of [`RunQueue::cancel`](crate::RunQueue::cancel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CancelError {
    /// The job was settled or cancelled before.
    #[error("job is not in this queue")]
    UnknownJob,
    /// The job runs and must be settled.
    #[error("job is running, expected it to be queued")]
    Running,
}

/// Error of [`RunQueue::credit`](crate::RunQueue::credit) and [`RunQueue::set_balance`](crate::RunQueue::set_balance).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreditError {
    /// The client is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The client is unmetered.
    #[error("client is unmetered, expected one with a balance")]
    Unmetered,
    /// The new balance is outside its range.
    #[error("balance {balance} changed by {amount} credits, expected to stay within 0 to {BALANCE_MAX}")]
    #[allow(missing_docs, reason = "the text names them")]
    Overflow { balance: i64, amount: i64 },
}

/// Error of [`RunQueue::set_weight`](crate::RunQueue::set_weight).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WeightError {
    /// The client is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The weight is outside its range.
    #[error("weight is {0}, expected 1 to {WEIGHT_MAX}")]
    BadWeight(u32),
}

/// Error of [`RunQueue::set_reputation`](crate::RunQueue::set_reputation).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReputationError {
    /// The client is unknown.
    #[error(transparent)]
    Unknown(#[from] UnknownClient),
    /// The reputation is outside its range.
    #[error("reputation is {0}, expected 0 to 1000")]
    OutOfRange(u16),
}

/// Error of restoring an account.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The client or agent is unknown.
    #[error("client or agent is not in this queue")]
    Unknown,
    /// A value is outside its range.
    #[error("{field} is {found}, expected {min} to {max}")]
    #[allow(missing_docs, reason = "the text names them")]
    OutOfRange { field: &'static str, found: i128, min: i128, max: i128 },
    /// A balance was given for an unmetered client, or none for a metered client.
    #[error("restored values and the client differ in whether it is metered")]
    Metering,
}
