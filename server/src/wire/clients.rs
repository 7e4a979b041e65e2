//! Clients and the run queue.

use ostler_actors::{ClientRow, ClientTier, QueueRow};
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/clients/{client}`; absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientRequest {
    /// Weight among the clients of the tier: 1 to 1,000,000, or `"credits"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<WeightRequest>,
    /// New tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<ClientTier>,
    /// Credits to deposit, or to withdraw if negative; never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<i64>,
    /// Tokens for calls of models to deposit, or to withdraw if negative. From the first deposit on the balance bounds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<i64>,
    /// Billionths of a US dollar for calls of models, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_usd: Option<i64>,
}

/// A weight in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a weight is a whole number from 1 to 1000000, or \"credits\"")]
pub enum WeightRequest {
    /// 1 to 1,000,000.
    Chosen(u32),
    /// A named rule.
    Named(WeightName),
}

/// A rule that computes the weight of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightName {
    /// The weight that deposits of the last thirty days are worth.
    Credits,
}

/// The answer to `GET /v1/clients`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientList {
    /// All known clients by name.
    pub clients: Vec<ClientRow>,
}

/// The answer to `GET /v1/queue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// The run queue.
    #[serde(flatten)]
    pub queue: QueueRow,
    /// All known clients by name, at the same moment.
    pub clients: Vec<ClientRow>,
}
