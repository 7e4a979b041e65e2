//! Runtime state of a stage beside its records: actor, code and waiting publishers. All of it may be lost.

use ractor::ActorRef;

use crate::pipelines::runner_message::RunnerMessage;
use crate::pipelines::stage::Handler;

#[derive(Default)]
pub(crate) struct StageRuntime {
    pub(crate) handler: Option<Handler>,
    pub(crate) actor: Option<ActorRef<RunnerMessage>>,
    /// Events to receive after `uncounted`.
    pub(crate) behind: u64,
    /// Up to here the stage's events are too many to count.
    pub(crate) uncounted: u64,
    /// Grows when the cursor is moved or an actor takes over: earlier work does not count.
    pub(crate) life: u64,
    /// The actor is active, or a notification is under way.
    pub(crate) awake: bool,
    /// Grows when an actor takes over: earlier consumers are invalid.
    pub(crate) consumers: u64,
    /// The stage waits until later stages have caught up.
    pub(crate) held: bool,
    pub(crate) down: Option<String>,
}

impl StageRuntime {
    /// True if the process has the code.
    pub(crate) fn is_live(&self) -> bool {
        self.handler.is_some() && self.down.is_none()
    }
}
