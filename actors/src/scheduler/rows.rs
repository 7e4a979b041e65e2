//! The run queue, as shown.

use std::collections::BTreeMap;

use ostler_kernel::id::ClientId;

/// State of the run queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueRow {
    /// Number of slots.
    pub slots: u32,
    /// Running attempts.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Credits owed to the marketplace by the contracted tier; negative: it is ahead.
    pub marketplace_owed: i64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Queueing {
    pub(crate) weight: Option<u32>,
    pub(crate) running: u32,
    pub(crate) queued: u64,
    pub(crate) charged: u64,
    pub(crate) reserved: u64,
    pub(crate) lag: i64,
}

pub(crate) type QueueShown = (QueueRow, BTreeMap<ClientId, Queueing>);
