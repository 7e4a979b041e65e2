//! The market: what agents offer, which jobs there are, and what takes them on. The kernel knows what may follow what; the registry
//! writes it down; a task of its own takes each job from stage to stage.

mod audit;
mod jobs;
mod pursue;

pub use audit::{ClientAudit, Violation};

pub use jobs::{JobRequest, JobRow};
