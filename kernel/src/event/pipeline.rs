//! Records of pipelines and their events.

use serde::{Deserialize, Serialize};

use crate::id::{EventType, StageId};
use crate::json::Json;

/// Record of [`Event::Pipeline`](super::Event::Pipeline).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PipelineRecord {
    /// The pipeline was created: the first record of its stream.
    Created {
        /// JSON of `pipeline::PipelineSpec`.
        spec: Json,
    },
    /// A stage acknowledged all events up to a number.
    Acked {
        /// The stage.
        stage: StageId,
        /// Number of the last acknowledged event.
        upto: u64,
        /// State for the next start of the stage; `None` keeps the former one.
        state: Option<Json>,
    },
    /// A stage failed repeatedly at an event, which is dead-lettered.
    #[serde(rename = "Parked")]
    DeadLettered {
        /// The stage.
        stage: StageId,
        /// Number of the event; 0 for the end of the stage's input.
        seq: u64,
        /// The last failure.
        reason: String,
        /// The stage stops at this event; `false`: the stage skips it.
        stops: bool,
    },
    /// An operator moved the cursor of a stage.
    Moved {
        /// The stage.
        stage: StageId,
        /// The cursor: the next event has a higher number.
        after: u64,
        /// The stage keeps its last acknowledged state; `false`: it starts without state.
        keeps_state: bool,
    },
    /// Retention removed events before a stage had read them.
    Lagged {
        /// The stage.
        stage: StageId,
        /// Number of the first removed event.
        first: u64,
        /// Number of the last removed event.
        last: u64,
    },
    /// A chunk of the log is complete, so the quota is checked.
    #[serde(rename = "Stretch")]
    LogChunk {
        /// Number of the chunk's last event.
        upto: u64,
        /// Size of the chunk's events, as counted by the quota.
        bytes: u64,
        /// Number of the oldest kept event.
        oldest: u64,
    },
    /// A stage will publish no more events.
    Ended {
        /// The stage.
        stage: StageId,
    },
    /// An operator releases a stopped stage, which skips the event at its cursor.
    Released {
        /// The stage.
        stage: StageId,
    },
    /// A stage failed at an event and tries again.
    Failed {
        /// The stage.
        stage: StageId,
        /// Number of the event; 0 for the end of the stage's input.
        seq: u64,
        /// Failures of the stage at this event so far.
        times: u32,
        /// The failure.
        reason: String,
    },
    /// The pipeline was removed. A later declaration under its name continues the stream with `Created`, and starts without
    /// events.
    Removed {
        /// Number of the last event; a pipeline of the same name numbers its events from the next one on.
        upto: u64,
    },
}

/// Record of [`Event::Published`](super::Event::Published).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The publishing stage.
    pub stage: StageId,
    /// Type of the event.
    pub kind: EventType,
    /// Payload of the event.
    pub data: Json,
}
