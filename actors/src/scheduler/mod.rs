//! The scheduler: owns the run queue, grants slots, charges attempts. Its actor keeps the queue open; callers reach the queue
//! without a message, through [`SchedulerHandle`].

pub(crate) mod actor;
pub(crate) mod context;
pub(crate) mod handle;
mod queue_time;
mod queued;
pub(crate) mod rows;
mod slot_allocator;
mod tenants;

pub(crate) use actor::{Scheduler, SchedulerArguments};
pub(crate) use context::QueueContext;
pub(crate) use handle::{SchedulerHandle, TurnAnswer, TurnWait};
pub use rows::{QueueRow, RateWait};
