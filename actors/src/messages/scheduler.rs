//! Messages to the scheduler.

pub(crate) enum SchedulerMessage {
    /// The time has come at which waiting jobs may be admitted.
    TimePassed,
    /// The run queue is inconsistent, for the reason.
    Broken(String),
}
