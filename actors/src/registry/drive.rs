//! Which run an agent is to drive, and the actor that does it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::port::{JournalError, Position, RunRow, RunRowStatus};
use ostler_kernel::run::{Canceller, Operation};
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::admission_queue::Line;
use super::agent_lifecycle::{Input, Phase, Step};
use super::{RegistryMessage, RegistryState};
use crate::attempts::attempt_table::AttemptKey;
use crate::base::error::RunError;
use crate::run::suspended_runs::{self, CHECKPOINTED};
use crate::run::{AgentMessage, AskReply, Request};
use crate::storage::disk_space::ROOM;

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
            self.services.driven.add(run, false);
            self.services.driven.line_up(first.iter().chain([&run]));
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
        let pool = self.services.links.pool();
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
    pub(super) fn unheard(&self, key: &AttemptKey) {
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
        self.line = Line::default();
        self.services.effects.all_ended().iter().for_each(|key| self.unheard(key));
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
        for run in self.services.driven.all().into_iter().filter(|run| !listed.contains(run)) {
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
        let another = self.services.links.pool().is_some_and(|(_, number)| number > pool);
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
                Ok(position) => self.services.answer_when_durable(position, vec![(reply, Ok(()))]),
                Err(error) => drop(reply.send(Err(error))),
            }
            return;
        }
        let most = self.services.limits.waiting;
        let behind = self.services.driven.held_up_by(run);
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
        let was_there = self.strike(agent, run).is_some();
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
        let Some(row) = self.strike(agent, run) else { return Ok(()) };
        let parked = self.park(&row, reason);
        self.take(agent, Input::RunOver);
        match parked {
            Err(error @ JournalError::Full(_)) => {
                replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone().into()))));
            }
            parked => {
                let answers = replies.into_iter().map(|reply| (reply, Ok(()))).collect();
                self.services.answer_when_durable(parked?, answers);
            }
        }
        Ok(())
    }

    /// A run that nobody drives yet: one behind the first of its agent's list, or of an agent that waits for a place.
    fn queued(&self, agent: &AgentId, run: RunId) -> Option<&RunRow> {
        let entry = self.agents.get(agent)?;
        let driven = usize::from(!entry.is_in_line());
        let queued = entry.runs.iter().skip(driven).find(|row| row.run == run);
        queued.filter(|_| !self.services.effects.knows_run(run))
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
        self.strike(agent, run);
        self.let_go(run);
        let over = self.agents.get(agent).filter(|entry| entry.is_in_line() && entry.runs.is_empty());
        if let Some(client) = over.filter(|entry| !entry.registered).map(|entry| entry.client.clone()) {
            self.line.forget(&client, agent);
            self.agents.remove(agent);
        }
        Ok(Some(closed))
    }

    /// Takes a run off the list of its agent.
    fn strike(&mut self, agent: &AgentId, run: RunId) -> Option<RunRow> {
        let entry = self.agents.get_mut(agent)?;
        let at = entry.runs.iter().position(|row| row.run == run)?;
        let row = entry.runs.remove(at);
        if at == 0 {
            self.services.driven.line_up(entry.runs.iter().map(|row| &row.run));
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
                services.links.tell_registry(RegistryMessage::Wake { agent, run });
            };
            tokio::spawn(wakes).abort_handle()
        });
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.set_alarm(alarm);
        }
    }

    /// The run is driven no longer.
    fn let_go(&mut self, run: RunId) {
        self.services.let_go(run);
        for (_, reply) in self.waiting.take(run) {
            let _ = reply.send(Err(RunError::Over));
        }
    }

    pub(super) fn gone(&mut self, agent: &AgentId, again: bool) -> Result<(), ActorProcessingErr> {
        self.services.measures.tell(Telemetry::AgentTerminated, Some(agent), None);
        let Some(entry) = self.agents.get(agent) else { return Ok(()) };
        let (is_out, passes) = (entry.is_quarantined(), entry.runs.is_empty() && !entry.registered);
        if again && !is_out {
            self.crashed(agent)?;
        } else if !is_out {
            self.say_bye(agent);
        }
        if passes && !again {
            self.agents.remove(agent);
        } else {
            self.take(agent, Input::Gone { again });
        }
        Ok(())
    }

    /// Sets the run aside that its agent was about, if that has ended the actor again and again without getting on: those
    /// behind it go on without it.
    fn crashed(&mut self, agent: &AgentId) -> Result<(), JournalError> {
        let Some(entry) = self.agents.get(agent).filter(|entry| matches!(entry.phase(), Phase::Live { .. }))
        else {
            return Ok(());
        };
        let Some(run) = entry.runs.front().map(|row| row.run) else { return Ok(()) };
        if self.services.driven.crashed(run) < CRASHES_MAX {
            return Ok(());
        }
        match self.strike(agent, run) {
            Some(row) => {
                let reason = format!("it ended its agent {CRASHES_MAX} times in a row without getting on");
                unless_full(self.park(&row, reason))
            }
            None => Ok(()),
        }
    }

    /// What the last life of an agent had queued or was granted is nobody's any more.
    fn say_bye(&self, agent: &AgentId) {
        self.services.scheduling.bye(&self.services, agent);
    }

    pub(super) fn give_up(&mut self, agent: &AgentId, reason: String) -> Result<(), ActorProcessingErr> {
        self.say_bye(agent);
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

    /// Sets aside a run that is on no agent's list any more. Where there is no room for that, it is done when there is: until then
    /// nobody drives it.
    fn park(&mut self, row: &RunRow, reason: String) -> Result<Position, JournalError> {
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
                        // A registry that starts meanwhile lists it again.
                        services.driven.add(row.run, false);
                        services.links.tell_registry(RegistryMessage::Park { row, reason });
                    }
                });
            }
            Err(JournalError::Full(_)) => {
                let (services, row) = (Arc::clone(&self.services), row.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(ROOM).await;
                    services.links.tell_registry(RegistryMessage::Park { row, reason });
                });
            }
            Err(_) => {}
        }
        parked
    }

    /// The same of one that had to wait for that; it may be driven again by now.
    pub(super) fn park_late(&mut self, row: RunRow, reason: String) -> Result<(), JournalError> {
        let is_listed = self.agents.get(&row.agent).is_some_and(|entry| entry.has(row.run));
        if is_listed || !self.services.driven.has(row.run) {
            Ok(())
        } else {
            unless_full(self.park(&row, reason))
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

/// What had no room is done later.
fn unless_full(done: Result<Position, JournalError>) -> Result<(), JournalError> {
    match done {
        Err(error) if !matches!(error, JournalError::Full(_)) => Err(error),
        _ => Ok(()),
    }
}

/// Why a run is set aside whose agent is.
const OUT_OF_SERVICE: &str = "its agent is quarantined";

/// Times that a run may end the actor of its agent, without any progress between, before it is set aside.
const CRASHES_MAX: u32 = 3;
