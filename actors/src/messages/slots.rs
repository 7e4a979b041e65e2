//! What passes between the run queue and the actors that want slots.

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{NodeId, RunId};
use ostler_scheduler::{JobHandle, Price};

/// A ready node that wants a slot.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    /// Longest expected work from here to the end of the plan.
    pub(crate) rank: u64,
    /// When its run was opened: of one lane, older runs go first, and rank counts within a run.
    pub(crate) opened_ms: u64,
    /// What it is expected to cost.
    pub(crate) estimate: Price,
}

/// A slot that was granted: to which job, in which epoch of the scheduler. In another epoch it names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) epoch: u64,
    pub(crate) job: JobHandle,
    /// What was charged for it.
    pub(crate) estimate: Price,
}

/// A slot for a job, its estimate charged.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) job: Job,
    pub(crate) accounts: Accounts,
}
