//! Pipelines: stages that publish and subscribe to typed events, one log of these events, and one cursor per stage.
//!  
//! Source: the Agent Scheduler paper, section 5 (definition 6 and the ordering constraint). The paper's code pushes events to
//! subscribers and can lose or reorder events. Here each stage reads the log behind its own cursor instead: old and new
//! events arrive in one order, and an unacknowledged event is read again after a restart.
//!  
//! | module | content |
//! |---|---|
//! | `spec`, `fault` | the declaration of a pipeline, and its validation |
//! | `topology` | the subscription graph of a valid pipeline |
//! | `output` | the limit on events published in one append |
//! | `state` | cursors, dead letters and retained log; `records` proposes changes, `apply` makes them |
//! | `compaction` | records that a later record supersedes |

mod apply;
mod compaction;
mod fault;
#[cfg(test)]
mod model_check;
mod output;
mod records;
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
