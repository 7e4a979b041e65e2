//! Jobs, and the slots that the run queue grants for them.

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{NodeId, RunId};
use ostler_scheduler::{JobHandle, Price};

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    /// Longest expected work to the end of the plan.
    pub(crate) rank: u64,
    /// Opening time of the run in milliseconds: older runs of a share go first, and rank orders within a run.
    pub(crate) opened_ms: u64,
    pub(crate) estimate: Price,
}

/// A granted slot. A ticket of an earlier epoch of the scheduler names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) epoch: u64,
    pub(crate) job: JobHandle,
    pub(crate) estimate: Price,
}

/// A slot for a job, with its estimate charged.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) job: Job,
    pub(crate) accounts: Accounts,
}
