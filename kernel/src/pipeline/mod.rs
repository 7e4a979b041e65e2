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
mod model_check;
mod output;
mod spec;
mod state;
mod topology;

pub use compaction::Compaction;
pub use fault::SpecFault;
pub use output::{OUTPUT_BYTES_MAX, Output, output_bytes};
pub use spec::{
    KEEP_BYTES_MAX, KEEP_EVENTS_MAX, Keep, OnFailure, PipelineSpec, STAGES_MAX, StageSpec,
    TYPES_PER_STAGE_MAX,
};
pub use state::{
    DEAD_LETTER_REASON_CHARS_MAX, DEAD_LETTERS_KEPT_MAX, DeadLetter, EVENT_BYTES_FLAT, EVENT_BYTES_MAX,
    FailedEvent, IllegalRecord, LOG_CHUNK_BYTES_MAX, LOG_CHUNK_EVENTS_MAX, NextRead, Pipeline,
    PublishRefusal, STATE_BYTES_MAX, StageState, TRIES_MAX,
};
pub use topology::Topology;
