//! Messages to the scheduler.

pub(crate) enum SchedulerMessage {
    /// The run queue is inconsistent, for this reason.
    Broken(String),
}
