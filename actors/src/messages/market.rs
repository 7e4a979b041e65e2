//! Why the market refuses a job or an offer.

use ostler_kernel::evaluation::UnknownDomain;
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::ledger::CreditError;
use ostler_kernel::market::{JobError, OfferError, StageError};
use ostler_kernel::plan::Diagnostic;
use ostler_kernel::port::JournalError;

use crate::messages::submission::SubmitError;

/// Why an agent offers nothing new.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefused {
    /// There is no agent of this name.
    #[error("there is no agent {0} with a name of its own: `ostler spawn {0}` makes it")]
    Unknown(AgentId),
    /// The offer is none.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// Nobody set weights for its domain.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// Why a job was not posted, or does not get on.
#[derive(Debug, thiserror::Error)]
pub enum MarketError {
    /// The job is none.
    #[error("the job cannot be posted: {0}")]
    Job(#[from] JobError),
    /// Its plan is none.
    #[error("the plan breaks {} rules", .0.len())]
    Plan(Vec<Diagnostic>),
    /// Nobody set weights for its domain.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// Another job has this id.
    #[error("there is a job {0} already, and it is another one")]
    Taken(RunId),
    /// There is no such job.
    #[error("there is no job {0}")]
    Unknown(RunId),
    /// There are as many as there may be.
    #[error("{0} jobs are not over, which is as many as can be: wait until some are")]
    TooMany(usize),
    /// Its client has not as many credits.
    #[error("the budget is beyond the balance: {0}")]
    Credits(#[from] CreditError),
    /// It is elsewhere.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// Its run could not be opened.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}
