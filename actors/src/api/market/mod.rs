//! The market: offers, jobs, and the tasks that move jobs from stage to stage. The kernel decides which stage may
//! follow; the registry records it.

mod audit;
mod jobs;
mod pursue;

pub use audit::{ClientAudit, Violation};

pub use jobs::{JobRequest, JobRow};
