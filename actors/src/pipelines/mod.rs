//! Pipelines as they run: a log for each, and an actor for each stage that has code here.
//!
//! | file | idea |
//! |---|---|
//! | `stage` | what a stage is made of: code that hears events and publishes others |
//! | `log` | the one place that appends to a pipeline, and tells who has to look |
//! | `publish` | publishing from outside, and who has to wait for whom |
//! | `turn` | what a stage is to do next, and what it did |
//! | `count` | how far behind stages are, and what they read |
//! | `operate` | what is done about stages from outside |
//! | `load` | a log as its records tell it |
//! | `tail` | the newest events, for who is close behind |
//! | `live` | what is known of stages besides: who runs, who waits |
//! | `seat` | what it takes to deal with a stage, and how it deals with an event |
//! | `runner` | the actor of a stage: has its seat, lets code deal with events, records what came of it |
//! | `book` | the logs that were opened |
//! | `handle` | pipelines as users hold them |
//! | `error`, `row` | why not, and how things stand |
//!
//! The log is shared, like the ledger: publishing takes a lock and an append, and no message to anybody in between. Nothing in it
//! is the truth; all of it is read from the journal again when the actor `pipelines` starts anew.

pub(crate) mod actor;
mod count;
#[cfg(test)]
mod crash_tests;
mod error;
mod handle;
mod load;
mod log;
mod next_action;
mod operate;
#[cfg(test)]
mod output_tests;
mod pipeline_map;
mod publish;
mod recent_events;
mod row;
mod runner;
mod stage;
mod stage_consumer;
mod stage_runtime;

pub use error::{PipelineError, PublishError};
pub use handle::{Heard, PipelineEnd, PipelineHandle, Publisher};
pub(crate) use log::Log;
pub(crate) use pipeline_map::Book;
pub use row::{PipelineRow, StageRow};
pub(crate) use runner::{Runner, RunnerArguments};
pub use stage::{Gap, Outbox, PipelineEvent, Stage, StageError};

/// Events that a stage deals with before it records what came of them, at most.
pub(crate) const EVENTS_AT_ONCE: usize = 256;

/// Bytes of the events that a stage which is dealt with elsewhere is told at once: with the one that reaches it, no more are told.
pub(crate) const HEARD_BYTES_AT_ONCE: usize = 4 << 20;

/// How long a stage goes on before it records what came of it, if it is not through with what is at hand, in milliseconds:
/// who is behind it starts before it ends.
pub(crate) const AT_ONCE_MS: u64 = 1;

/// Bytes of what a stage publishes before it records it; what it publishes while it deals with one event more, and a state, still fit
/// into one append.
pub(crate) const OUTPUT_BYTES_AT_ONCE: usize = 1 << 20;
