//! Jobs, and the slots that the run queue grants for them.

use std::sync::Arc;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{NodeId, RunId};
use ostler_scheduler::{JobHandle, Price};

use crate::base::keys::Owner;

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    /// Longest expected work to the end of the plan.
    pub(crate) rank: u64,
    /// Opening time of the run in milliseconds: older runs of a share go first, and rank orders within a run.
    pub(crate) opened_ms: u64,
    pub(crate) estimate: Price,
    /// The model that the job calls; `None`: none, or unknown.
    pub(crate) model: Option<ModelUse>,
}

/// A call of a model with its expected tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelUse {
    pub(crate) model: Arc<str>,
    pub(crate) tokens: u64,
}

/// A call that no job stands for and that asks for its turn.
#[derive(Clone)]
pub(crate) struct TurnRequest {
    pub(crate) owner: Arc<Owner>,
    pub(crate) run: RunId,
    /// `None` for a call of the run itself.
    pub(crate) node: Option<NodeId>,
    pub(crate) uses: ModelUse,
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
