//! The one path from decided events to the journal, for the driver of a run and for runs that are suspended.

use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::port::{JournalError, Position, Seq, StreamId};
use ostler_kernel::run::AbandonedWork;

use crate::run::services::RunServices;

/// Events that the kernel decided about a run, and the work that they abandon.
pub(super) struct Decided<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) client: &'a ClientId,
    pub(super) run: RunId,
    pub(super) last: Seq,
    pub(super) events: Vec<Event>,
    /// Work with child runs to cancel after the append: a child that is opened meanwhile reads the record.
    pub(super) abandoned: Vec<AbandonedWork>,
}

impl Decided<'_> {
    /// Appends the events, reports them to the metrics, and cancels the child runs of abandoned work.
    pub(super) fn append(self, services: &Arc<RunServices>) -> Result<Position, JournalError> {
        let Decided { agent, client, run, last, events, abandoned } = self;
        let told: Vec<Telemetry> = events.iter().filter_map(Telemetry::of).collect();
        let closes = events.iter().any(|event| matches!(event, Event::RunClosed { .. }));
        let position = services.journal.append_events(StreamId::run(client, run), last, events)?;
        if closes {
            services.gatekeeper.totals.closed(run);
        }
        for event in told {
            services.measures.tell(event, Some(agent), Some(run));
        }
        services.executor.cancel_children(client, run, abandoned);
        Ok(position)
    }
}
