//! The reason why the market refuses a job or an offer.

use ostler_kernel::evaluation::UnknownDomain;
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::ledger::CreditError;
use ostler_kernel::market::{JobError, OfferError, StageError};
use ostler_kernel::plan::Diagnostic;
use ostler_kernel::port::JournalError;

use crate::messages::submission::SubmitError;

/// The reason why an offer was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefused {
    /// No agent has the name.
    #[error("there is no agent {0} with a name of its own: `ostler spawn {0}` makes it")]
    Unknown(AgentId),
    /// The offer is malformed.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The domain has no weights.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// The reason why a job was refused or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum MarketError {
    /// The job is malformed.
    #[error("the job cannot be posted: {0}")]
    Job(#[from] JobError),
    /// The plan of the job is invalid.
    #[error("the plan breaks {} rules", .0.len())]
    Plan(Vec<Diagnostic>),
    /// The domain has no weights.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// Another job has the id.
    #[error("there is a job {0} already, and it is another one")]
    Taken(RunId),
    /// No job has the id.
    #[error("there is no job {0}")]
    Unknown(RunId),
    /// The maximal number of jobs is open.
    #[error("{0} jobs are not over, which is as many as can be: wait until some are")]
    TooMany(usize),
    /// The client lacks credits.
    #[error("the budget is beyond the balance: {0}")]
    Credits(#[from] CreditError),
    /// The job is at another stage.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The run could not be opened.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}
