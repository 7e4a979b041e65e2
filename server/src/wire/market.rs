//! The market, as it is told.

use std::collections::BTreeSet;

use ostler_kernel::agent::Oversight;
use ostler_kernel::market::Offer;
use ostler_kernel::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/agents/{agent}/offer`: what an agent that is there offers from here on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferRequest {
    /// Whose agent it is, if that is to be checked; in the answer, whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// What its work is about: whose weights its runs are judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Credits that it asks for a job; absent: whatever the budget is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// How long its attempts take for a job, one after the other, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

impl From<&Offer> for OfferRequest {
    fn from(offer: &Offer) -> OfferRequest {
        let Offer { capabilities, domain, price, time_ms } = offer.clone();
        OfferRequest { client: None, capabilities, domain, price, time_ms }
    }
}

/// The answer to `POST /v1/agents/{agent}/offer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferView {
    /// Who.
    pub agent: String,
    /// What it offers from here on.
    #[serde(flatten)]
    pub offer: OfferRequest,
}

/// The body of `POST /v1/market`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// One line for people.
    pub title: String,
    /// Who pays, and whose agents propose.
    #[serde(default = "super::local")]
    pub client: String,
    /// What an agent must be able to do.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// What it is about; absent: what the agent says of itself counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// When it must be over, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// How closely people watch.
    #[serde(default)]
    pub oversight: Oversight,
    /// What is to be done, as written.
    pub plan: PlanDraft,
    /// The most impact it may have, 0..=2.
    #[serde(default = "super::operate")]
    pub intent: u8,
    /// The scope it acts in.
    #[serde(default = "super::default_scope")]
    pub scope: String,
    /// The folder its tools may touch, as an absolute path.
    pub workspace: String,
    /// The id that it and its run are to have, a UUID of version 7: who posts once more because no answer came posts the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The answer to `GET /v1/market`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobList {
    /// All jobs, the oldest first.
    pub jobs: Vec<JobLine>,
}

/// A job, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLine {
    /// The job, and its run.
    pub job: String,
    /// Who pays.
    pub client: String,
    /// One line for people.
    pub title: String,
    /// Where it is: `job`, `proposal`, `contract`, `decomposition`, `execution`, `evaluation` or `failed`.
    pub stage: String,
    /// What agents propose, as long as none has the contract; then what the winner proposed.
    pub proposals: Vec<ProposalLine>,
    /// Who has the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// What the winner asked for, in credits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// When it must be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// How closely people watch.
    pub oversight: Oversight,
    /// Credits that it cost so far.
    pub spent: u64,
    /// How its run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How well it was done, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite_pm: Option<u16>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was posted.
    pub posted_ms: i64,
    /// When it came to where it is.
    pub since_ms: i64,
}

/// What an agent proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalLine {
    /// Who.
    pub agent: String,
    /// For how many credits.
    pub price: u64,
    /// In how much time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Its reputation then, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Its score, 0 to 10,000: six tenths reputation, four tenths price.
    pub score: u64,
}

/// The answer to `GET /v1/audit`: the credits of metered clients, folded from their records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    /// Metered clients, by name.
    pub clients: Vec<AuditLine>,
}

/// The credits of a metered client: free + reserved + spent = deposited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Which.
    pub client: String,
    /// What was deposited.
    pub deposited: i64,
    /// What is neither reserved nor spent.
    pub free: i64,
    /// What jobs of the market have reserved.
    pub reserved: u64,
    /// What was spent since the first deposit.
    pub spent: u64,
    /// What does not add up, in words.
    pub violations: Vec<String>,
}
