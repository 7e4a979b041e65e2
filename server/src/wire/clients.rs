//! Clients and what they have coming, as it is told and changed.

use serde::{Deserialize, Serialize};

/// In which tier a client is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Before the marketplace, which keeps a guaranteed share.
    Contracted,
    /// Like any other.
    Marketplace,
}

/// The body of `POST /v1/clients/{client}`. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientRequest {
    /// Its entitlement among the clients of its tier: 1 to 1,000,000, or `"credits"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<WeightRequest>,
    /// Where it is served from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Credits to deposit, or to take back if below zero; never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<i64>,
}

/// An entitlement, as a request gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a weight is a whole number from 1 to 1000000, or \"credits\"")]
pub enum WeightRequest {
    /// 1 to 1,000,000.
    Chosen(u32),
    /// By its name.
    Named(WeightName),
}

/// A weight that nobody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightName {
    /// What the credits of the last thirty days are worth.
    Credits,
}

/// The answer to `GET /v1/clients`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientList {
    /// All clients that anything is known of, by name.
    pub clients: Vec<ClientLine>,
}

/// A client, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLine {
    /// Its name.
    pub client: String,
    /// Where it is served.
    pub tier: Tier,
    /// Its entitlement.
    pub weight: u32,
    /// The one that counts: bent by reputation, once it has had work in this process.
    pub weight_served: u32,
    /// Where the weight comes from: `configured`, `chosen`, `credits` or `default`.
    pub weight_from: String,
    /// All credits that were ever deposited for it; absent: it is not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposited: Option<i64>,
    /// Credits that its attempts cost so far, in milliseconds of a slot; of one that is metered, since its first deposit.
    pub spent: u64,
    /// Credits that its attempts under way hold.
    pub reserved: u64,
    /// Credits that jobs of the market have reserved and not spent: they are among those that are left.
    #[serde(default, skip_serializing_if = "is_none")]
    pub for_jobs: u64,
    /// Credits that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<i64>,
    /// What the scores of its runs add up to, in thousandths; absent: none was evaluated yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Nothing of it is dispatched, because its credits are used up.
    pub parked: bool,
    /// Its attempts that run.
    pub running: u32,
    /// Its attempts that wait for a slot.
    pub queued: u64,
    /// Credits that it was charged since the scheduler started.
    pub charged: u64,
    /// Credits by which it is behind what its weight entitles it to; below zero: ahead.
    pub lag: i64,
}

fn is_none(credits: &u64) -> bool {
    *credits == 0
}

/// The answer to `GET /v1/queue`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Attempts that may run at once.
    pub slots: u32,
    /// Attempts that run.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Credits that the marketplace is owed by the contracted tier; below zero: it is ahead.
    pub marketplace_owed: i64,
    /// All clients that anything is known of, by name.
    pub clients: Vec<ClientLine>,
}
