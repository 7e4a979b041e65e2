//! Messages to the actor of a stage.

#[derive(Debug)]
pub(crate) enum RunnerMessage {
    /// Look for the next action.
    Look,
}
