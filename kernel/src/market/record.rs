//! What is written down of a job.

use serde::{Deserialize, Serialize};

use super::{Job, Proposal, Stage};
use crate::agent::Oversight;
use crate::id::{AgentId, Ticks};
use crate::json::Json;
use crate::run::RunOutcome;

/// A stage that a job came to. New ones are added at the end, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarketStep {
    /// It was posted.
    Posted(Job),
    /// These agents propose to do it.
    Proposed {
        /// What each proposes, those among it that will not do.
        proposals: Vec<Proposal>,
    },
    /// One of them got the contract.
    Signed {
        /// Who.
        winner: AgentId,
        /// For how many credits.
        price: u64,
        /// Credits that it may cost at most.
        budget: u64,
        /// When it must be over.
        deadline: Option<Ticks>,
        /// How closely people watch.
        oversight: Oversight,
        /// Whether the budget is reserved out of the client's credits: it is metered.
        reserved: bool,
    },
    /// What is to be done is split up into a plan that is ready to be run.
    Decomposed {
        /// The plan as it is run, as JSON of [`PlanDraft`](crate::plan::PlanDraft).
        plan: Json,
        /// Its nodes.
        nodes: u32,
    },
    /// Its run is open.
    Started,
    /// Its run is over; what is left of the reservation is free.
    Evaluated(JobOutcome),
    /// It will not get on; what is left of the reservation is free.
    Failed {
        /// Where it was to get.
        at: Stage,
        /// Why not.
        reason: String,
        /// Credits that its run cost.
        spent: u64,
    },
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// How its run ended.
    pub outcome: RunOutcome,
    /// Credits that it cost.
    pub spent: u64,
    /// How well it was done, in thousandths; `None`: there was nothing to evaluate.
    pub composite: Option<u16>,
}
