//! How a pipeline stands, to be shown.

use ostler_kernel::id::{EventType, PipelineId, StageId};
use ostler_kernel::pipeline::{Keep, ParkedEvent};

use super::stage::Gap;

/// A pipeline, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineRow {
    /// Its name.
    pub pipeline: PipelineId,
    /// The number of its last event; 0: it has none.
    pub head: u64,
    /// The number of the oldest event that is kept.
    pub oldest: u64,
    /// What the events that are kept count for, in bytes.
    pub bytes: u64,
    /// How much is kept.
    pub keep: Keep,
    /// Its stages.
    pub stages: Vec<StageRow>,
}

/// A stage, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRow {
    /// Its name.
    pub stage: StageId,
    /// What it publishes.
    pub publishes: Vec<EventType>,
    /// What it hears.
    pub subscribes: Vec<EventType>,
    /// `source`: driven from outside. `live`: code of this process deals with it. `external`: somebody reads and acknowledges, or
    /// nobody does yet. `stopped`: at an event that was parked. `down`: its actor failed too often. `ended`.
    pub state: &'static str,
    /// Why it is stopped or down.
    pub reason: Option<String>,
    /// The last event that it has dealt with.
    pub cursor: u64,
    /// Events that it is still to hear, and where that is not known those that it may have to hear.
    pub lag: u64,
    /// Events that were gone before it had come to them, as far as it was told of them.
    pub missed: u64,
    /// Events that are gone, and that it is still to be told of.
    pub gap: Option<Gap>,
    /// The newest of the events that were parked for it.
    pub parked: Vec<ParkedEvent>,
    /// How many were in all.
    pub parked_total: u64,
}
