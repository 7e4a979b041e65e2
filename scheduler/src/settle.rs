//! Settlement: corrects the charge of a running job to its true cost, at the end or at a step boundary.

use crate::agent::{Agent, AgentHandle};
use crate::bucket::Taking;
use crate::client::{Client, ClientHandle};
use crate::cost::Price;
use crate::error::SettleError;
use crate::event::{Accounts, Event, Settled};
use crate::job::{JobHandle, NewJob, Position, Running};
use crate::run_queue::RunQueue;
use crate::tier::{Tier, Tiers};

impl<P> RunQueue<P> {
    /// Ends a running job at its true cost: charges or refunds the difference to the estimate.
    ///
    /// Virtual times, balance, bucket and the amount owed to the marketplace are corrected to the unit. A wrong estimate therefore
    /// displaces a client only while the job runs, and never changes its share (T1, T3).
    ///
    /// Refused if the job does not run or the cost is out of range; the job then keeps its slot and its charge.
    pub fn settle(
        &mut self,
        job: JobHandle,
        actual: Price,
        events: &mut Vec<Event>,
    ) -> Result<Settled<P>, SettleError> {
        let running = self.find_running(job)?;
        actual.check(self.config.cost_max)?;
        let payload = self.end(job, running, actual);
        self.refresh_settled(job.agent, events);
        Ok(self.settled(job, payload, Vec::new()))
    }

    /// Ends a running job that was never started, and refunds the whole charge.
    ///
    /// Refused if the job does not run.
    pub fn refund(&mut self, job: JobHandle, events: &mut Vec<Event>) -> Result<Settled<P>, SettleError> {
        let running = self.find_running(job)?;
        let payload = self.end(job, running, Price::flat(0));
        if let Some(model) = running.model {
            let client = self.clients[self.agents[job.agent].client].tokens;
            self.buckets.take(Taking { model, client, tokens: 0, requests: -1 }, &mut self.changed);
        }
        self.refresh_settled(job.agent, events);
        Ok(self.settled(job, payload, Vec::new()))
    }

    /// As [`RunQueue::settle`], and enqueues the jobs that become ready in the same operation.
    ///
    /// Runnable flags are recomputed once, after the settlement and all enqueues. Refused as a whole if one of the jobs is refused.
    pub fn settle_and_enqueue(
        &mut self,
        job: JobHandle,
        actual: Price,
        following: Vec<(AgentHandle, NewJob, P)>,
        events: &mut Vec<Event>,
    ) -> Result<Settled<P>, SettleError> {
        let running = self.find_running(job)?;
        actual.check(self.config.cost_max)?;
        let check = |(agent, job, _): &(AgentHandle, NewJob, P)| self.check(*agent, job);
        self.check_capacity(following.len().saturating_sub(1)).map_err(SettleError::Following)?;
        following.iter().try_for_each(check).map_err(SettleError::Following)?;
        let payload = self.end(job, running, actual);
        let following = self.push_all(following);
        self.refresh_with(job.agent, events);
        Ok(self.settled(job, payload, following))
    }

    /// Reports at a step boundary what a running job used since its dispatch. Returns true if the job yields.
    ///
    /// The charge rises to `used`, never falls. A marketplace job yields if a contracted client is runnable, no slot is free and
    /// the marketplace is not owed its next job: the job is settled at `used` and queued again with the rest of its
    /// estimate, under the same handle and in its former order. Refused under the conditions of [`RunQueue::settle`].
    pub fn step(
        &mut self,
        job: JobHandle,
        used: Price,
        events: &mut Vec<Event>,
    ) -> Result<bool, SettleError> {
        let price = self.find_running(job)?.price;
        used.check(self.config.cost_max)?;
        if used.charge > price.charge {
            let credits = used.credits.max(price.credits);
            self.raise(job, Price { charge: used.charge, credits, tokens: used.tokens.max(price.tokens) }, 0);
            self.refresh_with(job.agent, events);
        }
        let client = self.agents[job.agent].client;
        let yielded = self.clients[client].tier == Tier::Marketplace
            && self.tiers.runnable(Tier::Contracted) > 0
            && self.running >= self.config.slots
            && !self.marketplace_is_owed();
        events.push(Event::Stepped { job, yielded });
        if yielded {
            self.requeue(job, used);
            self.refresh_with(job.agent, events);
        }
        Ok(yielded)
    }

    /// Charges or refunds the difference between the present price of a job and `to`, and frees `slots` slots.
    fn take(&mut self, agent: u32, running: &Running, to: Price, slots: u32) {
        let delta = CostDelta::between(running.price, to);
        let agent = &mut self.agents[agent];
        let client = &mut self.clients[agent.client];
        delta.charge(client, agent, &mut self.tiers, running.owed_pm, self.scale);
        // A job without a slot holds no credits.
        client.held = client.held - running.price.credits + if slots == 0 { to.credits } else { 0 };
        client.in_flight -= slots;
        self.running -= slots;
        if let Some(model) = running.model {
            let taking = Taking { model, client: client.tokens, tokens: delta.tokens, requests: 0 };
            self.buckets.take(taking, &mut self.changed);
        }
    }

    /// Settles a running job, frees its slot and removes the job.
    fn end(&mut self, job: JobHandle, running: Running, actual: Price) -> P {
        self.take(job.agent, &running, actual, 1);
        self.jobs.remove(job.at)
    }

    /// Sets the price of a running job to `to`, and frees `slots` slots.
    fn raise(&mut self, job: JobHandle, to: Price, slots: u32) {
        let attributes = self.jobs.attributes_of_running(job.at);
        let running =
            Running { price: attributes.price, owed_pm: attributes.owed_pm, model: attributes.model };
        attributes.price = to;
        self.take(job.agent, &running, to, slots);
    }

    /// Settles a job at `used` and queues the job again with the rest of its estimate.
    fn requeue(&mut self, job: JobHandle, used: Price) {
        let charged = self.jobs.price(job.at);
        self.raise(job, used, 1);
        let attributes = self.jobs.attributes_of_running(job.at);
        attributes.price = Price {
            charge: charged.charge.saturating_sub(used.charge).max(1),
            credits: charged.credits.saturating_sub(used.credits),
            tokens: charged.tokens.saturating_sub(used.tokens),
        };
        attributes.position = Position::Sorted;
        self.agents[job.agent].backlog.push(job.at, Some(attributes.order));
    }

    fn find_running(&self, job: JobHandle) -> Result<Running, SettleError> {
        let tag = self.jobs.payloads.tag_of(job.at, job.generation).ok_or(SettleError::UnknownJob)?;
        self.jobs.running(tag).ok_or(SettleError::NotRunning)
    }

    fn settled(&mut self, job: JobHandle, payload: P, following: Vec<JobHandle>) -> Settled<P> {
        let agent = &self.agents[job.agent];
        let (client, generation) = self.clients.with_generation(agent.client);
        Settled {
            payload,
            client: ClientHandle { at: agent.client, generation },
            accounts: accounts(client, agent, &self.tiers),
            following,
        }
    }
}

#[inline]
pub(crate) fn accounts(client: &Client, agent: &Agent, tiers: &Tiers) -> Accounts {
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

/// Difference of two [`Price`]s.
pub(crate) struct CostDelta {
    pub(crate) charge: i64,
    pub(crate) credits: i64,
    pub(crate) tokens: i64,
}

impl CostDelta {
    #[inline]
    pub(crate) fn between(from: Price, to: Price) -> Self {
        Self {
            charge: to.charge as i64 - from.charge as i64,
            credits: to.credits as i64 - from.credits as i64,
            tokens: to.tokens as i64 - from.tokens as i64,
        }
    }

    #[inline]
    pub(crate) fn charge(
        &self,
        client: &mut Client,
        agent: &mut Agent,
        tiers: &mut Tiers,
        owed_pm: i16,
        scale: i64,
    ) {
        if self.charge != 0 {
            client.account.charge(self.charge, scale);
            agent.account.charge(self.charge, scale);
            client.charged += i128::from(self.charge);
            tiers.owed += i128::from(self.charge) * i128::from(owed_pm);
        }
        if let Some(balance) = &mut client.balance {
            *balance -= self.credits;
        }
    }
}
