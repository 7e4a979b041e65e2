//! Pipelines: stages that publish and subscribe to typed events, a log of those events, and a cursor for each stage.
//!
//! Source: "Agent Scheduler", section 5 (definition 6 and the ordering constraint). It differs where the paper's code loses or
//! mixes events: nothing is sent to anybody here. A stage reads the log after its own cursor, old and new events alike, so
//! they cannot interleave, and what it has not acknowledged is there when it comes back.
//!
//! | file | idea |
//! |---|---|
//! | `spec` | what a pipeline is to be, and every fault of that |
//! | `topology` | who hears whom |
//! | `output` | how much may be published at once |
//! | `standing` | how far each stage has come, and what the log keeps |
//! | `compaction` | which records that makes needless |

mod compaction;
mod fault;
#[cfg(test)]
mod model;
mod output;
mod spec;
mod standing;
mod topology;

pub use compaction::Compaction;
pub use fault::SpecFault;
pub use output::{OUTPUT_BYTES_MAX, Output, output_bytes};
pub use spec::{
    KEEP_BYTES_MAX, KEEP_EVENTS_MAX, Keep, OnPoison, PipelineSpec, STAGES_MAX, StageSpec, TYPES_PER_STAGE_MAX,
};
pub use standing::{
    EVENT_BYTES_FLAT, EVENT_BYTES_MAX, FailedEvent, IllegalRecord, Next, PARKED_KEPT_MAX,
    PARKED_REASON_CHARS_MAX, ParkedEvent, Pipeline, PublishRefusal, STATE_BYTES_MAX, STRETCH_BYTES_MAX,
    STRETCH_EVENTS_MAX, Standing, TRIES_MAX,
};
pub use topology::Topology;
