//! Metrics of a system. Without a recorder every measuring point is one check of an `Option`.
//!
//! Events are counted as they happen. Present values (queues, shares, agents) are collected on request by
//! [`System::look`](crate::System::look) into a new recorder, so a client outside the busiest ones disappears from the
//! next answer.

mod counted;
mod measures;
pub mod metric;
mod queue;
mod queue_look;
#[cfg(test)]
mod seen;
mod shared_recorder;
mod tally;

pub use measures::Measures;
pub(crate) use measures::StageLook;
pub(crate) use queue::QueueMeasures;
pub(crate) use queue_look::QueueLook;
#[cfg(test)]
pub(crate) use seen::Seen;
pub use shared_recorder::SharedRecorder;
