//! An agent as the registry keeps it.

use std::collections::VecDeque;

use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::port::{Position, RunRow};
use ractor::ActorRef;
use tokio::task::AbortHandle;

use super::agent_lifecycle::{AgentLifecycle, Input, LifecycleContext, Phase, Step};
use crate::messages::agent::AgentMessage;

/// An agent: what it is, and what it has to do.
pub(crate) struct AgentEntry {
    pub(crate) client: ClientId,
    pub(crate) weight: u32,
    /// Whether it has a name of its own, written in the journal; else it goes with its run.
    pub(crate) registered: bool,
    /// Where that stands in the journal.
    pub(crate) since: Position,
    machine: AgentLifecycle<ActorRef<AgentMessage>>,
    /// Why it is out of service, if it is.
    pub(crate) reason: Option<String>,
    /// First in, first out; the first is being driven, or passive.
    pub(crate) runs: VecDeque<RunRow>,
    /// What wakes a passive run.
    alarm: Alarm,
}

/// Dropping this stops what would wake a run.
#[derive(Default)]
struct Alarm(Option<AbortHandle>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(alarm) = &self.0 {
            alarm.abort();
        }
    }
}

impl AgentEntry {
    pub(crate) fn new(client: ClientId, weight: u32) -> AgentEntry {
        AgentEntry {
            client,
            weight,
            registered: false,
            since: Position(0),
            machine: AgentLifecycle::new(),
            reason: None,
            runs: VecDeque::new(),
            alarm: Alarm::default(),
        }
    }

    pub(crate) fn registered(client: ClientId, weight: u32, since: Position) -> AgentEntry {
        AgentEntry { registered: true, since, ..AgentEntry::new(client, weight) }
    }

    /// One more run to do. Most agents have one and no other, so no room is made for more.
    pub(crate) fn push(&mut self, row: RunRow) {
        if self.runs.is_empty() {
            self.runs.reserve_exact(1);
        }
        self.runs.push_back(row);
    }

    pub(crate) fn phase(&self) -> &Phase<ActorRef<AgentMessage>> {
        self.machine.phase()
    }

    /// Its records say that it is out of service.
    pub(crate) fn note_quarantined(&mut self, reason: String) {
        (self.machine, self.reason) = (AgentLifecycle::quarantined(), Some(reason));
    }

    /// Its records say that it was put back into service.
    pub(crate) fn note_released(&mut self) {
        (self.machine, self.reason) = (AgentLifecycle::new(), None);
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.machine.is_quarantined()
    }

    /// Lets its machine take something in.
    pub(crate) fn take(
        &mut self,
        input: Input<ActorRef<AgentMessage>>,
        pool: bool,
    ) -> Step<ActorRef<AgentMessage>> {
        let around = LifecycleContext { first: self.runs.front().map(|row| row.run), pool };
        let step = self.machine.take(input, around);
        if !self.machine.is_passive() {
            self.alarm = Alarm::default();
        }
        step
    }

    /// Its first run, if that needs no actor for now.
    pub(crate) fn passive(&self) -> Option<RunId> {
        self.runs.front().map(|row| row.run).filter(|_| self.machine.is_passive())
    }

    /// Keeps what wakes its first run, which is passive.
    pub(crate) fn set_alarm(&mut self, alarm: Option<AbortHandle>) {
        self.alarm = Alarm(alarm);
    }

    /// Whether it waits for a place for its actor.
    pub(crate) fn is_in_line(&self) -> bool {
        matches!(self.phase(), Phase::Waiting)
    }

    /// Whether its actor is there and has this run.
    pub(crate) fn drives(&self, run: RunId) -> bool {
        matches!(self.phase(), Phase::Live { .. }) && self.runs.front().is_some_and(|row| row.run == run)
    }

    /// Whether it has this run on its list.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.runs.iter().any(|row| row.run == run)
    }
}
