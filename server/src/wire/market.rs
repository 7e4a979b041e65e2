//! Market jobs, offers and the audit of credits.

use std::collections::BTreeSet;

use ostler_actors::JobRow;
use ostler_kernel::agent::Oversight;
use ostler_kernel::ledger::{Amounts, Usd};
use ostler_kernel::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/agents/{agent}/offer`: replaces the offer of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferRequest {
    /// The client of the agent, to be checked; in the answer, always that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Capabilities.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// Domain; its weights judge the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Price of a job in credits; `None`: the budget of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// Duration of a job's attempts, one after the other, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

/// The answer to `POST /v1/agents/{agent}/offer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferView {
    /// Name of the agent.
    pub agent: String,
    /// The offer.
    #[serde(flatten)]
    pub offer: OfferRequest,
}

/// The body of `POST /v1/market`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// One line for people.
    pub title: String,
    /// The paying client; its agents propose.
    #[serde(default = "super::default_client")]
    pub client: String,
    /// Required capabilities.
    #[serde(default)]
    pub capabilities: BTreeSet<String>,
    /// Domain; its weights judge the run. `None`: that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Most credits that it may cost.
    pub budget: u64,
    /// Deadline in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// Oversight of the run.
    #[serde(default)]
    pub oversight: Oversight,
    /// The plan as written.
    pub plan: PlanDraft,
    /// Highest allowed impact, 0 to 2; absent: the default of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<u8>,
    /// Name of the scope.
    #[serde(default = "super::default_scope")]
    pub scope: String,
    /// The folder that the tools may touch, as an absolute path.
    pub workspace: String,
    /// Id of the job and its run, a UUID of version 7, which makes posting idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The answer to `GET /v1/market`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobList {
    /// All jobs, oldest first.
    pub jobs: Vec<JobRow>,
}

/// The answer to `GET /v1/audit`: credits, tokens and money of clients, recomputed from their records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    /// Metered clients by name.
    pub clients: Vec<AuditLine>,
    /// Clients whose calls of models have limits, by name.
    pub calls: Vec<CallAuditLine>,
}

/// Tokens and money of a client's calls of models under a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAuditLine {
    /// Name of the client.
    pub client: String,
    /// Used by its present runs. A reservation without a settlement counts.
    pub used: CallAmounts,
    /// Set aside for market jobs, and not used by their calls.
    pub for_jobs: CallAmounts,
    /// Inconsistencies, in words.
    pub violations: Vec<String>,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAmounts {
    /// Tokens of prompts and answers.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
}

impl From<Amounts> for CallAmounts {
    fn from(Amounts { tokens, nano_usd }: Amounts) -> CallAmounts {
        CallAmounts { tokens, usd: Usd(nano_usd) }
    }
}

/// Credits of a metered client: free + reserved + spent = deposited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Name of the client.
    pub client: String,
    /// Sum of all deposits.
    pub deposited: i64,
    /// Credits neither reserved nor spent.
    pub free: i64,
    /// Credits reserved for market jobs.
    pub reserved: u64,
    /// Credits spent since the first deposit.
    pub spent: u64,
    /// Inconsistencies, in words.
    pub violations: Vec<String>,
}
