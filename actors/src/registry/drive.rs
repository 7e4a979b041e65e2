//! Which run an agent is to drive, and the actor that does it.

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
            // It may have been set aside since that was asked for, and let go with it.
            self.services.active_runs.add(run, false);
            self.services.active_runs.line_up(first.iter().chain([&run]));
        }
        self.take(&agent, Input::Work);
        Ok(())
    }

    /// Lets the machine of an agent take something in, and does what it says. Gives what it said, for the one who has more to
    /// do about it.
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

    /// An attempt ended whose run nobody drove. If that has been taken up meanwhile, its agent finds the end itself.
    pub(super) fn undelivered_result(&self, key: &AttemptKey) {
        let row = self.services.journal.run(key.run).ok().flatten();
        let entry = row.and_then(|row| self.agents.get(&row.agent));
        if !entry.is_some_and(|entry| entry.has(key.run)) {
            suspended_runs::ended(&self.services, key);
        }
    }

    /// Every actor is gone with the old pool; those with work get a new one. What was told while this actor was down is looked for.
    pub(super) fn pool_up(&mut self) -> Result<(), ActorProcessingErr> {
        self.list_the_missing()?;
        self.set_aside_the_unserved()?;
        self.line = AdmissionQueue::default();
        self.services.attempts.all_ended().iter().for_each(|key| self.undelivered_result(key));
        let agents: Vec<AgentId> = self.agents.keys().cloned().collect();
        for agent in agents {
            self.take(&agent, Input::PoolUp);
        }
        self.wake_unpaid();
        Ok(())
    }

    /// Runs that somebody wanted driven while this began and could not be reached: they are on no list yet.
    fn list_the_missing(&mut self) -> Result<(), ActorProcessingErr> {
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

    /// Runs that were to be driven, or to be set aside, when this ended, and whose agents are out of service: nobody takes those up.
    fn set_aside_the_unserved(&mut self) -> Result<(), JournalError> {
        let mut unserved = Vec::new();
        for entry in self.agents.values_mut().filter(|entry| entry.is_quarantined()) {
            unserved.extend(entry.runs.drain(..));
        }
        unserved.iter().try_for_each(|row| unless_full(self.park(row, OUT_OF_SERVICE.to_owned())))
    }

    /// The pool ended before the agent was up. If there is another by now, it is started there; else it is when
    /// the next one is up.
    pub(super) fn pool_gone(&mut self, agent: &AgentId, pool: u64) {
        let another = self.services.mailboxes.pool().is_some_and(|(_, number)| number > pool);
        self.take(agent, Input::PoolGone { another });
    }

    /// Gives an actor the first run of its agent, and the requests that waited for that.
    fn give(&mut self, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        let Some(row) = self.agents.get(agent).and_then(|entry| entry.runs.front()) else { return };
        // What was asked of it comes before anything of it starts.
        let asked = self.waiting.take(row.run);
        let _ = actor.cast(AgentMessage::Drive(Box::new(row.clone()), asked));
    }

    /// Passes a request on; one that comes before its run's actor is live, or in whose way another run is, waits.
    pub(super) fn ask(&mut self, agent: &AgentId, run: RunId, request: Request, reply: AskReply) {
        if let Request::Operate(operation @ Operation::Interject(_)) = &request
            && let Some(row) = self.queued(agent, run)
        {
            // Whoever wants it held need not wait for its turn.
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
            // A person may take their time.
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

    /// Asks once more what was asked about the runs behind the first of an agent.
    pub(super) fn stands_still(&mut self, agent: &AgentId) {
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
        // Told twice, it counts once: by now the actor is about the next run.
        let was_there = self.remove_run(agent, run).is_some();
        self.let_go(run);
        if was_there {
            self.take(agent, Input::RunOver);
        }
    }

    pub(super) fn aside(
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

    /// A run that nobody drives yet: one behind the first of its agent's list, or of an agent that waits for a place.
    fn queued(&self, agent: &AgentId, run: RunId) -> Option<&RunRow> {
        let entry = self.agents.get(agent)?;
        let driven = usize::from(!entry.is_in_line());
        let queued = entry.runs.iter().skip(driven).find(|row| row.run == run);
        queued.filter(|_| !self.services.attempts.knows_run(run))
    }

    /// Nobody drives a run behind the first of its agent's list, or one whose agent waits for a place, and none of its attempts is
    /// under way, but for one that was driven once and came behind another when the registry was started again: that is left to its
    /// agent.
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

    /// Takes a run off the list of its agent.
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

    /// Lets the actor of a run go that has nothing to do before `until`, nor, if it is `unpaid`, before its client has credits; unless
    /// a request is on its way to it: then it says so again afterwards.
    pub(super) fn passivate(
        &mut self,
        agent: &AgentId,
        run: RunId,
        (until, unpaid): (Option<Instant>, bool),
        asked: u64,
    ) {
        let client = self.agents.get(agent).filter(|_| unpaid).map(|entry| entry.client.clone());
        if client.as_ref().is_some_and(|client| self.may_go_on(client, run)) {
            // There are credits again, of which the actor is about to hear.
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

    /// The run is driven no longer.
    pub(super) fn let_go(&mut self, run: RunId) {
        suspended_runs::release(&self.services, run);
        for (_, reply) in self.waiting.take(run) {
            let _ = reply.send(Err(RunError::Over));
        }
    }

    /// Wakes every run that needs no actor: it may have waited for room.
    pub(super) fn wake_all(&mut self) {
        let passive = self.agents.iter().filter_map(|(agent, entry)| Some((agent.clone(), entry.passive()?)));
        for (agent, run) in passive.collect::<Vec<_>>() {
            self.take(&agent, Input::Wake { run });
        }
    }
}
