//! Messages to the actor of a stage.

#[derive(Debug)]
pub(crate) enum RunnerMessage {
    /// There may be an action.
    Look,
}
