//! What is known of a stage besides its records: who runs it, who waits for it. All of it may be lost.

use std::sync::Arc;

use ractor::ActorRef;
use serde_json::Value;

use super::runner::RunnerMessage;
use super::stage::AnyStage;

/// Makes the code of a stage anew, with the state that it kept.
pub(crate) type Handler = Arc<dyn Fn(Option<Value>) -> Box<dyn AnyStage> + Send + Sync>;

/// What is known of a stage besides its records.
#[derive(Default)]
pub(super) struct Live {
    /// Its code, if this process has any.
    pub(super) handler: Option<Handler>,
    /// Its actor, if it is up.
    pub(super) actor: Option<ActorRef<RunnerMessage>>,
    /// Events that it is still to hear behind `uncounted`.
    pub(super) behind: u64,
    /// Up to here nobody has counted which events it hears: there are too many.
    pub(super) uncounted: u64,
    /// One more whenever somebody else moves its cursor or another actor takes it up: what was begun before does not count.
    pub(super) life: u64,
    /// Its actor deals with it, or a message to do so is on its way.
    pub(super) awake: bool,
    /// One more whenever an actor takes it up: what has its seat from before lets go of it.
    pub(super) seats: u64,
    /// It waits until those behind it have caught up.
    pub(super) held: bool,
    /// Why it has no actor any more.
    pub(super) down: Option<String>,
}

impl Live {
    /// Whether code of this process deals with it.
    pub(super) fn is_live(&self) -> bool {
        self.handler.is_some() && self.down.is_none()
    }
}
