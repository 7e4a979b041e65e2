//! Which run an agent drives, and requests to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus};
use ostler_kernel::run::{Canceller, Operation};
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::RegistryState;
use super::admission_queue::AdmissionQueue;
use super::agent_lifecycle::{Input, Step};
use super::failures::{OUT_OF_SERVICE, unless_full};
use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::messages::agent::{AgentMessage, AskReply, Request};
use crate::messages::registry::RegistryMessage;
use crate::run::suspended_runs;

impl RegistryState {
    pub(super) fn drive(&mut self, row: RunRow) -> Result<(), ActorProcessingErr> {
        let agent = row.agent.clone();
        let entry = self.entry(&row);
        if entry.is_quarantined() {
            return Ok(unless_full(self.park(&row, OUT_OF_SERVICE.to_owned()))?);
        }
        if !entry.has(row.run) {
            let run = row.run;
            let first = entry.runs.front().map(|row| row.run);
            entry.push(row);
            // The run may have been suspended and released since the request.
            self.services.active_runs.add(run, false);
            self.services.active_runs.line_up(first.iter().chain([&run]));
        }
        self.take(&agent, Input::Work);
        Ok(())
    }

    /// Passes an input to an agent's state machine, performs the step and returns it.
    pub(super) fn take(
        &mut self,
        agent: &AgentId,
        input: Input<ActorRef<AgentMessage>>,
    ) -> Step<ActorRef<AgentMessage>> {
        let pool = self.services.mailboxes.pool();
        let Some(entry) = self.agents.get_mut(agent) else { return Step::Nothing };
        let step = entry.take(input, pool.is_some());
        match &step {
            Step::Start => self.start(agent, pool, false),
            Step::Drive(actor) => self.give(agent, actor),
            Step::Stop(actor) => actor.stop(None),
            Step::PassOn(_) | Step::Nothing => {}
        }
        step
    }

    /// Records the result of an attempt of an inactive run. If the run is active again, its driver finds the result.
    pub(super) fn undelivered_result(&self, key: &AttemptKey) {
        let row = self.services.journal.run(key.run).ok().flatten();
        let entry = row.and_then(|row| self.agents.get(&row.agent));
        if !entry.is_some_and(|entry| entry.has(key.run)) {
            suspended_runs::ended(&self.services, key);
        }
    }

    /// Starts actors in a new pool: all old ones are gone. Also collects what was sent while the registry was down.
    pub(super) fn pool_up(&mut self) -> Result<(), ActorProcessingErr> {
        self.list_missing_runs()?;
        self.suspend_unserved_runs()?;
        self.line = AdmissionQueue::default();
        self.services.attempts.all_ended().iter().for_each(|key| self.undelivered_result(key));
        let agents: Vec<AgentId> = self.agents.keys().cloned().collect();
        for agent in agents {
            self.take(&agent, Input::PoolUp);
        }
        self.wake_for_credits();
        Ok(())
    }

    /// Lists runs that were to be driven while the registry was down.
    fn list_missing_runs(&mut self) -> Result<(), ActorProcessingErr> {
        let listed = self.agents.values().flat_map(|entry| &entry.runs).map(|row| row.run);
        let listed: BTreeSet<RunId> = listed.collect();
        for run in self.services.active_runs.all().into_iter().filter(|run| !listed.contains(run)) {
            let row = self.services.journal.run(run)?;
            if let Some(row) =
                row.filter(|row| matches!(row.status, RunRowStatus::Open | RunRowStatus::Parked(_)))
            {
                self.drive(row)?;
            }
        }
        Ok(())
    }

    fn suspend_unserved_runs(&mut self) -> Result<(), JournalError> {
        let mut unserved = Vec::new();
        for entry in self.agents.values_mut().filter(|entry| entry.is_quarantined()) {
            unserved.extend(entry.runs.drain(..));
        }
        unserved.iter().try_for_each(|row| unless_full(self.park(row, OUT_OF_SERVICE.to_owned())))
    }

    /// Starts an agent in another pool after its pool ended, at once or when another pool exists.
    pub(super) fn pool_gone(&mut self, agent: &AgentId, pool: u64) {
        let another = self.services.mailboxes.pool().is_some_and(|(_, number)| number > pool);
        self.take(agent, Input::PoolGone { another });
    }

    /// Sends an actor the first run of its agent, with the waiting requests.
    fn give(&mut self, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        let Some(row) = self.agents.get(agent).and_then(|entry| entry.runs.front()) else { return };
        // Requests take effect before attempts start.
        let asked = self.waiting.take(row.run);
        let _ = actor.cast(AgentMessage::Drive(Box::new(row.clone()), asked));
    }

    /// Forwards a request. A request to a run without a live actor, or behind another run, waits.
    pub(super) fn ask(&mut self, agent: &AgentId, run: RunId, request: Request, reply: AskReply) {
        if let Request::Operate(operation @ Operation::Interject(_)) = &request
            && let Some(row) = self.queued(agent, run)
        {
            // Suspending a queued run need not wait for its turn.
            match suspended_runs::operate(&self.services, row, operation) {
                Ok(position) => self.services.journal.reply_when_durable(position, vec![(reply, Ok(()))]),
                Err(error) => drop(reply.send(Err(error))),
            }
            return;
        }
        let most = self.services.limits.waiting;
        let behind = self.services.active_runs.held_up_by(run);
        let refused = match self.agents.get(agent).filter(|entry| entry.has(run)) {
            None => Some(RunError::Over),
            // A person may take long: the request is refused instead.
            Some(_) if behind.is_some() => behind.map(RunError::Behind),
            Some(entry) if !entry.drives(run) && self.waiting.len() >= most => Some(RunError::Crowded(most)),
            Some(_) => None,
        };
        if let Some(error) = refused {
            let _ = reply.send(Err(error));
            return;
        }
        match self.take(agent, Input::Asked { run }) {
            Step::PassOn(actor) => {
                let _ = actor.cast(AgentMessage::Ask { request: Box::new(request), reply });
            }
            _ => self.waiting.push(run, request, reply),
        }
    }

    /// Refuses requests to the runs behind an agent's first one, which now waits for a person.
    pub(super) fn blocked_on_human(&mut self, agent: &AgentId) {
        let behind: Vec<RunId> = self
            .agents
            .get(agent)
            .into_iter()
            .flat_map(|entry| &entry.runs)
            .skip(1)
            .map(|row| row.run)
            .collect();
        for run in behind {
            for (request, reply) in self.waiting.take(run) {
                self.ask(agent, run, request, reply);
            }
        }
    }

    pub(super) fn done(&mut self, agent: &AgentId, run: RunId) {
        // A repeated message counts once: the actor may have the next run by now.
        let was_there = self.remove_run(agent, run).is_some();
        self.let_go(run);
        if was_there {
            self.take(agent, Input::RunOver);
        }
    }

    pub(super) fn suspend(
        &mut self,
        agent: &AgentId,
        run: RunId,
        reason: String,
        replies: Vec<AskReply>,
    ) -> Result<(), JournalError> {
        let Some(row) = self.remove_run(agent, run) else { return Ok(()) };
        let parked = self.park(&row, reason);
        self.take(agent, Input::RunOver);
        match parked {
            Err(error @ JournalError::Full(_)) => {
                replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone().into()))));
            }
            parked => {
                let answers = replies.into_iter().map(|reply| (reply, Ok(()))).collect();
                self.services.journal.reply_when_durable(parked?, answers);
            }
        }
        Ok(())
    }

    /// A listed run that no actor drives: behind another run, or of an agent in line for a place.
    fn queued(&self, agent: &AgentId, run: RunId) -> Option<&RunRow> {
        let entry = self.agents.get(agent)?;
        let driven = usize::from(!entry.is_in_line());
        let queued = entry.runs.iter().skip(driven).find(|row| row.run == run);
        queued.filter(|_| !self.services.attempts.knows_run(run))
    }

    /// Cancels a queued run at once. A queued run has no attempts, except after a restart of the registry that moved a
    /// driven run behind another: such a run is left to its agent.
    pub(super) fn cancel_queued(
        &mut self,
        agent: &AgentId,
        run: RunId,
        by: Canceller,
    ) -> Result<Option<Position>, RunError> {
        let Some(row) = self.queued(agent, run) else { return Ok(None) };
        let Some(closed) = suspended_runs::cancel(&self.services, row, by)? else { return Ok(None) };
        self.remove_run(agent, run);
        self.let_go(run);
        let over = self.agents.get(agent).filter(|entry| entry.is_in_line() && entry.runs.is_empty());
        if let Some(client) = over.filter(|entry| !entry.registered).map(|entry| entry.client.clone()) {
            self.line.forget(&client, agent);
            self.agents.remove(agent);
        }
        Ok(Some(closed))
    }

    pub(super) fn remove_run(&mut self, agent: &AgentId, run: RunId) -> Option<RunRow> {
        let entry = self.agents.get_mut(agent)?;
        let at = entry.runs.iter().position(|row| row.run == run)?;
        let row = entry.runs.remove(at);
        if at == 0 {
            self.services.active_runs.line_up(entry.runs.iter().map(|row| &row.run));
        }
        self.unpaid.forget(&entry.client, run);
        row
    }

    /// Lets the actor of a waiting run end until `until`, or until the client has credits (`unpaid`). A request on its
    /// way keeps the actor.
    pub(super) fn passivate(
        &mut self,
        agent: &AgentId,
        run: RunId,
        (until, unpaid): (Option<Instant>, bool),
        asked: u64,
    ) {
        let client = self.agents.get(agent).filter(|_| unpaid).map(|entry| entry.client.clone());
        if client.as_ref().is_some_and(|client| self.may_go_on(client, run)) {
            // There are credits again, and the actor is about to learn of them.
            return;
        }
        if !matches!(self.take(agent, Input::Idle { run, asked }), Step::Stop(_)) {
            return;
        }
        if let Some(client) = client {
            self.unpaid.push(client, run, agent.clone());
        }
        let alarm = until.map(|until| {
            let (services, agent) = (Arc::clone(&self.services), agent.clone());
            let wakes = async move {
                tokio::time::sleep_until(until).await;
                services.mailboxes.tell_registry(RegistryMessage::Wake { agent, run });
            };
            tokio::spawn(wakes).abort_handle()
        });
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.set_alarm(alarm);
        }
    }

    pub(super) fn let_go(&mut self, run: RunId) {
        suspended_runs::release(&self.services, run);
        for (_, reply) in self.waiting.take(run) {
            let _ = reply.send(Err(RunError::Over));
        }
    }

    /// Wakes every passive run: it may have waited for disk space.
    pub(super) fn wake_all(&mut self) {
        let passive = self.agents.iter().filter_map(|(agent, entry)| Some((agent.clone(), entry.passive()?)));
        for (agent, run) in passive.collect::<Vec<_>>() {
            self.take(&agent, Input::Wake { run });
        }
    }
}
