//! Errors of pipelines.

use ostler_kernel::id::{PipelineId, StageId};
use ostler_kernel::json::JsonError;
use ostler_kernel::pipeline::{IllegalRecord, PublishRefusal, STATE_BYTES_MAX, SpecFault};
use ostler_kernel::port::JournalError;

/// The reason why an operation on a pipeline failed. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    /// The declaration has the faults.
    #[error("the pipeline breaks {} rules{}", .0.len(), .0.iter().map(|fault| format!("\n{fault}")).collect::<String>())]
    Spec(Vec<SpecFault>),
    /// Another pipeline has the name.
    #[error("there is a pipeline {0} already, and it is another one: choose another name")]
    Taken(PipelineId),
    /// The maximal number of pipelines exists.
    #[error("there are {0} pipelines already, which is the most")]
    TooMany(usize),
    /// No pipeline has the name.
    #[error("there is no pipeline {0}")]
    Unknown(String),
    /// The pipeline has no such stage.
    #[error("pipeline {pipeline} has no stage {stage:?}: it has {}", stages.join(", "))]
    UnknownStage {
        /// The pipeline.
        pipeline: PipelineId,
        /// The requested stage.
        stage: String,
        /// The existing stages.
        stages: Vec<String>,
    },
    /// The stage subscribes to nothing.
    #[error("stage {0} subscribes to nothing: it is driven from outside, with a publisher")]
    Source(StageId),
    /// The stage has code in the process already.
    #[error("stage {0} is dealt with by this process")]
    Attached(StageId),
    /// The number is beyond the log.
    #[error("pipeline {pipeline} has {head} events: there is no event {seq}")]
    Beyond {
        /// The pipeline.
        pipeline: PipelineId,
        /// The requested number.
        seq: u64,
        /// The last event.
        head: u64,
    },
    /// The events are no longer kept.
    #[error("pipeline {pipeline} keeps events from {oldest} on: {seq} is gone")]
    Gone {
        /// The pipeline.
        pipeline: PipelineId,
        /// The requested number.
        seq: u64,
        /// The oldest kept event.
        oldest: u64,
    },
    /// The cursor is elsewhere.
    #[error("stage {stage} is at {cursor}, not at {expected}: somebody else moved it")]
    Moved {
        /// The stage.
        stage: StageId,
        /// The cursor.
        cursor: u64,
        /// The expected cursor.
        expected: u64,
    },
    /// The stage has not stopped.
    #[error("stage {0} has not stopped: only one that has can be released")]
    NotStopped(StageId),
    /// The stage has events left, so it cannot be ended from outside.
    #[error(
        "stage {0} still has events to deal with: it ends when those before it have ended and it has dealt with all"
    )]
    NotThrough(StageId),
    /// A stage has code in the process, so the pipeline cannot be removed.
    #[error(
        "pipeline {pipeline}: the process that holds the data folder runs its stage {stage}; remove the pipeline when that process has \
         ended"
    )]
    HasCode {
        /// The pipeline.
        pipeline: PipelineId,
        /// The stage.
        stage: StageId,
    },
    /// A stage has events left, so the pipeline cannot be removed.
    #[error(
        "pipeline {pipeline}: its stage {stage} has {events} event{} left; process them, or skip them with `ostler pipeline catch-up \
         {pipeline} {stage} --from {next}`, then remove the pipeline",
        if *events == 1 { "" } else { "s" }
    )]
    HasEvents {
        /// The pipeline.
        pipeline: PipelineId,
        /// The stage.
        stage: StageId,
        /// Number of the events.
        events: u64,
        /// Number after the last event.
        next: u64,
    },
    /// The acknowledgement is empty: repeated, it would publish twice.
    #[error(
        "stage {stage} acknowledges nothing: upto is after, {after}, so it takes nothing to publish; publish what belongs to no event as \
         an event of the stage"
    )]
    NothingAcknowledged {
        /// The stage.
        stage: StageId,
        /// The cursor, unchanged.
        after: u64,
    },
    /// A publication of the acknowledgement is refused.
    #[error(transparent)]
    Publish(#[from] Box<PublishError>),
    /// The records do not follow from each other.
    #[error("pipeline {pipeline}: {error}")]
    Illegal {
        /// The pipeline, or the name of its stream.
        pipeline: String,
        /// The fault.
        error: IllegalRecord,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The actor is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
    /// The system has halted.
    #[error("the system has ended: {0}")]
    Halted(String),
}

/// The reason why an event was not published. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The pipeline refuses the event.
    #[error(transparent)]
    Refused(#[from] PublishRefusal),
    /// A subscriber is too far behind and did not catch up in time.
    #[error(
        "stage {stage} is {behind} events behind, which is the most: publish slower, or see what keeps it"
    )]
    Behind {
        /// The stage.
        stage: StageId,
        /// The lag in events.
        behind: u64,
    },
    /// Canonical JSON cannot represent the data.
    #[error("data of an event: {0}")]
    Data(JsonError),
    /// The state is too large.
    #[error("a state of {bytes} bytes, expected at most {STATE_BYTES_MAX}")]
    StateTooLarge {
        /// The size.
        bytes: usize,
    },
    /// The stage has finished the event of the outbox.
    #[error("the stage is through with its event: publish before it returns")]
    TooLate,
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<PublishError> for PipelineError {
    fn from(error: PublishError) -> PipelineError {
        match error {
            PublishError::Journal(error) => PipelineError::Journal(error),
            error => PipelineError::Publish(Box::new(error)),
        }
    }
}

impl From<PublishRefusal> for PipelineError {
    fn from(refusal: PublishRefusal) -> PipelineError {
        PublishError::Refused(refusal).into()
    }
}
