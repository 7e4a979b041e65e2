//! Journal records of a job.

use serde::{Deserialize, Serialize};

use super::{Job, Proposal, Stage};
use crate::agent::Oversight;
use crate::id::{AgentId, Ticks};
use crate::json::Json;
use crate::run::RunOutcome;

/// A transition of a job. New variants go at the end; existing ones never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarketStep {
    /// The client posted the job.
    Posted(Job),
    /// Agents bid.
    Proposed {
        /// Bids, including unacceptable ones.
        proposals: Vec<Proposal>,
    },
    /// The winner got the contract.
    Signed {
        /// The winner.
        winner: AgentId,
        /// Price in credits.
        price: u64,
        /// Maximum cost in credits.
        budget: u64,
        /// Latest end.
        deadline: Option<Ticks>,
        /// Level of human oversight.
        oversight: Oversight,
        /// True if the budget is reserved, which holds for metered clients.
        reserved: bool,
    },
    /// The plan is ready to run.
    Decomposed {
        /// The plan to run, as JSON of [`PlanDraft`](crate::plan::PlanDraft).
        plan: Json,
        /// Number of nodes.
        nodes: u32,
    },
    /// The run is open.
    Started,
    /// The run is over; the unspent reservation is released.
    Evaluated(JobOutcome),
    /// The job failed; the unspent reservation is released.
    Failed {
        /// Stage that the job could not reach.
        at: Stage,
        /// Reason for people.
        reason: String,
        /// Credits spent by the run.
        spent: u64,
    },
}

/// Result of a finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Credits spent.
    pub spent: u64,
    /// Composite score in thousandths; `None` if nothing could be evaluated.
    pub composite: Option<u16>,
}
