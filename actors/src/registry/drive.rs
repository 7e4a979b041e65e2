//! Which run an agent is to drive, and the actor that does it.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, RunId};
use ostler_kernel::port::{JournalError, Position, RunRow};
use ostler_supervisor::{ChildRef, ChildSpec, Pool, Restart, StartChildError};
use ractor::{ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::{RegistryMessage, RegistryState};
use crate::agent::{Agent, AgentArguments, AgentMessage, AskReply, Request};
use crate::error::RunError;
use crate::phase::{Input, Phase, Step};
use crate::rest;
use crate::scheduler::{Lane, Owner};

impl RegistryState {
    pub(super) fn drive(&mut self, row: RunRow) -> Result<(), ActorProcessingErr> {
        let agent = row.agent.clone();
        let slot = self.slot(&row);
        if slot.is_quarantined() {
            self.park(&row, "its agent is quarantined".to_owned())?;
            return Ok(());
        }
        if !slot.has(row.run) {
            let run = row.run;
            slot.push(row);
            // It may have been set aside since that was asked for, and let go with it.
            self.services.drive(run, false);
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
        let Some(slot) = self.slots.get_mut(agent) else { return Step::Nothing };
        let step = slot.take(input, pool.is_some());
        match &step {
            Step::Start => self.start(agent, pool),
            Step::Drive(actor) => self.give(agent, actor),
            Step::Stop(actor) => actor.stop(None),
            Step::PassOn(_) | Step::Nothing => {}
        }
        step
    }

    /// Starts an actor for an agent.
    fn start(&self, agent: &AgentId, pool: Option<(Pool, u64)>) {
        let (Some(slot), Some((pool, number))) = (self.slots.get(agent), pool) else { return };
        let lane = Lane { client: slot.client.clone(), agent: slot.registered.then(|| agent.clone()) };
        let owner = Arc::new(Owner { agent: agent.clone(), lane, weight: slot.weight });
        let arguments = AgentArguments { owner, services: Arc::clone(&self.services) };
        let spec = ChildSpec::actor(agent.as_str(), || Agent, move || arguments.clone());
        let spec = spec.restart(Restart::Transient);
        let (services, agent) = (Arc::clone(&self.services), agent.clone());
        tokio::spawn(async move {
            let message = match start_in(&pool, spec).await {
                Ok(_) | Err(StartChildError::AlreadyStarted { .. }) => return,
                Err(StartChildError::Ended) => RegistryMessage::PoolGone { agent, pool: number },
                Err(error) => RegistryMessage::GivenUp { agent, reason: error.to_string() },
            };
            services.links.tell_registry(message);
        });
    }

    /// Every actor is gone with the old pool; those with work get a new one.
    pub(super) fn pool_up(&mut self) {
        let agents: Vec<AgentId> = self.slots.keys().cloned().collect();
        for agent in agents {
            self.take(&agent, Input::PoolUp);
        }
    }

    /// The pool ended before the agent was up. If there is another by now, it is started there; else it is when
    /// the next one is up.
    pub(super) fn pool_gone(&mut self, agent: &AgentId, pool: u64) {
        let another = self.services.links.pool().is_some_and(|(_, number)| number > pool);
        self.take(agent, Input::PoolGone { another });
    }

    /// Gives an actor the first run of its agent, and the requests that waited for that.
    fn give(&mut self, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        let Some(row) = self.slots.get(agent).and_then(|slot| slot.runs.front()) else { return };
        let run = row.run;
        let _ = actor.cast(AgentMessage::Drive(row.clone()));
        for (request, reply) in self.waiting.take(run) {
            self.ask(agent, run, request, reply);
        }
    }

    /// Passes a request on; one that comes before its run's actor is live, or in whose way another run is, waits.
    pub(super) fn ask(&mut self, agent: &AgentId, run: RunId, request: Request, reply: AskReply) {
        let most = self.services.limits.waiting;
        let refused = match self.slots.get(agent).filter(|slot| slot.has(run)) {
            None => Some(RunError::Over),
            Some(slot) if !slot.drives(run) && self.waiting.len() >= most => Some(RunError::Crowded(most)),
            Some(_) => None,
        };
        if let Some(error) = refused {
            let _ = reply.send(Err(error));
            return;
        }
        match self.take(agent, Input::Asked { run }) {
            Step::PassOn(actor) => {
                let _ = actor.cast(AgentMessage::Ask { request, reply });
            }
            _ => self.waiting.push(run, request, reply),
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
        let position = self.park(&row, reason)?;
        self.take(agent, Input::RunOver);
        if !replies.is_empty() {
            let services = Arc::clone(&self.services);
            tokio::spawn(async move {
                let durable = services.journal.durable(position).await.map_err(RunError::from);
                for reply in replies {
                    let _ = reply.send(durable.clone());
                }
            });
        }
        Ok(())
    }

    /// Nobody drives a run behind the first of its agent's list, and none of its attempts is under way, but for one
    /// that was driven once and came behind another when the registry was started again: that is left to its agent.
    pub(super) fn cancel_queued(
        &mut self,
        agent: &AgentId,
        run: RunId,
    ) -> Result<Option<Position>, RunError> {
        let mut queued = self.slots.get(agent).into_iter().flat_map(|slot| slot.runs.iter().skip(1));
        let Some(row) = queued.find(|row| row.run == run) else { return Ok(None) };
        if self.services.effects.knows_run(run) {
            return Ok(None);
        }
        let Some(closed) = rest::cancel(&self.services, row)? else { return Ok(None) };
        self.strike(agent, run);
        self.let_go(run);
        Ok(Some(closed))
    }

    /// Takes a run off the list of its agent.
    fn strike(&mut self, agent: &AgentId, run: RunId) -> Option<RunRow> {
        let slot = self.slots.get_mut(agent)?;
        let at = slot.runs.iter().position(|row| row.run == run)?;
        slot.runs.remove(at)
    }

    /// Lets the actor of a run go that has nothing to do before `until`, unless a request is on its way to it: then
    /// it says so again afterwards.
    pub(super) fn passivate(&mut self, agent: &AgentId, run: RunId, until: Option<Instant>, asked: u64) {
        if !matches!(self.take(agent, Input::Idle { run, asked }), Step::Stop(_)) {
            return;
        }
        let alarm = until.map(|until| {
            let (services, agent) = (Arc::clone(&self.services), agent.clone());
            let wakes = async move {
                tokio::time::sleep_until(until).await;
                services.links.tell_registry(RegistryMessage::Wake { agent, run });
            };
            tokio::spawn(wakes).abort_handle()
        });
        if let Some(slot) = self.slots.get_mut(agent) {
            slot.set_alarm(alarm);
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
        let Some(slot) = self.slots.get(agent) else { return Ok(()) };
        let (is_out, passes) = (slot.is_quarantined(), slot.runs.is_empty() && !slot.registered);
        if again && !is_out {
            self.crashed(agent)?;
        } else if !is_out {
            self.say_bye(agent);
        }
        if passes && !again {
            self.slots.remove(agent);
        } else {
            self.take(agent, Input::Gone { again });
        }
        Ok(())
    }

    /// Sets the run aside that its agent was about, if that has ended the actor again and again without getting on: those
    /// behind it go on without it.
    fn crashed(&mut self, agent: &AgentId) -> Result<(), JournalError> {
        let Some(slot) = self.slots.get(agent).filter(|slot| matches!(slot.phase(), Phase::Live { .. }))
        else {
            return Ok(());
        };
        let Some(run) = slot.runs.front().map(|row| row.run) else { return Ok(()) };
        if self.services.crashed(run) < CRASHES_MAX {
            return Ok(());
        }
        match self.strike(agent, run) {
            Some(row) => {
                let reason = format!("it ended its agent {CRASHES_MAX} times in a row without getting on");
                self.park(&row, reason).map(drop)
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
        let Some(slot) = self.slots.get_mut(agent) else { return Ok(()) };
        slot.reason = Some(reason.clone());
        let (client, registered) = (slot.client.clone(), slot.registered);
        let runs: Vec<RunRow> = slot.runs.drain(..).collect();
        if registered {
            let agent = agent.clone();
            self.append(&client, vec![Event::AgentQuarantined { agent, reason: reason.clone() }])?;
        } else {
            self.slots.remove(agent);
        }
        runs.iter().try_for_each(|row| self.park(row, reason.clone()).map(drop))?;
        Ok(())
    }

    /// Sets aside a run that is on no agent's list any more.
    fn park(&mut self, row: &RunRow, reason: String) -> Result<Position, JournalError> {
        let position = rest::park(&self.services, row, reason)?;
        self.let_go(row.run);
        Ok(position)
    }
}

/// Starts a child. One of its name may still be on its way out, and there may be too many for the moment: then it
/// waits.
pub(crate) async fn start_in(pool: &Pool, spec: ChildSpec) -> Result<ChildRef, StartChildError> {
    loop {
        match pool.start_child(spec.clone()).await {
            Err(StartChildError::AlreadyPresent { .. } | StartChildError::MaxChildren { .. }) => {
                tokio::time::sleep(START_AGAIN).await;
            }
            started => return started,
        }
    }
}

/// Times that a run may end the actor of its agent, without any progress between, before it is set aside.
const CRASHES_MAX: u32 = 3;

/// Wait before a start that could not be is tried again.
const START_AGAIN: Duration = Duration::from_millis(10);
