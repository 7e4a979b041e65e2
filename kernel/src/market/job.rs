//! A posted job and its validation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PRICE_MAX;
use crate::agent::{CAPABILITIES_MAX, Oversight};
use crate::id::{ClientId, NAME_RULE, RunId, Ticks, is_name};
use crate::json::Json;
use crate::ledger::{Amounts, Usd};

/// Maximum bytes of a job's title.
pub const TITLE_BYTES_MAX: usize = 200;

/// Work that a client posts on the market.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Id of the job and of its run.
    pub id: RunId,
    /// The paying client; only this client's agents bid.
    pub client: ClientId,
    /// Title for people, a single line.
    pub title: String,
    /// Capabilities an agent must offer.
    pub capabilities: BTreeSet<String>,
    /// Evaluation domain; `None` uses the winner's domain.
    pub domain: Option<String>,
    /// Maximum cost, in credits.
    pub budget: u64,
    /// Latest end, in milliseconds since the Unix epoch; `None` for no deadline.
    pub deadline: Option<Ticks>,
    /// Level of human oversight.
    pub oversight: Oversight,
    /// The plan as submitted, as JSON of [`PlanDraft`](crate::plan::PlanDraft).
    pub plan: Json,
    /// Maximum impact, 0..=2.
    pub intent: u8,
    /// Scope of the run.
    pub scope: String,
    /// Workspace folder of the run's tools.
    pub workspace: String,
}

/// A fault of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFault {
    /// The title is empty or longer than [`TITLE_BYTES_MAX`].
    #[error("its title has {0} bytes, expected 1 to {TITLE_BYTES_MAX}")]
    Title(usize),
    /// The title contains a line break or another control character.
    #[error("its title has {0:?} in it, expected one line")]
    ControlCharacter(char),
    /// A capability is not a valid name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// More than [`CAPABILITIES_MAX`] capabilities.
    #[error("it asks for {0} capabilities, CAPABILITIES_MAX allows {CAPABILITIES_MAX}")]
    TooMany(usize),
    /// The domain is not a valid name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// The budget is 0 or above [`PRICE_MAX`].
    #[error("a budget of {0} credits is not within 1 and {PRICE_MAX}")]
    Budget(u64),
    /// The deadline is not in the future.
    #[error("the deadline is in the past: set a later deadline, such as 1h")]
    Deadline {
        /// Milliseconds since the deadline.
        ago_ms: Ticks,
    },
}

/// All faults of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct JobError(pub Vec<JobFault>);

/// The part of a job that the market validates.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // same fields as Job
pub struct JobTerms<'a> {
    pub title: &'a str,
    pub capabilities: &'a BTreeSet<String>,
    pub domain: Option<&'a str>,
    pub budget: u64,
    pub deadline: Option<Ticks>,
}

impl JobTerms<'_> {
    /// All faults at time `now`.
    pub fn faults(self, now: Ticks) -> Vec<JobFault> {
        let mut faults = Vec::new();
        if !(1..=TITLE_BYTES_MAX).contains(&self.title.len()) {
            faults.push(JobFault::Title(self.title.len()));
        }
        let breaks = |c: &char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        faults.extend(self.title.chars().find(breaks).map(JobFault::ControlCharacter));
        let (bad, many) = check_names(self.capabilities);
        faults.extend(bad.into_iter().map(JobFault::Capability));
        faults.extend(many.map(JobFault::TooMany));
        let domain = self.domain.filter(|domain| !is_name(domain));
        faults.extend(domain.map(|domain| JobFault::Domain(domain.to_owned())));
        if !(1..=PRICE_MAX).contains(&self.budget) {
            faults.push(JobFault::Budget(self.budget));
        }
        let passed = self.deadline.filter(|deadline| *deadline <= now);
        faults.extend(passed.map(|deadline| JobFault::Deadline { ago_ms: now.saturating_sub(deadline) }));
        faults
    }
}

/// The part of a plan that bounds its calls of models.
#[derive(Default, Deserialize)]
struct CallPolicy {
    usd: Option<Usd>,
    tokens: Option<u64>,
}

impl Job {
    /// Tokens and money that the plan allows for calls of models, which the contract sets aside; nothing where it has no limit.
    pub fn calls(&self) -> Amounts {
        #[derive(Deserialize)]
        struct Bounded {
            policy: Option<CallPolicy>,
        }
        let plan: Option<Bounded> = serde_json::from_str(self.plan.as_str()).ok();
        let CallPolicy { usd, tokens } = plan.and_then(|plan| plan.policy).unwrap_or_default();
        Amounts { tokens: tokens.unwrap_or(0), nano_usd: usd.map_or(0, |Usd(nano_usd)| nano_usd) }
    }

    /// Checks that the job can be posted at time `now`.
    ///  
    /// # Errors
    ///  
    /// All faults.
    pub fn check(&self, now: Ticks) -> Result<(), JobError> {
        let terms = JobTerms {
            title: &self.title,
            capabilities: &self.capabilities,
            domain: self.domain.as_deref(),
            budget: self.budget,
            deadline: self.deadline,
        };
        let faults = terms.faults(now);
        if faults.is_empty() { Ok(()) } else { Err(JobError(faults)) }
    }
}

/// The invalid names among `words`, and their number if there are more than [`CAPABILITIES_MAX`].
pub(super) fn check_names(words: &BTreeSet<String>) -> (Vec<String>, Option<usize>) {
    let bad = words.iter().filter(|word| !is_name(word)).take(CAPABILITIES_MAX).cloned();
    (bad.collect(), Some(words.len()).filter(|count| *count > CAPABILITIES_MAX))
}
