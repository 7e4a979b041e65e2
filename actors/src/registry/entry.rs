//! An agent in the registry.

use std::collections::VecDeque;

use ostler_kernel::id::{ClientId, RunId};
use ostler_kernel::port::{Position, RunRow};
use ractor::ActorRef;
use tokio::task::AbortHandle;

use super::agent_lifecycle::{AgentLifecycle, Input, LifecycleContext, Phase, Step};
use crate::messages::agent::AgentMessage;

pub(crate) struct AgentEntry {
    pub(crate) client: ClientId,
    pub(crate) weight: u32,
    /// The agent has a recorded name of its own; otherwise it ends with its run.
    pub(crate) registered: bool,
    pub(crate) since: Position,
    machine: AgentLifecycle<ActorRef<AgentMessage>>,
    pub(crate) reason: Option<String>,
    /// Runs in order; the first is driven or passive.
    pub(crate) runs: VecDeque<RunRow>,
    alarm: Alarm,
}

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

    /// Appends a run. Most agents have only one, so no further capacity is reserved.
    pub(crate) fn push(&mut self, row: RunRow) {
        if self.runs.is_empty() {
            self.runs.reserve_exact(1);
        }
        self.runs.push_back(row);
    }

    pub(crate) fn phase(&self) -> &Phase<ActorRef<AgentMessage>> {
        self.machine.phase()
    }

    pub(crate) fn note_quarantined(&mut self, reason: String) {
        (self.machine, self.reason) = (AgentLifecycle::quarantined(), Some(reason));
    }

    pub(crate) fn note_released(&mut self) {
        (self.machine, self.reason) = (AgentLifecycle::new(), None);
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.machine.is_quarantined()
    }

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

    /// The first run, if it needs no actor now.
    pub(crate) fn passive(&self) -> Option<RunId> {
        self.runs.front().map(|row| row.run).filter(|_| self.machine.is_passive())
    }

    pub(crate) fn set_alarm(&mut self, alarm: Option<AbortHandle>) {
        self.alarm = Alarm(alarm);
    }

    /// True if the agent waits for a place.
    pub(crate) fn is_in_line(&self) -> bool {
        matches!(self.phase(), Phase::Waiting)
    }

    /// True if the live actor has the run.
    pub(crate) fn drives(&self, run: RunId) -> bool {
        matches!(self.phase(), Phase::Live { .. }) && self.runs.front().is_some_and(|row| row.run == run)
    }

    /// True if the run is on the list.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.runs.iter().any(|row| row.run == run)
    }
}
