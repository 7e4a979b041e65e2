//! The market: a job is posted, agents propose, one of them gets the contract, and what comes of it is evaluated (section 3.6 of
//! the Agent Scheduler paper).
//!
//! `Job -> Proposed -> Contract -> Decomposition -> Execution -> Evaluation`: each stage takes the one before it by value, so that
//! a job is in one of them and never in two. What took it there is a record of the client's stream ([`MarketStep`]), and
//! [`JobState::apply`] is the only thing that moves a job, live and in recovery.

mod job;
mod offer;
mod record;
mod select;
mod stage;

pub use job::{Job, JobError, JobFault, JobTerms, TITLE_BYTES_MAX};
pub use offer::{Offer, OfferError, OfferFault, PRICE_MAX};
pub use record::{JobOutcome, MarketStep};
pub use select::{
    ContractError, PROPOSALS_MAX, Proposal, ProposalError, REPUTATION_UNKNOWN_PM, Selected, score, select,
    shortlist,
};
pub use stage::{
    Contract, Decomposition, Evaluation, Execution, FailedJob, JobState, Proposed, Stage, StageError,
};
