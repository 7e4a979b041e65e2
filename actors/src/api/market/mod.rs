//! The market: offers, jobs, and the tasks that move jobs from stage to stage. The kernel decides on the next stage;
//! the registry records each step.

mod audit;
mod jobs;
mod pursue;

pub use audit::{ClientAudit, Violation};

pub use jobs::{JobRequest, JobRow, ProposalRow};
