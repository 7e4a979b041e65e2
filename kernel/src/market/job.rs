//! What is to be done, by whom, for how much.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PRICE_MAX;
use crate::agent::{CAPABILITIES_MAX, Oversight};
use crate::id::{ClientId, NAME_RULE, RunId, Ticks, is_name};
use crate::json::Json;

/// Bytes of the title of a job.
pub const TITLE_BYTES_MAX: usize = 200;

/// Work that is put up on the market.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The job, and the run that it becomes.
    pub id: RunId,
    /// Who pays, and whose agents propose.
    pub client: ClientId,
    /// One line for people.
    pub title: String,
    /// What an agent must be able to do.
    pub capabilities: BTreeSet<String>,
    /// What it is about; `None`: what the agent says of itself counts.
    pub domain: Option<String>,
    /// Credits that it may cost at most.
    pub budget: u64,
    /// When it must be over, in milliseconds since the Unix epoch; `None`: whenever.
    pub deadline: Option<Ticks>,
    /// How closely people watch.
    pub oversight: Oversight,
    /// The plan as written, as JSON of [`PlanDraft`](crate::plan::PlanDraft).
    pub plan: Json,
    /// The most impact it may have, 0..=2.
    pub intent: u8,
    /// The scope it acts in.
    pub scope: String,
    /// Folder that its tools may touch.
    pub workspace: String,
}

/// What is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFault {
    /// The title is empty or too long.
    #[error("its title has {0} bytes, expected 1 to {TITLE_BYTES_MAX}")]
    Title(usize),
    /// The title breaks its line, or has something else in it that a terminal obeys.
    #[error("its title has {0:?} in it, expected one line")]
    ControlCharacter(char),
    /// A capability is no name.
    #[error("capability {0:?} is not {NAME_RULE}")]
    Capability(String),
    /// There are too many.
    #[error("it asks for {0} capabilities, CAPABILITIES_MAX allows {CAPABILITIES_MAX}")]
    TooMany(usize),
    /// The domain is no name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Domain(String),
    /// The budget pays for nothing, or for too much.
    #[error("a budget of {0} credits is not within 1 and {PRICE_MAX}")]
    Budget(u64),
    /// The deadline is over before anybody can propose.
    #[error("its deadline is in the past: give one that is still to come, such as 1h")]
    Deadline {
        /// How long ago.
        ago_ms: Ticks,
    },
}

/// Everything that is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct JobError(pub Vec<JobFault>);

/// What the market judges of a job, whoever posts it and for what plan.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the fields are those of Job
pub struct JobTerms<'a> {
    pub title: &'a str,
    pub capabilities: &'a BTreeSet<String>,
    pub domain: Option<&'a str>,
    pub budget: u64,
    pub deadline: Option<Ticks>,
}

impl JobTerms<'_> {
    /// Everything that is wrong with them at this time.
    pub fn faults(self, now: Ticks) -> Vec<JobFault> {
        let mut faults = Vec::new();
        if !(1..=TITLE_BYTES_MAX).contains(&self.title.len()) {
            faults.push(JobFault::Title(self.title.len()));
        }
        let breaks = |c: &char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        faults.extend(self.title.chars().find(breaks).map(JobFault::ControlCharacter));
        let (bad, many) = words(self.capabilities);
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

impl Job {
    /// Whether it can be posted at this time.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
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

/// What is no name among words, and how many there are if there are too many.
pub(super) fn words(words: &BTreeSet<String>) -> (Vec<String>, Option<usize>) {
    let bad = words.iter().filter(|word| !is_name(word)).take(CAPABILITIES_MAX).cloned();
    (bad.collect(), Some(words.len()).filter(|count| *count > CAPABILITIES_MAX))
}
