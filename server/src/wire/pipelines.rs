//! Pipelines and their events.

use ostler_actors::{Gap, PipelineRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer to `GET /v1/pipelines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineList {
    /// All pipelines by name.
    pub pipelines: Vec<PipelineRow>,
}

/// An event: a line of `GET /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineEventLine {
    /// `pipeline_event`.
    #[serde(rename = "type")]
    pub line_type: String,
    /// Number of the event, from 1.
    pub seq: u64,
    /// Time of publication in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The stage that published the event.
    pub stage: String,
    /// Type of the event.
    pub kind: String,
    /// Data of the event.
    pub data: Value,
}

/// The body of `POST /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// The publishing stage.
    pub stage: String,
    /// Type of the event.
    pub kind: String,
    /// Data of the event.
    pub data: Value,
}

/// The answer to `POST /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRef {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Number of the event.
    pub seq: u64,
}

/// The answer to `GET /v1/pipelines/{id}/stages/{stage}/events`: the next events of the stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageEvents {
    /// The cursor of the stage, which the acknowledgement repeats.
    pub after: u64,
    /// Events removed before the stage received them; repeated until an acknowledgement names `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// State of the last acknowledgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The events.
    pub events: Vec<PipelineEventLine>,
    /// The new cursor once the events are handled, which the acknowledgement names.
    pub upto: u64,
    /// The input has ended and is acknowledged.
    pub ended: bool,
}

/// The body of `POST /v1/pipelines/{id}/stages/{stage}/ack`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// `after` of the answer with the events; if the cursor has moved since, the request is refused.
    pub after: u64,
    /// The new cursor.
    pub upto: u64,
    /// State for the next start of the stage; `None` keeps the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// Events to publish in the same append.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<OutputRequest>,
}

/// An event that an acknowledgement publishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// Type of the event.
    pub kind: String,
    /// Data of the event.
    pub data: Value,
}

/// The body of `POST /v1/pipelines/{id}/stages/{stage}/catch-up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUpRequest {
    /// The next event of the stage.
    pub from: u64,
    /// Keeps the state of the stage; else the stage restarts without one.
    #[serde(default)]
    pub keep_state: bool,
}
