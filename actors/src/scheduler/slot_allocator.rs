//! Queued and granted jobs, by agent, and their receivers.

mod turns;
mod yielded_slots;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId};
use ostler_scheduler::{
    AgentHandle, ClientHandle, Config, EnqueueError, Event, Grant, JobHandle, NewJob, Price, RunQueue,
};
use ractor::{ActorId, ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::queue_time::{KeptLevels, QueueTime};
use super::queued::{Purpose, Queued};
use super::tenants::{self, Tenants};
use crate::base::keys::{AttemptKey, Owner};
use crate::messages::agent::AgentMessage;
use crate::messages::registry::RegistryMessage;
use crate::messages::slots::{Granted, Job, Ticket};
use crate::metrics::{QueueLook, QueueMeasures};
use crate::scheduler::context::QueueContext;
use crate::scheduler::rows::{QueueRow, QueueShown};
use crate::state::ledger::Books;

pub(super) struct SlotAllocator {
    epoch: u64,
    queue: RunQueue<Queued>,
    tenants: Tenants,
    agents: BTreeMap<AgentId, Known>,
    events: Vec<Event>,
    measures: QueueMeasures,
    /// Calls that wait for their turn.
    turns: BTreeSet<JobHandle>,
    time: QueueTime,
    /// False if no job ever waits for a rate.
    has_models: bool,
    stopped: bool,
}

struct Known {
    owner: Arc<Owner>,
    lane: AgentHandle,
    books: Books,
    /// Present incarnation of the agent, the only one that receives grants.
    actor: ActorRef<AgentMessage>,
    jobs: BTreeSet<JobHandle>,
}

impl SlotAllocator {
    /// A queue that continues an earlier epoch: running attempts keep their slots, accounts their values.
    pub(super) fn adopting(
        cx: &QueueContext,
        slots: u32,
        levels: Option<KeptLevels>,
    ) -> Result<SlotAllocator, ActorProcessingErr> {
        let (jobs_max, models) = (cx.jobs_max, cx.rates.limits());
        let has_models = !models.is_empty();
        let mut grants = SlotAllocator {
            epoch: cx.attempts.next_epoch(),
            queue: RunQueue::new(Config { jobs_max, models, ..Config::with_slots(slots) })?,
            tenants: Tenants::new(Arc::clone(&cx.rates)),
            agents: BTreeMap::new(),
            events: Vec::new(),
            measures: QueueMeasures::new(cx.measures.clone()),
            turns: BTreeSet::new(),
            time: QueueTime::starting(levels.as_ref().map_or_else(Instant::now, |kept| kept.at)),
            has_models,
            stopped: false,
        };
        // Adopted jobs have taken from the buckets in their own epoch.
        grants.adopt(cx)?;
        if let Some(levels) = levels {
            grants.queue.restore_levels(&levels.levels, &mut grants.events);
        }
        Ok(grants)
    }

    fn adopt(&mut self, cx: &QueueContext) -> Result<(), ActorProcessingErr> {
        let mut events = Vec::new();
        let mut adopted = Vec::new();
        for (key, slot, owner, actor) in cx.attempts.holding() {
            let lane = self.tenants.lane(&mut self.queue, &cx.ledger, &owner, cx.clock.now(), true)?;
            let (run, node) = (key.run, key.node.clone());
            let job = Job { run, node, rank: 0, opened_ms: 0, estimate: slot.estimate, model: None };
            let (books, since, purpose) = (lane.books.clone(), None, Purpose::Start);
            let queued = Queued { job, owner: Arc::clone(&owner), books, since, purpose };
            let new = NewJob::of(slot.estimate);
            let handle = self.queue.enqueue(lane.agent, new, queued, &mut events)?;
            let known = self.agents.entry(owner.agent.clone());
            let known = known.or_insert_with(|| Known {
                owner: Arc::clone(&owner),
                lane: lane.agent,
                books: lane.books,
                actor,
                jobs: BTreeSet::new(),
            });
            known.jobs.insert(handle);
            adopted.push((key, Ticket { epoch: self.epoch, job: handle, ..slot }));
        }
        self.queue.dispatch(u32::MAX, &mut events);
        for (key, slot) in &adopted {
            cx.attempts.hold(key, *slot);
        }
        self.tenants.restore_all(&mut self.queue, &cx.ledger)?;
        // Attempts may have ended while no queue was open.
        self.settle_ended(cx, adopted.into_iter().map(|(key, _)| key).collect());
        self.reclaim_all(cx)
    }

    pub(super) fn enqueue(
        &mut self,
        cx: &QueueContext,
        owner: &Arc<Owner>,
        reply_to: &ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    ) -> Result<(), ActorProcessingErr> {
        if !self.know(cx, owner, reply_to) {
            let nodes = jobs.into_iter().map(|job| job.node).collect();
            let _ = reply_to.cast(AgentMessage::NoRoom(nodes));
            return Ok(());
        }
        let mut refused = Vec::new();
        for job in jobs {
            let node = job.node.clone();
            if self.push(owner, job, Purpose::Start)?.is_none() {
                refused.push(node);
            }
        }
        let Some(known) = self.agents.get_mut(&owner.agent) else { return Ok(()) };
        if !refused.is_empty() {
            let _ = known.actor.cast(AgentMessage::NoRoom(refused));
        }
        // A new job of a parked client is told at once.
        if known.books.client.is_parked() {
            let client = self.tenants.client(&owner.lane.client);
            let queued = client.and_then(|client| Some(self.queue.client(client).ok()?.queued));
            let surplus = queued.is_some_and(|queued| queued as usize > UNPAID_QUEUED);
            let _ = known.actor.cast(AgentMessage::OutOfCredit { out: true, surplus });
        }
        if known.jobs.is_empty() {
            self.agents.remove(&owner.agent);
        }
        // Waking moves a virtual time, so recorded values are restored after it.
        self.tenants.restore_new(&mut self.queue, &mut self.events)
    }

    /// Queues one job of a known agent; `None` if the queue is full.
    fn push(
        &mut self,
        owner: &Arc<Owner>,
        job: Job,
        purpose: Purpose,
    ) -> Result<Option<Ticket>, ActorProcessingErr> {
        let Some(known) = self.agents.get_mut(&owner.agent) else { return Ok(None) };
        let (mut lane, mut model) = (known.lane, None);
        if let Some(uses) = &job.model {
            model = self.queue.model(&uses.model);
            lane = self.tenants.model_lane(&mut self.queue, owner, &uses.model)?;
        }
        let estimate = capped(job.estimate, self.queue.config().cost_max);
        // A job that needs no credits goes before those that may wait for some.
        let priority = i32::from(estimate.credits == 0);
        let (rank, deadline) = (job.rank, Some(job.opened_ms));
        let new = NewJob { priority, rank, deadline, model, ..NewJob::of(estimate) };
        let (job, since) = (Job { estimate, ..job }, self.measures.now());
        let queued = Queued { job, owner: Arc::clone(owner), books: known.books.clone(), since, purpose };
        match self.queue.enqueue(lane, new, queued, &mut self.events) {
            Ok(job) => {
                known.jobs.insert(job);
                Ok(Some(Ticket { epoch: self.epoch, job, estimate }))
            }
            Err(EnqueueError::Full(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Registers an agent; `false` if there is no room for its client.
    fn know(&mut self, cx: &QueueContext, owner: &Arc<Owner>, actor: &ActorRef<AgentMessage>) -> bool {
        if self.agents.get(&owner.agent).is_some_and(|known| known.owner == *owner) {
            return true;
        }
        let now = cx.clock.now();
        let lane = match self.tenants.lane(&mut self.queue, &cx.ledger, owner, now, false) {
            Ok(lane) => lane,
            Err(error) => {
                tracing::warn!(client = %owner.lane.client, %error, "there is no room for it in the run queue");
                return false;
            }
        };
        // Jobs of an earlier agent with this name may still run.
        let jobs = self.agents.remove(&owner.agent).map(|before| before.jobs).unwrap_or_default();
        let (owner, actor) = (Arc::clone(owner), actor.clone());
        let known = Known { owner, lane: lane.agent, books: lane.books, actor, jobs };
        self.agents.insert(known.owner.agent.clone(), known);
        true
    }

    /// Charges ended attempts, frees their slots, and notifies each agent once. `these` may have ended too; there are
    /// at most as many as slots.
    pub(super) fn settle_ended(&mut self, cx: &QueueContext, these: Vec<AttemptKey>) {
        let mut ended: HashMap<ActorId, (ActorRef<AgentMessage>, Vec<AttemptKey>)> = HashMap::new();
        for key in these.into_iter().chain(std::iter::from_fn(|| cx.attempts.next_ended())) {
            let Some(leaves) = cx.attempts.to_settle(&key) else { continue };
            let accounts = self.take_leave(cx, key.run, leaves);
            if let Some(agent) = cx.attempts.settled(&key, accounts) {
                ended.entry(agent.get_id()).or_insert_with(|| (agent, Vec::new())).1.push(key);
            }
        }
        for (agent, keys) in ended.into_values() {
            let _ = agent.cast(AgentMessage::Ended(keys));
        }
    }

    /// Settles a slot and returns the accounts; `None` if the slot is of another epoch. A reservation covers `covered` credits
    /// of the cost, which the balance of the queue never had. `token_charge`: the share of limited tokens, which is the charge
    /// where it is above the slot time. The buckets know the true count of tokens since the end of each call.
    pub(super) fn charge(
        &mut self,
        cx: &QueueContext,
        ticket: Ticket,
        cost: u64,
        covered: u64,
        token_charge: u64,
    ) -> Option<Accounts> {
        let job = Some(ticket).filter(|ticket| ticket.epoch == self.epoch)?.job;
        let most = self.queue.config().cost_max;
        // An attempt that yielded before has paid for its slot time.
        let slot_time = if token_charge > 0 { cost.min(most) } else { cost.clamp(1, most) };
        let charge = slot_time.max(token_charge.min(most));
        let credits = slot_time.saturating_sub(covered);
        let actual = Price { charge, credits, tokens: ticket.estimate.tokens };
        let settled = self.queue.settle(job, actual, &mut self.events);
        let settled =
            settled.inspect_err(|error| tracing::error!(%error, "a slot cannot be settled")).ok()?;
        let accounts = recorded(settled.accounts);
        self.measures.settled(settled.client, charge);
        cx.ledger.charged(&settled.payload.books, None, accounts);
        self.forget(&settled.payload.owner.agent, job);
        Some(accounts)
    }

    /// Frees an unused slot; one of another epoch is gone already.
    pub(super) fn give_back(&mut self, cx: &QueueContext, ticket: Ticket) {
        if ticket.epoch == self.epoch {
            self.free(cx, ticket.job);
        }
    }

    fn free(&mut self, cx: &QueueContext, job: JobHandle) -> Option<Accounts> {
        let settled = self.queue.refund(job, &mut self.events).ok()?;
        // The refund of the estimate makes these the present accounts.
        let accounts = recorded(settled.accounts);
        cx.ledger.charged(&settled.payload.books, None, accounts);
        self.forget(&settled.payload.owner.agent, job);
        Some(accounts)
    }

    pub(super) fn register(&mut self, cx: &QueueContext, agent: &AgentId, actor: &ActorRef<AgentMessage>) {
        if let Some(known) = self.agents.get_mut(agent) {
            known.actor = actor.clone();
        }
        self.void(cx, agent);
    }

    /// Voids queued jobs and unused grants of an agent's earlier incarnation. Running attempts are looked up now,
    /// because adopted slots have new tickets.
    pub(super) fn void(&mut self, cx: &QueueContext, agent: &AgentId) {
        let Some(known) = self.agents.get(agent) else { return };
        let running = cx.attempts.slots();
        let runs = |job| running.iter().any(|slot| slot.epoch == self.epoch && slot.job == job);
        let void: Vec<JobHandle> = known.jobs.iter().copied().filter(|&job| !runs(job)).collect();
        for job in void {
            if self.queue.cancel(job, &mut self.events).is_ok() {
                self.forget(agent, job);
            } else {
                self.free(cx, job);
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

    pub(super) fn renew_terms(
        &mut self,
        cx: &QueueContext,
        client: &ClientId,
    ) -> Result<(), ActorProcessingErr> {
        let now = cx.clock.now();
        self.tenants.renew(&mut self.queue, &cx.ledger, client, now, &mut self.events)
    }

    pub(super) fn held(&self, client: &ClientId) -> u64 {
        self.tenants.client(client).and_then(|client| self.queue.held(client).ok()).unwrap_or(0)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn show(&self) -> QueueShown {
        let rate_waits = self.tenants.rate_waits(&self.queue);
        (QueueRow { rate_waits, ..tenants::queue(&self.queue) }, self.tenants.queueing(&self.queue))
    }

    pub(super) fn look(&mut self) -> QueueLook {
        self.measures.look(&self.queue, self.tenants.clients())
    }

    #[cfg(test)]
    pub(super) fn accounts(&self) -> Vec<String> {
        self.tenants.accounts(&self.queue)
    }

    pub(super) fn leave(&self, cx: &QueueContext) {
        self.tenants.leave(&self.queue, &cx.ledger);
    }

    /// Grants what can be granted and notifies each agent once; returns the grants of `me`.
    pub(super) fn give_out(&mut self, cx: &QueueContext, me: Option<&AgentId>) -> Vec<Granted> {
        self.catch_up();
        if !self.stopped {
            self.queue.dispatch(u32::MAX, &mut self.events);
        }
        let (mut mine, mut others): (Vec<Granted>, BTreeMap<AgentId, Vec<Granted>>) = Default::default();
        let (mut unwanted, mut turns) = (Vec::new(), Vec::new());
        // A settlement may free the credits of the next grant, so only the final state is told.
        let mut parked: BTreeMap<ClientHandle, bool> = BTreeMap::new();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Granted(Grant { job: handle, accounts, tier, .. }) => {
                    let Some(queued) = self.queue.job(handle) else { continue };
                    let Queued { job, owner, books, since, purpose } = queued;
                    self.measures.dispatched(tier, *since);
                    let ticket = Ticket { epoch: self.epoch, job: handle, estimate: job.estimate };
                    let accounts = recorded(accounts);
                    cx.ledger.charged(books, Some(tier), accounts);
                    match purpose {
                        Purpose::Start => {}
                        Purpose::Resume(attempt) => {
                            if !cx.attempts.granted(attempt, ticket) {
                                unwanted.push(handle);
                            }
                            continue;
                        }
                        Purpose::Turn(_) => {
                            turns.push(handle);
                            continue;
                        }
                    }
                    let grant = Granted { ticket, job: job.clone(), accounts };
                    if me == Some(&owner.agent) {
                        mine.push(grant);
                    } else {
                        others.entry(owner.agent.clone()).or_default().push(grant);
                    }
                }
                Event::Parked(client) => drop(parked.insert(client, true)),
                Event::Unparked(client) => drop(parked.insert(client, false)),
                Event::Stepped { .. } | Event::Rebased { .. } | Event::AgentsRebased { .. } => {}
            }
        }
        self.events = events;
        parked.into_iter().for_each(|(client, parked)| self.parked(cx, client, parked));
        for (agent, grants) in others {
            if let Some(known) = self.agents.get(&agent) {
                // An actor that is gone gets its jobs voided, which returns these slots.
                let _ = known.actor.cast(AgentMessage::Granted(grants));
            }
        }
        if unwanted.is_empty() && turns.is_empty() {
            self.set_timer(cx);
            return mine;
        }
        for job in unwanted {
            self.free(cx, job);
        }
        for turn in turns {
            self.give_turn(turn);
        }
        mine.extend(self.give_out(cx, me));
        mine
    }

    fn parked(&self, cx: &QueueContext, client: ClientHandle, parked: bool) {
        let Some(name) = self.tenants.name(client) else { return };
        let book = cx.ledger.client(name);
        if book.is_parked() == parked {
            return;
        }
        book.park(parked);
        let its = self.agents.values().filter(|known| known.owner.lane.client == *name);
        let mut queued = 0;
        for known in its {
            let surplus = parked && queued >= UNPAID_QUEUED;
            // Granted jobs do not keep the client parked.
            queued += known.jobs.iter().filter(|job| self.queue.is_queued(**job)).count();
            let _ = known.actor.cast(AgentMessage::OutOfCredit { out: parked, surplus });
        }
        if !parked {
            cx.mailboxes.tell_registry(RegistryMessage::Credits { client: name.clone() });
        }
        if parked {
            tracing::warn!(client = %name, "its free credits are used up: it is parked until it has more");
        } else {
            tracing::info!(client = %name, "it has credits again");
        }
        cx.status.notify_changed();
    }
}

/// Jobs of a parked client that stay queued with their actors: they show how many credits are needed, and go first.
/// Other runs wait without an actor.
const UNPAID_QUEUED: usize = 4;

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
