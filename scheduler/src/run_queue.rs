//! [`RunQueue`]: state, enqueue and cancel.

use crate::agent::{Agent, AgentHandle};
use crate::arena::Arena;
use crate::bucket::Buckets;
use crate::client::Client;
use crate::config::Config;
use crate::cost::Pricing;
use crate::error::{CancelError, ConfigError, EnqueueError};
use crate::event::Event;
use crate::job::{JobHandle, Jobs, ModelHandle, NewJob, Position};
use crate::tier::Tiers;

/// Weighted fair queue of the jobs of many clients; `P` is the payload of a job.
///
/// A handle is valid only in the queue that returned the handle; another queue refuses the handle or takes it for another entity.
///
/// Cost of enqueue, dispatch and settlement: `O(log k)` for `k` runnable clients, plus `O(log j)` for a job with priority, deadline or
/// rank among `j` jobs of its agent.
pub struct RunQueue<P> {
    pub(crate) clients: Arena<Client>,
    pub(crate) agents: Arena<Agent>,
    pub(crate) jobs: Jobs<P>,
    pub(crate) tiers: Tiers,
    pub(crate) buckets: Buckets,
    /// Agents to refresh before the operation ends.
    pub(crate) changed: Vec<u32>,
    pub(crate) running: u32,
    /// Last number drawn to break ties.
    pub(crate) seq: u64,
    arrivals: u64,
    pub(crate) dispatches: u64,
    pub(crate) clients_created: u64,
    pub(crate) rebase_at: i64,
    pub(crate) scale: i64,
    pub(crate) config: Config,
}

impl<P> RunQueue<P> {
    /// An empty queue with full buckets.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            clients: Arena::new(),
            agents: Arena::new(),
            jobs: Jobs::new(),
            tiers: Tiers::new(config.guarantee_pm),
            buckets: Buckets::new(&config.models),
            changed: Vec::new(),
            running: 0,
            seq: 0,
            arrivals: 0,
            dispatches: 0,
            clients_created: 0,
            rebase_at: config.rebase_at as i64,
            scale: config.scale as i64,
            config,
        })
    }

    /// Settings of the queue.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Converts amounts of several resources into a price.
    pub fn pricing(&self) -> &Pricing {
        &self.config.pricing
    }

    /// The model with this name; `None` for a model that the settings do not name.
    pub fn model(&self, name: &str) -> Option<ModelHandle> {
        self.buckets.find(name)
    }

    /// Number of running jobs.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Number of queued jobs.
    pub fn queued(&self) -> u32 {
        self.jobs.payloads.len() - self.running
    }

    /// Payload of a queued or running job; `None` after settlement or cancellation.
    pub fn job(&self, job: JobHandle) -> Option<&P> {
        self.jobs.payloads.contains(job.at, job.generation).then(|| &self.jobs.payloads[job.at])
    }

    /// True for a queued job that is not running.
    pub fn is_queued(&self, job: JobHandle) -> bool {
        self.job(job).is_some() && self.jobs.running(self.jobs.payloads.tag(job.at)).is_none()
    }

    /// Adds a job to the backlog of an agent.
    ///
    /// Refused if the estimate is out of range, the agent or model is unknown, or the queue is full.
    pub fn enqueue(
        &mut self,
        agent: AgentHandle,
        job: NewJob,
        payload: P,
        events: &mut Vec<Event>,
    ) -> Result<JobHandle, EnqueueError> {
        self.check(agent, &job)?;
        self.check_capacity(1)?;
        let (handle, first) = self.push(agent.at, &job, payload);
        if first {
            self.refresh_with(agent.at, events);
        }
        Ok(handle)
    }

    /// Enqueues all jobs or none. Runnable flags are recomputed once, after the last job.
    pub fn enqueue_batch(
        &mut self,
        jobs: Vec<(AgentHandle, NewJob, P)>,
        events: &mut Vec<Event>,
    ) -> Result<Vec<JobHandle>, EnqueueError> {
        self.check_capacity(jobs.len())?;
        jobs.iter().try_for_each(|(agent, job, _)| self.check(*agent, job))?;
        let handles = self.push_all(jobs);
        self.refresh(events);
        Ok(handles)
    }

    /// Removes a queued job and returns its payload. A running job is refused: settle it instead.
    pub fn cancel(&mut self, job: JobHandle, events: &mut Vec<Event>) -> Result<P, CancelError> {
        if !self.jobs.payloads.contains(job.at, job.generation) {
            return Err(CancelError::UnknownJob);
        }
        if self.jobs.running(self.jobs.payloads.tag(job.at)).is_some() {
            return Err(CancelError::Running);
        }
        let backlog = &mut self.agents[job.agent].backlog;
        let was_first = backlog.first() == Some(job.at);
        let sorted = self
            .jobs
            .attributes(job.at)
            .filter(|attributes| attributes.position == Position::Sorted)
            .map(|attributes| attributes.order);
        let payload = self.jobs.vacate(job.at);
        match sorted {
            Some(order) => {
                backlog.remove_sorted(&order);
                self.jobs.payloads.release(job.at);
            }
            None => backlog.cancel_in_fifo(&mut self.jobs.payloads),
        }
        if was_first {
            self.refresh_with(job.agent, events);
        }
        Ok(payload)
    }

    // -- queueing --------------------------------------------------------------------------------------------------

    pub(crate) fn check(&self, agent: AgentHandle, job: &NewJob) -> Result<(), EnqueueError> {
        if !self.agents.contains(agent.at, agent.generation) {
            return Err(EnqueueError::UnknownAgent);
        }
        job.estimate.check(self.config.cost_max)?;
        if job.model.is_some_and(|model| !self.buckets.has(model)) {
            return Err(EnqueueError::UnknownModel);
        }
        Ok(())
    }

    pub(crate) fn check_capacity(&self, jobs: usize) -> Result<(), EnqueueError> {
        let max = self.config.jobs_max;
        if (max - self.jobs.payloads.len()) as usize >= jobs { Ok(()) } else { Err(EnqueueError::Full(max)) }
    }

    /// Enqueues checked jobs and records agents with a new first job in `changed`.
    pub(crate) fn push_all(&mut self, jobs: Vec<(AgentHandle, NewJob, P)>) -> Vec<JobHandle> {
        let push = |(agent, job, payload): (AgentHandle, NewJob, P)| {
            let (handle, first) = self.push(agent.at, &job, payload);
            if first {
                self.changed.push(agent.at);
            }
            handle
        };
        jobs.into_iter().map(push).collect()
    }

    /// Enqueues a checked job. Returns true if the job is now the first of its agent.
    fn push(&mut self, agent: u32, job: &NewJob, payload: P) -> (JobHandle, bool) {
        self.arrivals += 1;
        let backlog = &mut self.agents[agent].backlog;
        let (at, generation, first) = match job.plain_charge() {
            Some(charge) => {
                let (at, generation) = self.jobs.insert_plain(charge, payload);
                (at, generation, backlog.push_plain(at))
            }
            None => {
                let (at, generation, order) = self.jobs.insert(job, payload, self.arrivals);
                (at, generation, backlog.push(at, order))
            }
        };
        (JobHandle { at, generation, agent }, first)
    }

    pub(crate) fn agent_handle(&self, at: u32) -> AgentHandle {
        AgentHandle { at, generation: self.agents.generation(at) }
    }
}
