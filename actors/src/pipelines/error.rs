//! Why a pipeline did not do as asked.

use ostler_kernel::id::{PipelineId, StageId};
use ostler_kernel::json::JsonError;
use ostler_kernel::pipeline::{IllegalRecord, PublishRefusal, STATE_BYTES_MAX, SpecFault};
use ostler_kernel::port::JournalError;

/// Why something was not done with a pipeline. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    /// It breaks rules: all of them.
    #[error("the pipeline breaks {} rules{}", .0.len(), .0.iter().map(|fault| format!("\n{fault}")).collect::<String>())]
    Spec(Vec<SpecFault>),
    /// There is another one of this name.
    #[error("there is a pipeline {0} already, and it is another one: choose another name")]
    Taken(PipelineId),
    /// There are as many as there may be.
    #[error("there are {0} pipelines already, which is the most")]
    TooMany(usize),
    /// There is none of this name.
    #[error("there is no pipeline {0}")]
    Unknown(String),
    /// It has no such stage.
    #[error("pipeline {pipeline} has no stage {stage:?}: it has {}", stages.join(", "))]
    UnknownStage {
        /// The pipeline.
        pipeline: PipelineId,
        /// What was asked for.
        stage: String,
        /// The stages there are.
        stages: Vec<String>,
    },
    /// The stage hears nothing, so there is nothing to deal with.
    #[error("stage {0} subscribes to nothing: it is driven from outside, with a publisher")]
    Source(StageId),
    /// The stage has code in this process already.
    #[error("stage {0} is dealt with by this process")]
    Attached(StageId),
    /// A number beyond the log.
    #[error("pipeline {pipeline} has {head} events: there is no event {seq}")]
    Beyond {
        /// The pipeline.
        pipeline: PipelineId,
        /// What was asked for.
        seq: u64,
        /// The last event.
        head: u64,
    },
    /// Events that are no longer kept.
    #[error("pipeline {pipeline} keeps events from {oldest} on: {seq} is gone")]
    Gone {
        /// The pipeline.
        pipeline: PipelineId,
        /// What was asked for.
        seq: u64,
        /// The oldest event.
        oldest: u64,
    },
    /// The cursor is not where the caller believed it was.
    #[error("stage {stage} is at {cursor}, not at {expected}: somebody else moved it")]
    Moved {
        /// The stage.
        stage: StageId,
        /// Where the cursor is.
        cursor: u64,
        /// Where the caller believed it was.
        expected: u64,
    },
    /// The stage waits for nobody.
    #[error("stage {0} has not stopped: only one that has can be released")]
    NotStopped(StageId),
    /// Only a stage that hears nothing, or is dealt with elsewhere, is ended from outside.
    #[error(
        "stage {0} still has events to deal with: it ends when those before it have ended and it has dealt with all"
    )]
    NotThrough(StageId),
    /// An acknowledgement of nothing leaves the cursor where it is: sent twice, it would publish twice.
    #[error(
        "stage {stage} acknowledges nothing: upto is after, {after}, so it takes nothing to publish; publish what belongs to no event as \
         an event of the stage"
    )]
    NothingAcknowledged {
        /// The stage.
        stage: StageId,
        /// Where the cursor is, and stays.
        after: u64,
    },
    /// What comes with it is refused.
    #[error(transparent)]
    Publish(#[from] Box<PublishError>),
    /// Its records do not follow from each other.
    #[error("pipeline {pipeline}: {error}")]
    Illegal {
        /// The pipeline, or what its stream is called.
        pipeline: String,
        /// What is wrong.
        error: IllegalRecord,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The actor is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
    /// Nothing goes on any more.
    #[error("the system has ended: {0}")]
    Halted(String),
}

/// Why an event was not published. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The pipeline does not take it.
    #[error(transparent)]
    Refused(#[from] PublishRefusal),
    /// A stage behind it is too far behind, and did not catch up in time.
    #[error(
        "stage {stage} is {behind} events behind, which is the most: publish slower, or see what keeps it"
    )]
    Behind {
        /// Which stage.
        stage: StageId,
        /// By how many events that it hears.
        behind: u64,
    },
    /// The data has no canonical JSON.
    #[error("data of an event: {0}")]
    Data(JsonError),
    /// A state is too large.
    #[error("a state of {bytes} bytes, expected at most {STATE_BYTES_MAX}")]
    StateTooLarge {
        /// How large.
        bytes: usize,
    },
    /// The stage is through with the event that this belongs to.
    #[error("the stage is through with its event: publish before it returns")]
    TooLate,
    /// It could not be written down.
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
