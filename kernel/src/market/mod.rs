//! The market: a contract net in which clients post jobs and their agents bid (section 3.6 of the Agent Scheduler paper).
//!  
//! A job passes through `Job -> Proposed -> Contract -> Decomposition -> Execution -> Evaluation`:
//!  
//! 1. **Job**: the client posts capabilities, budget and deadline. Nothing is reserved yet.
//! 2. **Proposed**: each agent with an offer bids a price and a time. Bids beyond [`PROPOSALS_MAX`] are dropped.
//! 3. **Contract**: [`select`] picks the winner; a metered client's budget is reserved.
//! 4. **Decomposition**: the plan is ready to run, with its number of nodes.
//! 5. **Execution**: the run is open, under the job's id.
//! 6. **Evaluation**: the run is over, scored, and the rest of the reservation is released.
//!  
//! Any stage before Evaluation can fail instead. Each stage consumes the value of the stage before, so a job is never in two
//! stages. Each transition is a [`MarketStep`] in the client's stream, and [`JobState::apply`] is the only code that advances
//! a job, live and in recovery. A crash between two steps leaves the job at the last durable step, from which the next process
//! resumes.

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
