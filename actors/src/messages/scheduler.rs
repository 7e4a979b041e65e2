//! Messages to the scheduler.

pub(crate) enum SchedulerMessage {
    /// The queue cannot be relied on any more, for this reason.
    Broken(String),
}
