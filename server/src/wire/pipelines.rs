//! What is said about pipelines.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ostler_kernel::pipeline::Keep;

/// The answer to `GET /v1/pipelines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineList {
    /// All pipelines, by name.
    pub pipelines: Vec<PipelineLine>,
}

/// A pipeline, as it stands: the answer to `GET /v1/pipelines/{id}`, and to `POST /v1/pipelines`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineLine {
    /// Its name.
    pub pipeline: String,
    /// The number of its last event; 0: it has none.
    pub head: u64,
    /// The number of the oldest event that is kept.
    pub oldest: u64,
    /// What the events that are kept count for, in bytes.
    pub bytes: u64,
    /// How much is kept.
    pub keep: Keep,
    /// Its stages.
    pub stages: Vec<StageLine>,
}

/// A stage, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageLine {
    /// Its name.
    pub stage: String,
    /// What it publishes.
    pub publishes: Vec<String>,
    /// What it hears.
    pub subscribes: Vec<String>,
    /// `source`, `live`, `external`, `stopped`, `down` or `ended`.
    pub state: String,
    /// Why it is stopped or down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last event that it has dealt with.
    pub cursor: u64,
    /// Events that it is still to hear.
    pub lag: u64,
    /// Events that were gone before it had come to them, as far as it was told of them.
    pub missed: u64,
    /// Events that are gone, and that it is still to be told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapLine>,
    /// The newest of the events that were parked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parked: Vec<DeadLetterLine>,
    /// How many were in all.
    pub parked_total: u64,
}

/// An event that was too much for a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterLine {
    /// Its number; 0: the end of what the stage hears.
    pub seq: u64,
    /// What happened the last time.
    pub reason: String,
    /// What kind of event it is, in the answer to a `GET`, as long as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The first 200 characters of what it says, as JSON; then `…`, if that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// It is no longer kept, and what it said cannot be told any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

/// An event of a pipeline: a line of `GET /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineEventLine {
    /// `pipeline_event`.
    #[serde(rename = "type")]
    pub line_type: String,
    /// Its number: 1 for the first.
    pub seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The stage that published it.
    pub stage: String,
    /// What kind of event.
    pub kind: String,
    /// What it says.
    pub data: Value,
}

/// The body of `POST /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// The stage that publishes.
    pub stage: String,
    /// What kind of event.
    pub kind: String,
    /// What it says.
    pub data: Value,
}

/// The answer to `POST /v1/pipelines/{id}/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRef {
    /// The pipeline.
    pub pipeline: String,
    /// The number of the event.
    pub seq: u64,
}

/// The answer to `GET /v1/pipelines/{id}/stages/{stage}/events`: what the stage is to hear next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageEvents {
    /// What comes after this is to be heard next: an acknowledgement names it.
    pub after: u64,
    /// Events that were gone before it had come to them. They are told until an acknowledgement names `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapLine>,
    /// What it kept when it acknowledged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The events.
    pub events: Vec<PipelineEventLine>,
    /// Everything up to here is dealt with when these events are: an acknowledgement names it.
    pub upto: u64,
    /// There is nothing more, not even a gap to acknowledge, and nothing more comes.
    pub ended: bool,
}

/// Events that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapLine {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// The body of `POST /v1/pipelines/{id}/stages/{stage}/ack`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// The `after` of the answer with what was heard: if the cursor is elsewhere by now, nothing counts.
    pub after: u64,
    /// Everything up to here is dealt with.
    pub upto: u64,
    /// What the stage is to be given when it starts again; left out: what it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// What it publishes with that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<OutputRequest>,
}

/// An event that is published with an acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// What kind of event.
    pub kind: String,
    /// What it says.
    pub data: Value,
}

/// The body of `POST /v1/pipelines/{id}/stages/{stage}/catch-up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUpRequest {
    /// The first event that the stage is to hear.
    pub from: u64,
    /// Whether it keeps its state; else it begins without one.
    #[serde(default)]
    pub keep_state: bool,
}
