//! The scheduler: owns the run queue, gives out slots, settles what attempts cost.

mod tenants;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};
use ostler_scheduler::{
    ClientHandle, Config, EnqueueError, Event, Grant, JobHandle, NewJob, Price, RunQueue,
};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::agent::AgentMessage;
use crate::clients::QueueShown;
use crate::effects::AttemptKey;
use crate::ledger::Books;
use crate::measure::{QueueLook, QueueMeasures};
use crate::services::Services;
use tenants::Tenants;

/// A client as the configuration knows it. One that nobody configured has weight 100 in the marketplace, unless its
/// records say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Its name.
    pub name: ClientId,
    /// Its entitlement among the clients of its tier.
    pub weight: u32,
    /// Whether it is served in the contracted tier.
    pub contracted: bool,
}

/// A ready node that wants a slot.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) run: RunId,
    pub(crate) node: NodeId,
    /// Longest expected work from here to the end of the plan.
    pub(crate) rank: u64,
    /// When its run was opened: of one lane, older runs go first, and rank counts within a run.
    pub(crate) opened_ms: u64,
    /// What it is expected to cost.
    pub(crate) estimate: Price,
}

/// What a job is queued as.
#[derive(Clone)]
struct Queued {
    job: Job,
    owner: Arc<Owner>,
    books: Books,
    /// When, if that is measured.
    since: Option<Instant>,
}

/// Whose share a job uses up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) client: ClientId,
    /// `None`: the lane that all agents without a name of their own share.
    pub(crate) agent: Option<AgentId>,
}

/// An agent, as the scheduler needs to know it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) agent: AgentId,
    pub(crate) lane: Lane,
    /// Of the agent among those of its client.
    pub(crate) weight: u32,
}

/// A slot that was granted: to which job, in which life of the scheduler. In another life it names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    life: u64,
    job: JobHandle,
    /// What was charged for it.
    estimate: Price,
}

pub(crate) enum SchedulerMessage {
    /// Ready nodes of an agent's run.
    Enqueue { owner: Arc<Owner>, reply_to: ActorRef<AgentMessage>, jobs: Vec<Job> },
    /// Attempts ended: which, and what they cost, stands in the effects table.
    Settle,
    /// An attempt that was granted never started.
    GiveBack(Ticket),
    /// An agent was started: whatever an earlier life of it had queued is void, but for the jobs that still run.
    Hello { agent: AgentId, reply_to: ActorRef<AgentMessage> },
    /// The actor of an agent is gone for now: what it had queued is void, but for the jobs that still run.
    Bye(AgentId),
    /// The terms of a client have changed.
    Terms(ClientId),
    /// How the queue stands, for people and programs.
    Show { reply: RpcReplyPort<QueueShown> },
    /// How the queue stands, for whoever measures.
    Look { reply: RpcReplyPort<QueueLook> },
    /// How the accounts of clients and agents stand: virtual times, what divisions left over, and balances.
    #[cfg(test)]
    Accounts { reply: RpcReplyPort<Vec<String>> },
    /// No more grants.
    Stop,
}

/// A slot for a job, its estimate charged.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) job: Job,
    pub(crate) accounts: Accounts,
}

pub(crate) struct SchedulerArguments {
    pub(crate) slots: u32,
    pub(crate) services: Arc<Services>,
}

pub(crate) struct Scheduler;

pub(crate) struct SchedulerState {
    services: Arc<Services>,
    /// Which life of the scheduler this is.
    life: u64,
    queue: RunQueue<Queued>,
    tenants: Tenants,
    /// Agents that have jobs here.
    agents: BTreeMap<AgentId, Known>,
    events: Vec<Event>,
    measures: QueueMeasures,
    stopped: bool,
}

struct Known {
    owner: Arc<Owner>,
    /// The agent's present life: a grant goes to no other.
    actor: ActorRef<AgentMessage>,
    jobs: BTreeSet<JobHandle>,
}

impl Actor for Scheduler {
    type Msg = SchedulerMessage;
    type State = SchedulerState;
    type Arguments = SchedulerArguments;

    async fn pre_start(
        &self,
        me: ActorRef<SchedulerMessage>,
        SchedulerArguments { slots, services }: SchedulerArguments,
    ) -> Result<SchedulerState, ActorProcessingErr> {
        let jobs_max = services.limits.queued_jobs;
        let measures = QueueMeasures::new(services.measures.clone());
        let queue = RunQueue::new(Config { jobs_max, ..Config::of_slots(slots) })?;
        let mut state = SchedulerState {
            life: services.effects.new_life(),
            services,
            queue,
            tenants: Tenants::default(),
            agents: BTreeMap::new(),
            events: Vec::new(),
            measures,
            stopped: false,
        };
        // What ends while its slot is adopted is told to this life already.
        state.services.links.scheduler.point_to(me);
        state.adopt()?;
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<SchedulerMessage>,
        message: SchedulerMessage,
        state: &mut SchedulerState,
    ) -> Result<(), ActorProcessingErr> {
        #[cfg(test)]
        state.services.trip("scheduler");
        match message {
            #[cfg(test)]
            SchedulerMessage::Accounts { reply } => {
                let _ = reply.send(state.tenants.accounts(&state.queue));
            }
            SchedulerMessage::Enqueue { owner, reply_to, jobs } => state.enqueue(&owner, reply_to, jobs)?,
            SchedulerMessage::Settle => state.settle_ended(Vec::new()),
            SchedulerMessage::GiveBack(ticket) => state.give_back(ticket),
            SchedulerMessage::Hello { agent, reply_to } => state.hello(&agent, reply_to),
            SchedulerMessage::Bye(agent) => state.void(&agent),
            SchedulerMessage::Terms(client) => state.renew_terms(&client)?,
            SchedulerMessage::Show { reply } => {
                let _ = reply.send((tenants::queue(&state.queue), state.tenants.queueing(&state.queue)));
            }
            SchedulerMessage::Look { reply } => {
                let _ = reply.send(state.measures.look(&state.queue, state.tenants.clients()));
            }
            SchedulerMessage::Stop => state.stopped = true,
        }
        if !state.stopped {
            state.queue.dispatch(u32::MAX, &mut state.events);
        }
        state.tell();
        Ok(())
    }
}

impl Drop for SchedulerState {
    /// However it ends, what is owed to whom outlives it.
    fn drop(&mut self) {
        let note = AssertUnwindSafe(|| self.tenants.leave(&self.queue, &self.services.ledger));
        if catch_unwind(note).is_err() {
            tracing::error!(
                "the scheduler left its queue in a state that cannot be read: who is behind is forgotten"
            );
        }
    }
}

impl SchedulerState {
    /// Takes up where an earlier life of the scheduler stopped: what runs still holds its slot, and the accounts stand
    /// as they stood.
    fn adopt(&mut self) -> Result<(), ActorProcessingErr> {
        let mut events = Vec::new();
        let services = Arc::clone(&self.services);
        let mut adopted = Vec::new();
        for (key, slot, owner, actor) in services.effects.holding() {
            let lane =
                self.tenants.lane(&mut self.queue, &services.ledger, &owner, services.clock.now(), true)?;
            let (run, node) = (key.run, key.node.clone());
            let job = Job { run, node, rank: 0, opened_ms: 0, estimate: slot.estimate };
            let queued = Queued { job, owner: Arc::clone(&owner), books: lane.books, since: None };
            let new = NewJob::of(slot.estimate);
            let handle = self.queue.enqueue(lane.agent, new, queued, &mut events)?;
            let known = self.agents.entry(owner.agent.clone());
            let known =
                known.or_insert_with(|| Known { owner: Arc::clone(&owner), actor, jobs: BTreeSet::new() });
            known.jobs.insert(handle);
            adopted.push((key, Ticket { life: self.life, job: handle, ..slot }));
        }
        self.queue.dispatch(u32::MAX, &mut events);
        for (key, slot) in &adopted {
            services.effects.hold(key, *slot);
        }
        self.tenants.restore_all(&mut self.queue, &services.ledger)?;
        // What ended while nobody was here, or was about to be settled.
        self.settle_ended(adopted.into_iter().map(|(key, _)| key).collect());
        Ok(())
    }

    fn enqueue(
        &mut self,
        owner: &Arc<Owner>,
        reply_to: ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    ) -> Result<(), ActorProcessingErr> {
        let services = Arc::clone(&self.services);
        let now = services.clock.now();
        let lane = match self.tenants.lane(&mut self.queue, &services.ledger, owner, now, false) {
            Ok(lane) => lane,
            Err(error) => {
                tracing::warn!(client = %owner.lane.client, %error, "there is no room for it in the run queue");
                let nodes = jobs.into_iter().map(|job| job.node).collect();
                let _ = reply_to.cast(AgentMessage::NoRoom(nodes));
                return Ok(());
            }
        };
        let known = self.agents.entry(owner.agent.clone());
        let known = known.or_insert_with(|| Known {
            owner: Arc::clone(owner),
            actor: reply_to,
            jobs: BTreeSet::new(),
        });
        let (since, mut refused) = (self.measures.now(), Vec::new());
        for job in jobs {
            let job = Job { estimate: capped(job.estimate, self.queue.config().cost_max), ..job };
            let new = NewJob { rank: job.rank, deadline: Some(job.opened_ms), ..NewJob::of(job.estimate) };
            let (owner, books) = (Arc::clone(owner), lane.books.clone());
            let queued = Queued { job: job.clone(), owner, books, since };
            match self.queue.enqueue(lane.agent, new, queued, &mut self.events) {
                Ok(handle) => {
                    known.jobs.insert(handle);
                }
                Err(EnqueueError::Full(_)) => refused.push(job.node),
                Err(error) => return Err(error.into()),
            }
        }
        if !refused.is_empty() {
            let _ = known.actor.cast(AgentMessage::NoRoom(refused));
        }
        // Whoever comes to a client that is parked already hears of it here.
        if lane.books.client.is_parked() {
            let _ = known.actor.cast(AgentMessage::OutOfCredit(true));
        }
        if known.jobs.is_empty() {
            self.agents.remove(&owner.agent);
        }
        // Waking moves a virtual time, so what was recorded comes after.
        self.tenants.restore_new(&mut self.queue, &mut self.events)
    }

    /// Charges what attempts cost that have ended, frees their slots, and tells their agents: each of all its attempts
    /// together. There are at most as many as slots; `these` may have ended as well.
    fn settle_ended(&mut self, these: Vec<AttemptKey>) {
        let services = Arc::clone(&self.services);
        let mut ended: HashMap<ActorId, (ActorRef<AgentMessage>, Vec<AttemptKey>)> = HashMap::new();
        services.effects.look();
        for key in these.into_iter().chain(std::iter::from_fn(|| services.effects.next_ended())) {
            let Some((ticket, owner, cost)) = services.effects.to_settle(&key) else { continue };
            let books = services.ledger.books(&owner.lane);
            let accounts = self.charge(&books, ticket, cost);
            books.client.spend(key.run, cost);
            if let Some(agent) = services.effects.settled(&services, &key, accounts) {
                ended.entry(agent.get_id()).or_insert_with(|| (agent, Vec::new())).1.push(key);
            }
        }
        for (agent, keys) in ended.into_values() {
            let _ = agent.cast(AgentMessage::Ended(keys));
        }
    }

    /// Settles a slot: how the accounts stand then. `None` if the queue knows no such slot: it is of another life.
    fn charge(&mut self, books: &Books, ticket: Ticket, cost: u64) -> Option<Accounts> {
        let job = Some(ticket).filter(|ticket| ticket.life == self.life)?.job;
        let cost = cost.clamp(1, self.queue.config().cost_max);
        let settled = self.queue.settle(job, Price::flat(cost), &mut self.events);
        let settled =
            settled.inspect_err(|error| tracing::error!(%error, "a slot cannot be settled")).ok()?;
        let accounts = recorded(settled.accounts);
        self.measures.settled(settled.client, cost);
        self.services.ledger.charged(books, None, accounts);
        self.forget(&settled.payload.owner.agent, job);
        Some(accounts)
    }

    /// Frees a slot that was not used; one of another life is no more.
    fn give_back(&mut self, ticket: Ticket) {
        if ticket.life == self.life {
            self.free(ticket.job);
        }
    }

    fn free(&mut self, job: JobHandle) {
        let Ok(settled) = self.queue.give_back(job, &mut self.events) else { return };
        // What the grant was charged for is given back: that is how the accounts stand now.
        self.services.ledger.charged(&settled.payload.books, None, recorded(settled.accounts));
        self.forget(&settled.payload.owner.agent, job);
    }

    fn hello(&mut self, agent: &AgentId, reply_to: ActorRef<AgentMessage>) {
        if let Some(known) = self.agents.get_mut(agent) {
            known.actor = reply_to;
        }
        self.void(agent);
    }

    /// Clears what an earlier life of an agent left: its queued jobs, and the granted ones that never started. What runs is
    /// looked up here and now: slots that were adopted have other tickets than those who speak of them may know.
    fn void(&mut self, agent: &AgentId) {
        let Some(known) = self.agents.get(agent) else { return };
        let running = self.services.effects.slots();
        let runs = |job| running.iter().any(|slot| slot.life == self.life && slot.job == job);
        let void: Vec<JobHandle> = known.jobs.iter().copied().filter(|&job| !runs(job)).collect();
        for job in void {
            if self.queue.cancel(job, &mut self.events).is_ok() {
                self.forget(agent, job);
            } else {
                self.free(job);
            }
        }
    }

    fn forget(&mut self, agent: &AgentId, job: JobHandle) {
        if let Some(known) = self.agents.get_mut(agent) {
            known.jobs.remove(&job);
            if known.jobs.is_empty() {
                self.agents.remove(agent);
            }
        }
    }

    fn renew_terms(&mut self, client: &ClientId) -> Result<(), ActorProcessingErr> {
        let services = Arc::clone(&self.services);
        let now = services.clock.now();
        self.tenants.renew(&mut self.queue, &services.ledger, client, now, &mut self.events)
    }

    /// Sends the grants out, those of one agent together.
    fn tell(&mut self) {
        let mut granted: BTreeMap<AgentId, Vec<Granted>> = BTreeMap::new();
        // A settlement may free the credits that the next grant takes: only what is so in the end is told.
        let mut parked: BTreeMap<ClientHandle, bool> = BTreeMap::new();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Granted(Grant { job: handle, accounts, tier, .. }) => {
                    let Some(Queued { job, owner, books, since }) = self.queue.job(handle) else { continue };
                    self.measures.dispatched(tier, *since);
                    let ticket = Ticket { life: self.life, job: handle, estimate: job.estimate };
                    let accounts = recorded(accounts);
                    self.services.ledger.charged(books, Some(tier), accounts);
                    let grant = Granted { ticket, job: job.clone(), accounts };
                    granted.entry(owner.agent.clone()).or_default().push(grant);
                }
                Event::Parked(client) => drop(parked.insert(client, true)),
                Event::Unparked(client) => drop(parked.insert(client, false)),
                Event::Stepped { .. } | Event::Rebased { .. } | Event::AgentsRebased { .. } => {}
            }
        }
        self.events = events;
        parked.into_iter().for_each(|(client, parked)| self.parked(client, parked));
        for (agent, grants) in granted {
            if let Some(known) = self.agents.get(&agent) {
                // One that is gone gets its jobs voided, which gives these slots back.
                let _ = known.actor.cast(AgentMessage::Granted(grants));
            }
        }
    }

    fn parked(&self, client: ClientHandle, parked: bool) {
        let Some(name) = self.tenants.name(client) else { return };
        let book = self.services.ledger.client(name);
        if book.is_parked() == parked {
            return;
        }
        book.park(parked);
        for known in self.agents.values().filter(|known| known.owner.lane.client == *name) {
            let _ = known.actor.cast(AgentMessage::OutOfCredit(parked));
        }
        if parked {
            tracing::warn!(client = %name, "its credits are used up: it is parked until more are deposited");
        } else {
            tracing::info!(client = %name, "it has credits again");
        }
        self.services.stir();
    }
}

fn capped(Price { charge, credits, tokens }: Price, most: u64) -> Price {
    Price { charge: charge.min(most), credits: credits.min(most), tokens: tokens.min(most) }
}

fn recorded(accounts: ostler_scheduler::Accounts) -> Accounts {
    Accounts {
        client_vruntime: accounts.client_vruntime,
        client_remainder: accounts.client_remainder,
        balance: accounts.balance,
        agents_vruntime: accounts.agents_vruntime,
        agent_vruntime: accounts.agent_vruntime,
        agent_remainder: accounts.agent_remainder,
        tier_vruntime: accounts.tier_vruntime,
        owed: accounts.owed,
    }
}
