//! The run queue, as shown.

use std::collections::BTreeMap;

use ostler_kernel::id::{ClientId, NodeId};

/// State of the run queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueRow {
    /// Number of slots.
    pub slots: u32,
    /// Running attempts.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Those of them, and calls of running attempts, that wait for the rate of a model.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate_waits: u64,
    /// Credits owed to the marketplace by the contracted tier; negative: it is ahead.
    pub marketplace_owed: i64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A call of a model that waits for the model's rate, or for its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateWait {
    /// The node.
    pub node: NodeId,
    /// Name of the model.
    pub model: String,
    /// Least time until the call, in milliseconds.
    pub ms: u64,
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
