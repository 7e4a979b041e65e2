//! What is written down of pipelines and their events.

use serde::{Deserialize, Serialize};

use crate::id::{EventType, StageId};
use crate::json::Json;

/// See [`Event::Pipeline`](super::Event::Pipeline).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PipelineRecord {
    /// The first record of the stream: the pipeline exists from here on.
    Created {
        /// As JSON of `pipeline::PipelineSpec`.
        spec: Json,
    },
    /// A stage has dealt with everything up to an event.
    Acked {
        /// Which.
        stage: StageId,
        /// The number of that event.
        upto: u64,
        /// What the stage is to be given when it starts again; `None`: what it was before.
        state: Option<Json>,
    },
    /// An event was too much for a stage, again and again.
    #[serde(rename = "Parked")]
    DeadLettered {
        /// Which stage.
        stage: StageId,
        /// The number of the event; 0: the end of what the stage hears.
        seq: u64,
        /// What happened the last time.
        reason: String,
        /// Whether the stage stops there; else it goes on with the next event.
        stops: bool,
    },
    /// Somebody moved the cursor of a stage.
    Moved {
        /// Which.
        stage: StageId,
        /// The next event is the one after this number.
        after: u64,
        /// Whether it keeps the state of its last acknowledgement; else it begins without one.
        keeps_state: bool,
    },
    /// Events were gone before a stage had come to them.
    Lagged {
        /// Which stage.
        stage: StageId,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// A stretch of the log is complete, and the oldest ones may be over the quota.
    #[serde(rename = "Stretch")]
    LogChunk {
        /// Its last event.
        upto: u64,
        /// What its events count for.
        bytes: u64,
        /// The oldest event that is kept from here on.
        oldest: u64,
    },
    /// A stage publishes nothing more.
    Ended {
        /// Which.
        stage: StageId,
    },
    /// A person lets a stage go on that had stopped at an event, without that event.
    Released {
        /// Which.
        stage: StageId,
    },
    /// A stage failed at an event, and is to try again.
    Failed {
        /// Which.
        stage: StageId,
        /// The number of the event; 0: the end of what the stage hears.
        seq: u64,
        /// Times that it has failed at it by now.
        times: u32,
        /// What happened.
        reason: String,
    },
}

/// See [`Event::Published`](super::Event::Published).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Who.
    pub stage: StageId,
    /// What kind of event.
    pub kind: EventType,
    /// What it says.
    pub data: Json,
}
