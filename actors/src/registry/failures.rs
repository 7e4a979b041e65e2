//! Actors that end, quarantined agents, and runs suspended for that.

use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::Event;
use ostler_kernel::id::AgentId;
use ostler_kernel::port::{JournalError, Position, RunRow};
use ractor::ActorProcessingErr;

use super::RegistryState;
use super::agent_lifecycle::{Input, Phase};
use crate::base::paused_time::SPACE_RETRY;
use crate::messages::registry::RegistryMessage;
use crate::run::suspended_runs::{self, CHECKPOINTED};

/// Accepts a full disk: the record is written later.
pub(super) fn unless_full(done: Result<Position, JournalError>) -> Result<(), JournalError> {
    match done {
        Err(error) if !matches!(error, JournalError::Full(_)) => Err(error),
        _ => Ok(()),
    }
}

/// Reason of runs that are suspended with their agent.
pub(super) const OUT_OF_SERVICE: &str = "its agent is quarantined";

/// Actor ends of a run without progress before it is suspended.
pub(super) const CRASHES_MAX: u32 = 3;

impl RegistryState {
    pub(super) fn gone(&mut self, agent: &AgentId, again: bool) -> Result<(), ActorProcessingErr> {
        self.services.measures.tell(Telemetry::AgentTerminated, Some(agent), None);
        let Some(entry) = self.agents.get(agent) else { return Ok(()) };
        let (is_out, passes) = (entry.is_quarantined(), entry.runs.is_empty() && !entry.registered);
        if again && !is_out {
            self.crashed(agent)?;
        } else if !is_out {
            self.unregister(agent);
        }
        if passes && !again {
            self.agents.remove(agent);
        } else {
            self.take(agent, Input::Gone { again });
        }
        Ok(())
    }

    /// Suspends the first run after too many actor ends, so that the runs behind it continue.
    pub(super) fn crashed(&mut self, agent: &AgentId) -> Result<(), JournalError> {
        let Some(entry) = self.agents.get(agent).filter(|entry| matches!(entry.phase(), Phase::Live { .. }))
        else {
            return Ok(());
        };
        let Some(run) = entry.runs.front().map(|row| row.run) else { return Ok(()) };
        if self.services.active_runs.crashed(run) < CRASHES_MAX {
            return Ok(());
        }
        match self.remove_run(agent, run) {
            Some(row) => {
                let reason = format!("it ended its agent {CRASHES_MAX} times in a row without getting on");
                unless_full(self.park(&row, reason))
            }
            None => Ok(()),
        }
    }

    /// Voids what the ended actor had queued or was granted.
    pub(super) fn unregister(&self, agent: &AgentId) {
        self.services.scheduler.unregister(agent);
    }

    pub(super) fn give_up(&mut self, agent: &AgentId, reason: String) -> Result<(), ActorProcessingErr> {
        self.unregister(agent);
        self.take(agent, Input::GivenUp);
        let Some(entry) = self.agents.get_mut(agent) else { return Ok(()) };
        entry.reason = Some(reason.clone());
        let (client, registered) = (entry.client.clone(), entry.registered);
        let runs: Vec<RunRow> = entry.runs.drain(..).collect();
        if registered {
            let agent = agent.clone();
            unless_full(
                self.append(&client, vec![Event::AgentQuarantined { agent, reason: reason.clone() }]),
            )?;
        } else {
            self.agents.remove(agent);
        }
        runs.iter().try_for_each(|row| unless_full(self.park(row, reason.clone())))?;
        Ok(())
    }

    /// Suspends an unlisted run. On a full disk the record waits for space, and no actor drives the run until then.
    pub(super) fn park(&mut self, row: &RunRow, reason: String) -> Result<Position, JournalError> {
        let parked = suspended_runs::park(&self.services, row, reason.clone());
        match &parked {
            Ok(position) => {
                if reason == CHECKPOINTED {
                    let (agent, run) = (Some(&row.agent), Some(row.run));
                    self.services.measures.tell(Telemetry::CheckpointCreated, agent, run);
                }
                self.let_go(row.run);
                let (services, row, position) = (Arc::clone(&self.services), row.clone(), *position);
                tokio::spawn(async move {
                    if let Err(JournalError::Full(_)) = services.journal.durable(position).await {
                        // A registry that starts meanwhile lists the run again.
                        services.active_runs.add(row.run, false);
                        services.mailboxes.tell_registry(RegistryMessage::Park { row, reason });
                    }
                });
            }
            Err(JournalError::Full(_)) => {
                let (services, row) = (Arc::clone(&self.services), row.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(SPACE_RETRY).await;
                    services.mailboxes.tell_registry(RegistryMessage::Park { row, reason });
                });
            }
            Err(_) => {}
        }
        parked
    }

    /// Suspends a run after its record had to wait; the run may be active again.
    pub(super) fn park_late(&mut self, row: RunRow, reason: String) -> Result<(), JournalError> {
        let is_listed = self.agents.get(&row.agent).is_some_and(|entry| entry.has(row.run));
        if is_listed || !self.services.active_runs.has(row.run) {
            Ok(())
        } else {
            unless_full(self.park(&row, reason))
        }
    }
}
