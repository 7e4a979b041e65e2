//! The run queue: jobs in, grants out, costs settled.

use crate::agent::{Agent, AgentHandle};
use crate::bucket::Buckets;
use crate::client::Client;
use crate::config::Config;
use crate::cost::Pricing;
use crate::error::{CancelError, ConfigError, EnqueueError};
use crate::event::Event;
use crate::job::{JobHandle, Jobs, ModelHandle, NewJob, Position};
use crate::arena::Arena;
use crate::tier::Tiers;

/// Orders the jobs of many clients by what each was charged for its weight. `P` is whatever the caller queues.
///
/// Handles belong to the queue that gave them out; in another queue they name nothing, or something else.
pub struct RunQueue<P> {
    pub(crate) clients: Arena<Client>,
    pub(crate) agents: Arena<Agent>,
    pub(crate) jobs: Jobs<P>,
    pub(crate) tiers: Tiers,
    pub(crate) buckets: Buckets,
    /// Agents to look at before the operation ends.
    pub(crate) changed: Vec<u32>,
    pub(crate) running: u32,
    /// Last number drawn on waking or dispatch, of an arrival, of a dispatch, of a client.
    pub(crate) seq: u64,
    arrivals: u64,
    pub(crate) dispatches: u64,
    pub(crate) clients_created: u64,
    pub(crate) rebase_at: i64,
    pub(crate) scale: i64,
    pub(crate) config: Config,
}

impl<P> RunQueue<P> {
    /// An empty queue whose buckets are full.
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
        self.jobs.payloads.contains(job.at, job.generation).then(|| &self.jobs.payloads[job.at])
    }

    /// Whether a job waits, and has not been granted.
    pub fn is_queued(&self, job: JobHandle) -> bool {
        self.job(job).is_some() && self.jobs.running(self.jobs.payloads.tag(job.at)).is_none()
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
        self.check_capacity(1)?;
        let (handle, first) = self.push(agent.at, &job, payload);
        if first {
            self.refresh_with(agent.at, events);
        }
        Ok(handle)
    }

    /// Queues several jobs at once: all or none, and who can run is seen only after the last of them.
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

    /// Takes a queued job out. A running one is refused: what it cost has to be settled.
    pub fn cancel(&mut self, job: JobHandle, events: &mut Vec<Event>) -> Result<P, CancelError> {
        if !self.jobs.payloads.contains(job.at, job.generation) {
            return Err(CancelError::UnknownJob);
        }
        if self.jobs.running(self.jobs.payloads.tag(job.at)).is_some() {
            return Err(CancelError::Running);
        }
        let backlog = &mut self.agents[job.agent].backlog;
        let was_first = backlog.first() == Some(job.at);
        let sorted =
            self.jobs.attributes(job.at).filter(|attributes| attributes.position == Position::Sorted).map(|attributes| attributes.order);
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

    /// Lets `ms` milliseconds pass for the token buckets.
    pub fn advance(&mut self, ms: u64, events: &mut Vec<Event>) {
        self.buckets.advance(ms, &mut self.changed);
        self.refresh(events);
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

    /// Queues jobs that were checked, and notes whose first job changed.
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

    /// Queues a job that was checked; says whether it is its agent's first.
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
