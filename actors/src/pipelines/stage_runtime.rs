//! What is known of a stage besides its records: who runs it, who waits for it. All of it may be lost.

use ractor::ActorRef;

use crate::pipelines::runner_message::RunnerMessage;
use crate::pipelines::stage::Handler;

/// What is known of a stage besides its records.
#[derive(Default)]
pub(crate) struct StageRuntime {
    /// Its code, if this process has any.
    pub(crate) handler: Option<Handler>,
    /// Its actor, if it is up.
    pub(crate) actor: Option<ActorRef<RunnerMessage>>,
    /// Events that it is still to hear behind `uncounted`.
    pub(crate) behind: u64,
    /// Up to here nobody has counted which events it hears: there are too many.
    pub(crate) uncounted: u64,
    /// One more whenever somebody else moves its cursor or another actor takes it up: what was begun before does not count.
    pub(crate) life: u64,
    /// Its actor deals with it, or a message to do so is on its way.
    pub(crate) awake: bool,
    /// One more whenever an actor takes it up: what has its consumer from before lets go of it.
    pub(crate) consumers: u64,
    /// It waits until those behind it have caught up.
    pub(crate) held: bool,
    /// Why it has no actor any more.
    pub(crate) down: Option<String>,
}

impl StageRuntime {
    /// Whether code of this process deals with it.
    pub(crate) fn is_live(&self) -> bool {
        self.handler.is_some() && self.down.is_none()
    }
}
