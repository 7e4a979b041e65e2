//! The run queue as it is shown.

use std::collections::BTreeMap;

use ostler_kernel::id::ClientId;

/// The run queue, as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueRow {
    /// Attempts that may run at once.
    pub slots: u32,
    /// Attempts that run.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Credits that the marketplace is owed by the contracted tier; below zero: it is ahead.
    pub marketplace_owed: i64,
}

/// A client in the run queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Queueing {
    pub(crate) weight: Option<u32>,
    pub(crate) running: u32,
    pub(crate) queued: u64,
    pub(crate) charged: u64,
    pub(crate) reserved: u64,
    pub(crate) lag: i64,
}

/// What the scheduler tells of its queue.
pub(crate) type QueueShown = (QueueRow, BTreeMap<ClientId, Queueing>);
