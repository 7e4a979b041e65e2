//! Answers to calls.

use super::*;
use crate::spec::SUPERVISOR_CHILDREN_MAX;
use crate::status::ChildState;

impl Tree {
    /// Answers one call. A caller that no longer waits needs no answer.
    pub(super) async fn answer(&mut self, call: Call) {
        match call {
            Call::StartChild { spec, reply } => {
                let _ = reply.send(self.start_child(spec).await);
            }
            Call::Terminate { id, reply } => {
                let _ = reply.send(self.terminate_child(id).await);
            }
            Call::Restart { id, reply } => {
                let _ = reply.send(self.restart_child(id).await);
            }
            Call::Delete { id, reply } => {
                let _ = reply.send(self.delete_child(id));
            }
            Call::GetSpec { id, reply } => {
                let spec = self.row(&id).map(|(_, row)| row.spec.clone());
                let _ = reply.send(spec.ok_or(GetSpecError::NotFound { id }));
            }
            Call::Which(reply) => {
                let _ = reply.send(self.rows.values().map(status).collect());
            }
            Call::Count(reply) => {
                let mut counts = Counts::default();
                for row in self.rows.values() {
                    counts.add(row.spec.kind, row.presence() == Presence::Up);
                }
                let _ = reply.send(counts);
            }
            Call::Abort { id, reply } => {
                let running = self.row(&id).and_then(|(_, row)| match &row.state {
                    State::Up(running) => Some(running),
                    State::Down | State::Starting(_) | State::Restarting { .. } => None,
                });
                let _ = reply.send(running.is_some_and(Running::abort));
            }
        }
    }

    fn row(&self, id: &ChildId) -> Option<(Place, &Row)> {
        let place = *self.places.get(id)?;
        Some((place, &self.rows[&place]))
    }

    async fn start_child(&mut self, spec: ChildSpec) -> Result<ChildRef, StartChildError> {
        let faults = spec.faults(self.rules.auto_shutdown);
        if !faults.is_empty() {
            return Err(StartChildError::Invalid(faults));
        }
        let id = spec.id.clone();
        if let Some((_, row)) = self.row(&id) {
            return Err(match &row.state {
                State::Up(running) => {
                    StartChildError::AlreadyStarted { id, child: running.handle.child.clone() }
                }
                State::Down | State::Starting(_) | State::Restarting { .. } => {
                    StartChildError::AlreadyPresent { id }
                }
            });
        }
        if self.rows.len() >= SUPERVISOR_CHILDREN_MAX {
            return Err(StartChildError::MaxChildren { max: SUPERVISOR_CHILDREN_MAX as u32 });
        }
        let place = self.add(spec);
        match self.start_row(place, Purpose::First).await {
            Ok(child) => Ok(child),
            Err(NotStarted::Ignored) => Err(StartChildError::Ignored { id }),
            Err(NotStarted::Failed { exit, .. }) => {
                self.forget(place);
                Err(StartChildError::Failed { id, exit })
            }
        }
    }

    async fn terminate_child(&mut self, id: ChildId) -> Result<(), TerminateChildError> {
        let Some((place, row)) = self.row(&id) else { return Err(TerminateChildError::NotFound { id }) };
        let temporary = row.spec.restart == Restart::Temporary;
        self.stop_row(place).await;
        if temporary {
            self.forget(place);
        }
        Ok(())
    }

    async fn restart_child(&mut self, id: ChildId) -> Result<ChildRef, RestartChildError> {
        let Some((place, row)) = self.row(&id) else { return Err(RestartChildError::NotFound { id }) };
        match row.presence() {
            Presence::Up => return Err(RestartChildError::Running { id }),
            Presence::Restarting => return Err(RestartChildError::Restarting { id }),
            Presence::Down => {}
        }
        match self.start_row(place, Purpose::First).await {
            Ok(child) => Ok(child),
            Err(NotStarted::Ignored) => Err(RestartChildError::Ignored { id }),
            Err(NotStarted::Failed { exit, .. }) => Err(RestartChildError::Failed { id, exit }),
        }
    }

    fn delete_child(&mut self, id: ChildId) -> Result<(), DeleteChildError> {
        let Some((place, row)) = self.row(&id) else { return Err(DeleteChildError::NotFound { id }) };
        match row.presence() {
            Presence::Up => Err(DeleteChildError::Running { id }),
            Presence::Restarting => Err(DeleteChildError::Restarting { id }),
            Presence::Down => {
                self.forget(place);
                Ok(())
            }
        }
    }
}

fn status(row: &Row) -> ChildStatus {
    let state = match &row.state {
        State::Down => ChildState::Down,
        State::Starting(_) => ChildState::Starting,
        State::Restarting { .. } => ChildState::Restarting,
        State::Up(running) => ChildState::Running(running.handle.child.clone()),
    };
    ChildStatus {
        id: row.spec.id.clone(),
        state,
        kind: row.spec.kind,
        restart: row.spec.restart,
        generation: row.generation,
        restarts: row.restarts,
        last_exit: row.last_exit.clone(),
    }
}
