//! An agent as the registry keeps it: `Row -> Starting -> Live -> Stopping -> Row`, and whether its first run needs an
//! actor at all.

use std::collections::VecDeque;

use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::port::{Position, RunRow};
use ractor::ActorRef;
use tokio::task::AbortHandle;

use crate::agent::{AgentMessage, AskReply, Request};

/// Whether an actor stands behind an agent.
pub(crate) enum Phase {
    Row,
    Starting,
    /// With the requests that were passed on to it.
    Live {
        actor: ActorRef<AgentMessage>,
        asked: u64,
    },
    Stopping,
    Quarantined,
}

impl Phase {
    /// Every phase, as it is told.
    pub(crate) const WORDS: [&str; 5] = ["row", "starting", "live", "stopping", "quarantined"];

    pub(crate) fn as_str(&self) -> &'static str {
        Phase::WORDS[self.index()]
    }

    /// Place among [`Phase::WORDS`].
    pub(crate) fn index(&self) -> usize {
        match self {
            Phase::Row => 0,
            Phase::Starting => 1,
            Phase::Live { .. } => 2,
            Phase::Stopping => 3,
            Phase::Quarantined => 4,
        }
    }
}

/// An agent: what it is, and what it has to do.
pub(crate) struct Slot {
    pub(crate) client: ClientId,
    pub(crate) weight: u32,
    /// Whether it has a name of its own, written in the journal; else it goes with its run.
    pub(crate) registered: bool,
    /// Where that stands in the journal.
    pub(crate) since: Position,
    pub(crate) phase: Phase,
    /// First in, first out; the first is being driven, or passive.
    pub(crate) runs: VecDeque<RunRow>,
    /// Set while the first run only waits, and needs no actor.
    pub(crate) passive: Option<Passive>,
}

/// A run that needs no actor for now: its journal has everything. Dropping this stops what would wake it.
pub(crate) struct Passive {
    pub(crate) alarm: Option<AbortHandle>,
}

impl Drop for Passive {
    fn drop(&mut self) {
        if let Some(alarm) = &self.alarm {
            alarm.abort();
        }
    }
}

impl Slot {
    pub(crate) fn new(client: ClientId, weight: u32) -> Slot {
        let (since, phase, runs) = (Position(0), Phase::Row, VecDeque::new());
        Slot { client, weight, registered: false, since, phase, runs, passive: None }
    }

    pub(crate) fn registered(client: ClientId, weight: u32, since: Position) -> Slot {
        Slot { registered: true, since, ..Slot::new(client, weight) }
    }

    /// Whether its actor is there and has this run.
    pub(crate) fn drives(&self, run: RunId) -> bool {
        matches!(self.phase, Phase::Live { .. }) && self.runs.front().is_some_and(|row| row.run == run)
    }

    pub(crate) fn pass_on(&mut self, request: Request, reply: AskReply) {
        if let Phase::Live { actor, asked } = &mut self.phase {
            *asked += 1;
            let _ = actor.cast(AgentMessage::Ask { request, reply });
        }
    }
}
