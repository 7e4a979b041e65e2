//! What is measured, and where it goes: to the recorder of the system, if it has one. Without one, every measuring point
//! is a look at an `Option`.
//!
//! What happens is counted as it happens. How things stand (queues, shares, agents) is looked up when somebody asks, by
//! [`System::look`](crate::System::look), and put into a recorder that is made for the answer: a client that is no longer
//! among the busiest is not in the next one.

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
