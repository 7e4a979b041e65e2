//! The registry: which agents exist, which runs they have to drive, and whether an actor does so now. It alone
//! changes a slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::agent::{Profile, Telemetry};
use ostler_kernel::evaluation::UnknownDomain;
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::json::{self, JsonError};
use ostler_kernel::market::{MarketStep, Offer};
use ostler_kernel::port::{JournalError, Position, RunRow, Seq, StreamBatch, StreamId};
use ostler_scheduler::AGENT_WEIGHT;
use ostler_supervisor::{ChildRef, ChildSpec, Pool, Restart, StartChildError};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::time::Instant;

use crate::agent::{Agent, AgentArguments, AgentMessage, AskReply, Request};
use crate::clients::{ClientChange, ClientError};
use crate::error::RunError;
use crate::evaluations::{EvaluationError, Said};
use crate::evaluator::EvaluatorMessage;
use crate::market::{Book, MarketError, OfferRefused};
use crate::phase::{Input, Phase, Step};
use crate::rest;
use crate::scheduler::{Lane, Owner, SchedulerMessage};
use crate::services::Services;
use crate::slot::Slot;
use crate::stream;
use crate::waiting::Waiting;

pub(crate) enum RegistryMessage {
    /// An agent is to exist from here on.
    Register {
        agent: AgentId,
        client: ClientId,
        weight: u32,
        profile: Profile,
        reply: RpcReplyPort<Result<Position, RegisterError>>,
    },
    /// A run is open and this process is to drive it.
    Drive(RunRow),
    /// An actor is up and wants to know its work.
    Up { agent: AgentId, actor: ActorRef<AgentMessage> },
    /// A run is over, or set aside: the agent is free for its next one.
    Done { agent: AgentId, run: RunId },
    /// A run that its agent does not go on with: it is set aside, and those who wanted that hear when it is durable.
    SetAside { agent: AgentId, run: RunId, reason: String, replies: Vec<AskReply> },
    /// An actor is gone; `again`: its supervisor starts it once more by itself.
    Gone { agent: AgentId, again: bool },
    /// An actor failed too often: its agent is taken out of service.
    GivenUp { agent: AgentId, reason: String },
    /// An agent that is out of service is to be put back; the answer is where that is recorded.
    Release { agent: AgentId, reply: RpcReplyPort<Result<Position, ReleaseError>> },
    /// The pool is up, empty.
    PoolUp,
    /// The pool of this number ended before the agent was up.
    PoolGone { agent: AgentId, pool: u64 },
    /// Something is asked for about a run: passed on to its actor, which is brought up first if need be.
    Ask { agent: AgentId, run: RunId, request: Request, reply: AskReply },
    /// A run waits for a time or for a person, and needs no actor until then. `asked`: the requests that its actor
    /// has had.
    Passivate { agent: AgentId, run: RunId, until: Option<Instant>, asked: u64 },
    /// The time has come that a passive run waited for.
    Wake { agent: AgentId, run: RunId },
    /// A run is to be cancelled. If it waits behind another run of its agent, it is cancelled and closed here and
    /// now; the answer is where that is recorded, or `None` if it does not wait.
    CancelQueued { agent: AgentId, run: RunId, reply: RpcReplyPort<Result<Option<Position>, RunError>> },
    /// The terms of a client are to change, or its credits; the answer is where that is recorded, if there was anything
    /// to record.
    ChangeClient {
        client: ClientId,
        change: ClientChange,
        reply: RpcReplyPort<Result<Option<Position>, ClientError>>,
    },
    /// A person says how good a run of this client is that is over; the answer is where that is recorded.
    Judge { row: RunRow, said: Box<Said>, reply: RpcReplyPort<Result<Position, EvaluationError>> },
    /// What an agent offers from here on; the answer is where that is recorded.
    Offer { agent: AgentId, offer: Box<Offer>, reply: RpcReplyPort<Result<Position, OfferRefused>> },
    /// A job of the market gets on by a step; the answer is where that is recorded.
    Market { job: RunId, step: Box<MarketStep>, reply: RpcReplyPort<Result<Position, MarketError>> },
    /// All agents.
    List { reply: RpcReplyPort<Vec<AgentRow>> },
    /// The agent of this name.
    Find { agent: AgentId, reply: RpcReplyPort<Option<AgentRow>> },
    /// How many agents are in each state?
    Count { reply: RpcReplyPort<Vec<(&'static str, usize)>> },
}

/// Why an agent could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another client has an agent of this name.
    #[error("agent {agent} belongs to client {owner}, not to {client}: choose another name")]
    Taken {
        /// The name.
        agent: AgentId,
        /// Whose it is.
        owner: ClientId,
        /// Who asked.
        client: ClientId,
    },
    /// It says something else of itself.
    #[error("agent {0} has another profile, and a profile never changes: choose another name")]
    Profile(AgentId),
    /// Nobody set weights for its domain.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// What it says of itself cannot be written down.
    #[error("the profile cannot be written down: {0}")]
    Unwritable(#[from] JsonError),
    /// There are as many agents as there may be.
    #[error("there are {0} agents already, which is the most: retire some")]
    TooMany(usize),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why an agent was not put back into service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// There is no agent of this name.
    #[error("there is no agent {0} with a name of its own")]
    Unknown(AgentId),
    /// It never left.
    #[error("agent {0} is in service: only one that is quarantined can be released")]
    InService(AgentId),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// One line of the table of agents.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct AgentRow {
    /// Its name.
    pub agent: AgentId,
    /// Who pays.
    pub client: ClientId,
    /// Its weight among the agents of its client.
    pub weight: u32,
    /// `row`, `starting`, `live`, `stopping` or `quarantined`.
    pub state: &'static str,
    /// What it says of itself, with what it can do, its domain and its price as it offers them now.
    pub profile: Arc<Profile>,
    /// Why it is quarantined, if it is.
    pub reason: Option<String>,
    /// Runs it has to drive.
    pub runs_open: usize,
}

pub(crate) struct Registry;

pub(crate) struct RegistryState {
    services: Arc<Services>,
    slots: BTreeMap<AgentId, Slot>,
    /// Slots of agents with a name of their own.
    registered: usize,
    /// Last record of each client's stream, which only this actor appends to.
    heads: BTreeMap<StreamId, Seq>,
    /// Requests that wait for their run's actor to be live.
    waiting: Waiting,
}

impl Actor for Registry {
    type Msg = RegistryMessage;
    type State = RegistryState;
    type Arguments = Arc<Services>;

    async fn pre_start(
        &self,
        _: ActorRef<RegistryMessage>,
        services: Arc<Services>,
    ) -> Result<RegistryState, ActorProcessingErr> {
        let (slots, registered, heads, waiting) = Default::default();
        let mut state = RegistryState { services, slots, registered, heads, waiting };
        state.rebuild()?;
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<RegistryMessage>,
        message: RegistryMessage,
        state: &mut RegistryState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        state.services.trip("registry");
        match message {
            RegistryMessage::Register { agent, client, weight, profile, reply } => {
                let _ = reply.send(state.register(agent, client, weight, profile));
            }
            RegistryMessage::Drive(row) => state.drive(row)?,
            RegistryMessage::Up { agent, actor } => {
                state.services.measures.tell(Telemetry::AgentStarted, Some(&agent), None);
                state.take(&agent, Input::Up(actor));
            }
            RegistryMessage::Done { agent, run } => state.done(&agent, run),
            RegistryMessage::SetAside { agent, run, reason, replies } => {
                state.aside(&agent, run, reason, replies)?;
            }
            RegistryMessage::Gone { agent, again } => state.gone(&agent, again)?,
            RegistryMessage::GivenUp { agent, reason } => state.give_up(&agent, reason)?,
            RegistryMessage::PoolUp => state.pool_up(),
            RegistryMessage::PoolGone { agent, pool } => state.pool_gone(&agent, pool),
            RegistryMessage::Ask { agent, run, request, reply } => state.ask(&agent, run, request, reply),
            RegistryMessage::Passivate { agent, run, until, asked } => {
                state.passivate(&agent, run, until, asked)
            }
            RegistryMessage::Wake { agent, run } => {
                state.take(&agent, Input::Wake { run });
            }
            RegistryMessage::Release { agent, reply } => {
                let _ = reply.send(state.release(&agent));
            }
            RegistryMessage::CancelQueued { agent, run, reply } => {
                let _ = reply.send(state.cancel_queued(&agent, run));
            }
            RegistryMessage::ChangeClient { client, change, reply } => {
                let _ = reply.send(state.change_client(&client, &change));
            }
            RegistryMessage::Judge { row, said, reply } => {
                let _ = reply.send(state.judge(&row, *said));
            }
            RegistryMessage::Offer { agent, offer, reply } => {
                let _ = reply.send(state.offer(agent, offer));
            }
            RegistryMessage::Market { job, step, reply } => {
                let _ = reply.send(state.market(job, step));
            }
            RegistryMessage::List { reply } => {
                let _ = reply.send(state.list());
            }
            RegistryMessage::Find { agent, reply } => {
                let found = state.slots.get(&agent).map(|slot| state.row(&agent, slot));
                let _ = reply.send(found);
            }
            RegistryMessage::Count { reply } => {
                let _ = reply.send(state.count());
            }
        }
        Ok(())
    }
}

impl RegistryState {
    /// Brings back every registered agent from the streams of the clients, and the runs this process drives.
    fn rebuild(&mut self) -> Result<(), ActorProcessingErr> {
        let journal = Arc::clone(&self.services.journal);
        self.services.ledger.forget_terms();
        let mut book = Book::keeping(self.services.limits.jobs_kept);
        for stream in journal.clients()? {
            stream::each(&*journal, stream, None, |record| -> Result<(), JournalError> {
                self.services.ledger.record(&record.event, record.at_ms);
                book.record(&record.event, record.at_ms, record.position);
                self.heads.insert(stream, record.seq);
                self.remember(&record.event, record.position);
                Ok(())
            })?;
        }
        self.services.market.begin(book, &self.services)?;
        for run in self.services.driven() {
            if let Some(row) = self.services.journal.run(run)? {
                self.slot(&row).runs.push_back(row);
            }
        }
        for slot in self.slots.values_mut() {
            slot.runs.make_contiguous().sort_by_key(|row| row.run);
        }
        Ok(())
    }

    fn remember(&mut self, event: &Event, since: Position) {
        match event {
            Event::AgentRegistered { agent, client, weight } => {
                let slot = Slot::registered(client.clone(), *weight, since);
                if self.slots.insert(agent.clone(), slot).is_none() {
                    self.registered += 1;
                }
            }
            Event::AgentProfiled { agent, profile, .. } => self.services.profiles.read(agent, profile),
            Event::AgentQuarantined { agent, reason } => {
                if let Some(slot) = self.slots.get_mut(agent) {
                    slot.note_quarantined(reason.clone());
                }
            }
            Event::AgentReleased { agent } => {
                if let Some(slot) = self.slots.get_mut(agent) {
                    slot.note_released();
                }
            }
            _ => {}
        }
    }

    fn append(&mut self, client: &ClientId, events: Vec<Event>) -> Result<Position, JournalError> {
        let (stream, at_ms) = (StreamId::client(client), self.services.clock.now());
        let expected = self.heads.get(&stream).copied().unwrap_or_default();
        let batch = StreamBatch { stream, expected, at_ms, events: events.clone() };
        let position = self.services.journal.append(vec![batch])?;
        self.heads.insert(stream, Seq(expected.0 + events.len() as u64));
        for event in &events {
            self.services.ledger.record(event, at_ms);
            self.services.market.record(event, at_ms, position, &self.services.ledger);
        }
        Ok(position)
    }

    fn change_client(
        &mut self,
        client: &ClientId,
        change: &ClientChange,
    ) -> Result<Option<Position>, ClientError> {
        let ledger = &self.services.ledger;
        if change.sets_terms() && ledger.is_configured(client) {
            return Err(ClientError::Configured(client.clone()));
        }
        let most = self.services.limits.clients;
        if !ledger.has_room(client, most) {
            return Err(ClientError::TooMany(most));
        }
        let book = ledger.find(client).unwrap_or_default();
        let terms = book.terms();
        if let Some(credits) = change.credits {
            // What is reserved for jobs cannot be taken back.
            let checked = terms.check_deposit(credits, book.spent().saturating_add(book.reserved()));
            checked.map_err(|error| ClientError::Credits { client: client.clone(), error })?;
        }
        let events = change.events(client, &terms, book.spent());
        if events.is_empty() {
            return Ok(None);
        }
        let position = self.append(client, events)?;
        self.services.links.tell_scheduler(SchedulerMessage::Terms(client.clone()));
        Ok(Some(position))
    }

    fn register(
        &mut self,
        agent: AgentId,
        client: ClientId,
        weight: u32,
        profile: Profile,
    ) -> Result<Position, RegisterError> {
        let most = self.services.limits.agents;
        match self.slots.get(&agent) {
            Some(slot) if slot.client == client => {
                let same = profile.is_empty() || *self.services.profiles.of(&agent) == profile;
                return if same { Ok(slot.since) } else { Err(RegisterError::Profile(agent)) };
            }
            Some(slot) => return Err(RegisterError::Taken { agent, owner: slot.client.clone(), client }),
            None if self.registered >= most => return Err(RegisterError::TooMany(most)),
            None => self.services.domains.check(profile.domain.as_deref())?,
        }
        let mut events =
            vec![Event::AgentRegistered { agent: agent.clone(), client: client.clone(), weight }];
        let profile = match profile.is_empty() {
            true => None,
            false => Some(json::canonical(&serde_json::to_value(&profile).expect("a profile is JSON"))?),
        };
        if let Some(profile) = &profile {
            let (agent, client, profile) = (agent.clone(), client.clone(), profile.clone());
            events.push(Event::AgentProfiled { agent, client, profile });
        }
        let since = self.append(&client, events)?;
        if let Some(profile) = &profile {
            self.services.profiles.read(&agent, profile);
        }
        self.slots.insert(agent, Slot::registered(client, weight, since));
        self.registered += 1;
        Ok(since)
    }

    /// Writes a verdict down, of which the scores of the run are worked out from how they stand now.
    fn judge(&mut self, row: &RunRow, said: Said) -> Result<Position, EvaluationError> {
        // Another verdict may have come in between.
        let row = self.services.journal.run(row.run)?.ok_or(RunError::Unknown(row.run))?;
        let verdict = said.verdict(&row)?;
        let (client, evaluated) = (row.client.clone(), verdict.evaluated);
        let position = self.append(&client, vec![Event::Verdict(Box::new(verdict))])?;
        let lane = Lane { client, agent: row.named_agent().cloned() };
        self.services.links.tell_evaluator(EvaluatorMessage::Evaluated { lane, run: row.run, evaluated });
        Ok(position)
    }

    /// Writes down what an agent offers, if that is anything new.
    fn offer(&mut self, agent: AgentId, offer: Box<Offer>) -> Result<Position, OfferRefused> {
        offer.check()?;
        let slot = self.slots.get(&agent).filter(|slot| slot.registered);
        let slot = slot.ok_or_else(|| OfferRefused::Unknown(agent.clone()))?;
        self.services.domains.check(offer.domain.as_deref())?;
        if self.services.market.offer(&agent).is_some_and(|known| *known == *offer) {
            return Ok(slot.since);
        }
        let client = slot.client.clone();
        Ok(self.append(&client, vec![Event::AgentOffered { agent, client: client.clone(), offer }])?)
    }

    /// Writes down that a job gets on, if that follows from where it is.
    fn market(&mut self, job: RunId, step: Box<MarketStep>) -> Result<Position, MarketError> {
        let client = self.services.market.admit(&self.services, job, &step)?;
        Ok(self.append(&client, vec![Event::Market { job, step }])?)
    }

    fn slot(&mut self, row: &RunRow) -> &mut Slot {
        let slot = self.slots.entry(row.agent.clone());
        slot.or_insert_with(|| Slot::new(row.client.clone(), AGENT_WEIGHT))
    }

    fn drive(&mut self, row: RunRow) -> Result<(), ActorProcessingErr> {
        let agent = row.agent.clone();
        let slot = self.slot(&row);
        if slot.is_quarantined() {
            self.park(&row, "its agent is quarantined".to_owned())?;
            return Ok(());
        }
        if !slot.has(row.run) {
            slot.runs.push_back(row);
        }
        self.take(&agent, Input::Work);
        Ok(())
    }

    /// Lets the machine of an agent take something in, and does what it says. Gives what it said, for the one who has more to
    /// do about it.
    fn take(
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

    /// The pool ended before the agent was up. If there is another by now, it is started there; else it is when
    /// the next one is up.
    fn pool_gone(&mut self, agent: &AgentId, pool: u64) {
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

    fn done(&mut self, agent: &AgentId, run: RunId) {
        // Told twice, it counts once: by now the actor is about the next run.
        let was_there = self.strike(agent, run).is_some();
        self.let_go(run);
        if was_there {
            self.take(agent, Input::RunOver);
        }
    }

    fn aside(
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
    fn cancel_queued(&mut self, agent: &AgentId, run: RunId) -> Result<Option<Position>, RunError> {
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
    fn passivate(&mut self, agent: &AgentId, run: RunId, until: Option<Instant>, asked: u64) {
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

    fn gone(&mut self, agent: &AgentId, again: bool) -> Result<(), ActorProcessingErr> {
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
        self.services.links.tell_scheduler(SchedulerMessage::Bye(agent.clone()));
    }

    fn give_up(&mut self, agent: &AgentId, reason: String) -> Result<(), ActorProcessingErr> {
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

    /// Puts an agent back into service. Runs that were set aside stay so until they are asked for by name.
    fn release(&mut self, agent: &AgentId) -> Result<Position, ReleaseError> {
        let slot = self.slots.get(agent).filter(|slot| slot.registered);
        let slot = slot.ok_or_else(|| ReleaseError::Unknown(agent.clone()))?;
        if !slot.is_quarantined() {
            return Err(ReleaseError::InService(agent.clone()));
        }
        let client = slot.client.clone();
        let position = self.append(&client, vec![Event::AgentReleased { agent: agent.clone() }])?;
        if let Some(slot) = self.slots.get_mut(agent) {
            slot.reason = None;
        }
        self.take(agent, Input::Released);
        tracing::info!(%agent, "the agent is back in service");
        Ok(position)
    }

    /// Every actor is gone with the old pool; those with work get a new one.
    fn pool_up(&mut self) {
        let agents: Vec<AgentId> = self.slots.keys().cloned().collect();
        for agent in agents {
            self.take(&agent, Input::PoolUp);
        }
    }

    /// Passes a request on; one that comes before its run's actor is live, or in whose way another run is, waits.
    fn ask(&mut self, agent: &AgentId, run: RunId, request: Request, reply: AskReply) {
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

    fn list(&self) -> Vec<AgentRow> {
        self.slots.iter().map(|(agent, slot)| self.row(agent, slot)).collect()
    }

    fn row(&self, agent: &AgentId, slot: &Slot) -> AgentRow {
        AgentRow {
            agent: agent.clone(),
            client: slot.client.clone(),
            weight: slot.weight,
            state: slot.phase().as_str(),
            profile: self.services.said_by(agent),
            reason: slot.reason.clone(),
            runs_open: slot.runs.len(),
        }
    }

    fn count(&self) -> Vec<(&'static str, usize)> {
        let mut counts = Phase::<()>::WORDS.map(|word| (word, 0));
        for slot in self.slots.values() {
            counts[slot.phase().index()].1 += 1;
        }
        counts.into()
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
