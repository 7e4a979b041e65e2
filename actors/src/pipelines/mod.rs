//! Pipelines: a log for each, and an actor for each stage with code in the process.
//!
//! | file | idea |
//! |---|---|
//! | `stage` | the code of a stage: handles events and publishes others |
//! | `log` | a pipeline's log: the only place that appends to its streams |
//! | `publish`, `operate` | publishing, and operations on stages, from outside |
//! | `count` | how far stages are behind |
//! | `load` | rebuilds a log from its records |
//! | `recent_events` | the newest events, for stages close behind |
//! | `stage_runtime` | runtime state of a stage beside its records |
//! | `next_action`, `stage_consumer`, `runner` | the next action of a stage, its consumer, and the actor for both |
//! | `pipeline_map`, `actor` | the open logs, and the actor that creates pipelines and starts stages |
//!
//! A log is shared: publishing takes a lock and an append, and no message. When the actor `pipelines` starts again, all
//! of
//! this state is rebuilt from the journal.

pub(crate) mod actor;
pub(crate) mod batch_limits;
pub(crate) mod count;
pub(crate) mod error;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod message;
pub(crate) mod next_action;
pub(crate) mod operate;
pub(crate) mod pipeline_map;
pub(crate) mod publish;
pub(crate) mod recent_events;
pub(crate) mod row;
pub(crate) mod runner;
pub(crate) mod runner_message;
pub(crate) mod stage;
pub(crate) mod stage_consumer;
pub(crate) mod stage_runtime;

pub use error::{PipelineError, PublishError};
pub use row::{DeadLetterRow, PipelineRow, StageRow};
pub use stage::{Gap, Outbox, PipelineEvent, Stage, StageError};
