//! The run queue: jobs in, grants out, costs settled.

use crate::agent::{Agent, AgentHandle};
use crate::bucket::Buckets;
use crate::client::{Client, ClientHandle};
use crate::config::Config;
use crate::cost::{Price, Pricing};
use crate::error::{CancelError, ConfigError, EnqueueError, SettleError};
use crate::event::{Accounts, Event, Grant, Settled};
use crate::job::{JobHandle, Jobs, ModelHandle, NewJob, Place, Running};
use crate::slab::Slab;
use crate::tier::{Tier, Tiers};

/// Orders the jobs of many clients by what each was charged for its weight. `P` is whatever the caller queues.
///
/// Handles belong to the queue that gave them out; in another queue they name nothing, or something else.
pub struct RunQueue<P> {
    pub(crate) clients: Slab<Client>,
    pub(crate) agents: Slab<Agent>,
    pub(crate) jobs: Jobs<P>,
    pub(crate) tiers: Tiers,
    pub(crate) buckets: Buckets,
    /// Agents to look at before the operation ends.
    pub(crate) changed: Vec<u32>,
    pub(crate) running: u32,
    /// Last number drawn on waking or dispatch, of an arrival, of a dispatch, of a client.
    pub(crate) seq: u64,
    arrivals: u64,
    dispatches: u64,
    pub(crate) births: u64,
    pub(crate) rebase_at: i64,
    scale: i64,
    pub(crate) config: Config,
}

impl<P> RunQueue<P> {
    /// An empty queue whose buckets are full.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            clients: Slab::new(),
            agents: Slab::new(),
            jobs: Jobs::new(),
            tiers: Tiers::new(config.guarantee_pm),
            buckets: Buckets::new(&config.models),
            changed: Vec::new(),
            running: 0,
            seq: 0,
            arrivals: 0,
            dispatches: 0,
            births: 0,
            rebase_at: config.rebase_at as i64,
            scale: config.scale as i64,
            config,
        })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How amounts of several resources become one price.
    pub fn pricing(&self) -> &Pricing {
        &self.config.pricing
    }

    /// The model of this name, if it has a bucket.
    pub fn model(&self, name: &str) -> Option<ModelHandle> {
        self.buckets.find(name)
    }

    /// Jobs that run.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Jobs that wait.
    pub fn queued(&self) -> u32 {
        self.jobs.payloads.len() - self.running
    }

    /// What was queued under this handle, while it is queued or running.
    pub fn job(&self, job: JobHandle) -> Option<&P> {
        self.jobs.payloads.holds(job.at, job.generation).then(|| &self.jobs.payloads[job.at])
    }

    /// Queues a job behind its agent's.
    ///
    /// Refused if the estimate is out of range, or if agent or model are not in this queue, or if it is full.
    pub fn enqueue(
        &mut self,
        agent: AgentHandle,
        job: NewJob,
        payload: P,
        events: &mut Vec<Event>,
    ) -> Result<JobHandle, EnqueueError> {
        self.check(agent, &job)?;
        self.check_room(1)?;
        let (handle, first) = self.push(agent.at, &job, payload);
        if first {
            self.refresh_with(agent.at, events);
        }
        Ok(handle)
    }

    /// Queues several jobs at once: all or none, and who can run is seen only after the last of them.
    pub fn enqueue_together(
        &mut self,
        jobs: Vec<(AgentHandle, NewJob, P)>,
        events: &mut Vec<Event>,
    ) -> Result<Vec<JobHandle>, EnqueueError> {
        self.check_room(jobs.len())?;
        jobs.iter().try_for_each(|(agent, job, _)| self.check(*agent, job))?;
        let handles = self.push_all(jobs);
        self.refresh(events);
        Ok(handles)
    }

    /// Gives up to `n` jobs a slot, charges their estimates, and appends a grant for each to `events`.
    ///
    /// Ends early when all slots are taken or nothing is runnable. Returns how many jobs were granted.
    pub fn dispatch(&mut self, n: u32, events: &mut Vec<Event>) -> u32 {
        let mut granted = 0;
        while granted < n
            && self.running < self.config.slots
            && let Some((client, shared)) = self.pick()
        {
            self.grant(client, shared, events);
            granted += 1;
        }
        granted
    }

    /// Ends a running job at its true cost: the difference to its estimate is charged or given back.
    ///
    /// Refused if the job does not run or the cost is out of range; it then keeps its slot and its charge.
    pub fn settle(
        &mut self,
        job: JobHandle,
        actual: Price,
        events: &mut Vec<Event>,
    ) -> Result<Settled<P>, SettleError> {
        let running = self.find_running(job)?;
        let actual = actual.checked(self.config.cost_max)?;
        let payload = self.end(job, running, actual);
        self.refresh_settled(job.agent, events);
        Ok(self.settled(job, payload, Vec::new()))
    }

    /// As [`RunQueue::settle`], and queues the jobs that its end made ready before anyone sees the free slot.
    pub fn settle_then(
        &mut self,
        job: JobHandle,
        actual: Price,
        following: Vec<(AgentHandle, NewJob, P)>,
        events: &mut Vec<Event>,
    ) -> Result<Settled<P>, SettleError> {
        let running = self.find_running(job)?;
        let actual = actual.checked(self.config.cost_max)?;
        let check = |(agent, job, _): &(AgentHandle, NewJob, P)| self.check(*agent, job);
        self.check_room(following.len().saturating_sub(1)).map_err(SettleError::Following)?;
        following.iter().try_for_each(check).map_err(SettleError::Following)?;
        let payload = self.end(job, running, actual);
        let following = self.push_all(following);
        self.refresh_with(job.agent, events);
        Ok(self.settled(job, payload, following))
    }

    /// A running job reports at a step boundary what it used since its dispatch, and learns whether it has to yield.
    ///
    /// The charge rises to what was used. A marketplace job yields when a contracted client waits, no slot is free and
    /// the marketplace is not owed a pick: it is settled at what it used and queued again, under the same handle and in
    /// its old place, with what is left of its estimate. Refused as [`RunQueue::settle`] is.
    pub fn step(
        &mut self,
        job: JobHandle,
        used: Price,
        events: &mut Vec<Event>,
    ) -> Result<bool, SettleError> {
        let price = self.find_running(job)?.price;
        let used = used.checked(self.config.cost_max)?;
        if used.charge > price.charge {
            let credits = used.credits.max(price.credits);
            self.raise(job, Price { charge: used.charge, credits, tokens: used.tokens.max(price.tokens) }, 0);
            self.refresh_with(job.agent, events);
        }
        let client = self.agents[job.agent].client;
        let yielded = self.clients[client].tier == Tier::Marketplace
            && self.tiers.runnable(Tier::Contracted) > 0
            && self.running >= self.config.slots
            && !self.owes_pick();
        events.push(Event::Stepped { job, yielded });
        if yielded {
            self.requeue(job, used);
            self.refresh_with(job.agent, events);
        }
        Ok(yielded)
    }

    /// Takes a queued job out. A running one is refused: what it cost has to be settled.
    pub fn cancel(&mut self, job: JobHandle, events: &mut Vec<Event>) -> Result<P, CancelError> {
        if !self.jobs.payloads.holds(job.at, job.generation) {
            return Err(CancelError::UnknownJob);
        }
        if self.jobs.running(job.at).is_some() {
            return Err(CancelError::Running);
        }
        let backlog = &mut self.agents[job.agent].backlog;
        let was_first = backlog.first() == Some(job.at);
        let sorted =
            self.jobs.terms(job.at).filter(|terms| terms.place == Place::Sorted).map(|terms| terms.order);
        self.jobs.forget(job.at);
        let payload = self.jobs.payloads.vacate(job.at);
        match sorted {
            Some(order) => {
                backlog.remove_sorted(&order);
                self.jobs.payloads.release(job.at);
            }
            None => backlog.cancel_in_line(&mut self.jobs.payloads),
        }
        if was_first {
            self.refresh_with(job.agent, events);
        }
        Ok(payload)
    }

    /// Lets `ms` milliseconds pass for the token buckets.
    pub fn advance(&mut self, ms: u64, events: &mut Vec<Event>) {
        self.buckets.advance(ms, &mut self.changed);
        self.refresh(events);
    }

    // -- queueing --------------------------------------------------------------------------------------------------

    fn check(&self, agent: AgentHandle, job: &NewJob) -> Result<(), EnqueueError> {
        if !self.agents.holds(agent.at, agent.generation) {
            return Err(EnqueueError::UnknownAgent);
        }
        job.estimate.checked(self.config.cost_max)?;
        if job.model.is_some_and(|model| !self.buckets.has(model)) {
            return Err(EnqueueError::UnknownModel);
        }
        Ok(())
    }

    fn check_room(&self, jobs: usize) -> Result<(), EnqueueError> {
        let max = self.config.jobs_max;
        if (max - self.jobs.payloads.len()) as usize >= jobs { Ok(()) } else { Err(EnqueueError::Full(max)) }
    }

    /// Queues jobs that were checked, and notes whose first job changed.
    fn push_all(&mut self, jobs: Vec<(AgentHandle, NewJob, P)>) -> Vec<JobHandle> {
        let push = |(agent, job, payload): (AgentHandle, NewJob, P)| {
            let (handle, first) = self.push(agent.at, &job, payload);
            if first {
                self.changed.push(agent.at);
            }
            handle
        };
        jobs.into_iter().map(push).collect()
    }

    /// Queues a job that was checked; says whether it is its agent's first.
    fn push(&mut self, agent: u32, job: &NewJob, payload: P) -> (JobHandle, bool) {
        self.arrivals += 1;
        let (at, generation, order) = self.jobs.insert(job, payload, self.arrivals);
        (JobHandle { at, generation, agent }, self.agents[agent].backlog.push(at, order))
    }

    // -- dispatching -----------------------------------------------------------------------------------------------

    /// The client to serve next, and whether the other tier waits meanwhile.
    fn pick(&self) -> Option<(u32, bool)> {
        let contracted = self.tiers.first(Tier::Contracted);
        match (contracted, self.tiers.first(Tier::Marketplace)) {
            (Some(_), Some(marketplace)) if self.owes_pick() => Some((marketplace, true)),
            (Some(contracted), marketplace) => Some((contracted, marketplace.is_some())),
            (None, marketplace) => Some((marketplace?, false)),
        }
    }

    /// Whether the marketplace is owed the charge of the job it would be served next.
    fn owes_pick(&self) -> bool {
        let Some(client) = self.tiers.first(Tier::Marketplace) else { return false };
        let agent =
            self.clients[client].first_agent(&self.agents).expect("a runnable client has a runnable agent");
        let job = self.agents[agent].backlog.first().expect("a runnable agent has a job");
        self.tiers.owes(self.jobs.price(job).charge)
    }

    fn grant(&mut self, client_at: u32, shared: bool, events: &mut Vec<Event>) {
        let (client, generation) = self.clients.with_generation(client_at);
        let client_handle = ClientHandle { at: client_at, generation };
        let agent_at = client.first_agent(&self.agents).expect("a runnable client has a runnable agent");
        let (agent, generation) = self.agents.with_generation(agent_at);
        let agent_handle = AgentHandle { at: agent_at, generation };
        let at = agent.backlog.pop_first(&mut self.jobs.payloads).expect("a runnable agent has a job");
        let (tier, key) = (client.tier, client.due());
        let tier_vruntime = &mut self.tiers.vruntime[tier as usize];
        *tier_vruntime = key.max(*tier_vruntime);
        client.agents_vruntime = client.agents_vruntime.max(agent.account.vruntime);
        client.in_flight += 1;
        self.running += 1;
        self.dispatches += 1;
        let share_pm = if shared { self.tiers.share_pm(tier) } else { 0 };
        let running = self.jobs.start(at, share_pm, self.dispatches);
        let taken = Taken::between(NOTHING, running.price);
        taken.charge(client, agent, &mut self.tiers, share_pm, self.scale);
        client.account.seq = self.seq + 1;
        agent.account.seq = self.seq + 2;
        self.seq += 2;
        if let Some(model) = running.model {
            self.buckets.take(model, taken.tokens, &mut self.changed);
        }
        events.push(Event::Granted(Grant {
            job: JobHandle { at, generation: self.jobs.payloads.generation(at), agent: agent_at },
            client: client_handle,
            agent: agent_handle,
            tier,
            key,
            accounts: accounts(client, agent, &self.tiers),
        }));
        self.refresh_with(agent_at, events);
        self.rebase(tier, client_at, events);
    }

    // -- charging --------------------------------------------------------------------------------------------------

    /// Charges what a job of this agent costs more than before, or gives back what it costs less; `slots` are given back.
    fn take(&mut self, agent: u32, running: Running, to: Price, slots: u32) {
        let taken = Taken::between(running.price, to);
        let agent = &mut self.agents[agent];
        let client = &mut self.clients[agent.client];
        taken.charge(client, agent, &mut self.tiers, running.share_pm, self.scale);
        client.in_flight -= slots;
        self.running -= slots;
        if let Some(model) = running.model {
            self.buckets.take(model, taken.tokens, &mut self.changed);
        }
    }

    /// Settles a running job and takes it out of its slot and of the queue.
    fn end(&mut self, job: JobHandle, running: Running, actual: Price) -> P {
        self.take(job.agent, running, actual, 1);
        self.jobs.forget(job.at);
        self.jobs.payloads.remove(job.at)
    }

    /// Brings what a running job is charged to `to`; `slots` are given back.
    fn raise(&mut self, job: JobHandle, to: Price, slots: u32) {
        let terms = self.jobs.terms_of_running(job.at);
        let running = Running { price: terms.price, share_pm: terms.share_pm, model: terms.model };
        terms.price = to;
        self.take(job.agent, running, to, slots);
    }

    /// Ends a dispatch at `used` and queues the job again with what is left.
    fn requeue(&mut self, job: JobHandle, used: Price) {
        let charged = self.jobs.price(job.at);
        self.raise(job, used, 1);
        let terms = self.jobs.terms_of_running(job.at);
        terms.price = Price {
            charge: charged.charge.saturating_sub(used.charge).max(1),
            credits: charged.credits.saturating_sub(used.credits),
            tokens: charged.tokens.saturating_sub(used.tokens),
        };
        terms.place = Place::Sorted;
        self.agents[job.agent].backlog.push(job.at, Some(terms.order));
    }

    fn find_running(&self, job: JobHandle) -> Result<Running, SettleError> {
        if !self.jobs.payloads.holds(job.at, job.generation) {
            return Err(SettleError::UnknownJob);
        }
        self.jobs.running(job.at).ok_or(SettleError::NotRunning)
    }

    // -- what calls answer -----------------------------------------------------------------------------------------

    pub(crate) fn agent_handle(&self, at: u32) -> AgentHandle {
        AgentHandle { at, generation: self.agents.generation(at) }
    }

    fn settled(&mut self, job: JobHandle, payload: P, following: Vec<JobHandle>) -> Settled<P> {
        let (agent, generation) = self.agents.with_generation(job.agent);
        let agent_handle = AgentHandle { at: job.agent, generation };
        let (client, generation) = self.clients.with_generation(agent.client);
        Settled {
            payload,
            client: ClientHandle { at: agent.client, generation },
            agent: agent_handle,
            accounts: accounts(client, agent, &self.tiers),
            following,
        }
    }
}

fn accounts(client: &Client, agent: &Agent, tiers: &Tiers) -> Accounts {
    Accounts {
        client_vruntime: client.account.vruntime,
        client_remainder: client.account.remainder,
        balance: client.balance,
        agents_vruntime: client.agents_vruntime,
        agent_vruntime: agent.account.vruntime,
        agent_remainder: agent.account.remainder,
        tier_vruntime: tiers.vruntime[client.tier as usize],
        owed: tiers.owed,
    }
}

const NOTHING: Price = Price::flat(0);

/// A difference in the three units of a [`Price`].
struct Taken {
    charge: i64,
    credits: i64,
    tokens: i64,
}

impl Taken {
    fn between(from: Price, to: Price) -> Self {
        Self {
            charge: to.charge as i64 - from.charge as i64,
            credits: to.credits as i64 - from.credits as i64,
            tokens: to.tokens as i64 - from.tokens as i64,
        }
    }

    /// Charges every account but the bucket.
    fn charge(&self, client: &mut Client, agent: &mut Agent, tiers: &mut Tiers, share_pm: i16, scale: i64) {
        if self.charge != 0 {
            client.account.charge(self.charge, scale);
            agent.account.charge(self.charge, scale);
            client.charged += i128::from(self.charge);
            tiers.owed += i128::from(self.charge) * i128::from(share_pm);
        }
        if let Some(balance) = &mut client.balance {
            *balance -= self.credits;
        }
    }
}
