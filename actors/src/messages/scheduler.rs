//! Messages to the scheduler.

pub(crate) enum SchedulerMessage {
    /// The run queue is inconsistent, for the reason.
    Broken(String),
}
