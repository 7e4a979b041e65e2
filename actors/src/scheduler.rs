//! The scheduler: owns the run queue, gives out slots, settles what attempts cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};
use ostler_scheduler::{
    AgentHandle, ClientHandle, Config, Event, Grant, JobHandle, NewClient, NewJob, Price, RunQueue, Tier,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::agent::AgentMessage;
use crate::effects::AttemptKey;
use crate::measure::{Measures, QueueLook, QueueMeasures};

/// A client as the configuration knows it. One that nobody configured has weight 100 in the marketplace.
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
}

/// What a job is queued as.
#[derive(Debug, Clone)]
struct Queued {
    job: Job,
    agent: AgentId,
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

pub(crate) enum SchedulerMessage {
    /// Ready nodes of an agent's run.
    Enqueue {
        agent: AgentId,
        lane: Lane,
        /// Of the agent among those of its client.
        weight: u32,
        reply_to: ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    },
    /// An attempt ended, or never started. With `ended`, its agent hears of it, with the accounts.
    Settle { job: JobHandle, cost: u64, ended: Option<(AttemptKey, ActorRef<AgentMessage>)> },
    /// An agent was started: whatever an earlier life of it had queued is void, but for the jobs that still run.
    Hello { agent: AgentId, reply_to: ActorRef<AgentMessage>, running: Vec<JobHandle> },
    /// The actor of an agent is gone for now: what it had queued is void, but for the jobs that still run.
    Bye { agent: AgentId, running: Vec<JobHandle> },
    /// How does the queue stand?
    Look { reply: RpcReplyPort<QueueLook> },
    /// No more grants.
    Stop,
}

/// A slot for a job, its estimate charged.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) handle: JobHandle,
    pub(crate) job: Job,
    pub(crate) accounts: Accounts,
}

pub(crate) struct SchedulerArguments {
    pub(crate) slots: u32,
    pub(crate) clients: Arc<Vec<ClientConfig>>,
    pub(crate) measures: Measures,
}

pub(crate) struct Scheduler;

pub(crate) struct SchedulerState {
    queue: RunQueue<Queued>,
    clients: BTreeMap<ClientId, ClientHandle>,
    lanes: BTreeMap<Lane, AgentHandle>,
    /// Agents that have jobs here.
    agents: BTreeMap<AgentId, Known>,
    configured: Arc<Vec<ClientConfig>>,
    events: Vec<Event>,
    measures: QueueMeasures,
    stopped: bool,
}

struct Known {
    /// The agent's present life: a grant goes to no other.
    actor: ActorRef<AgentMessage>,
    jobs: BTreeSet<JobHandle>,
}

/// What an attempt is expected to cost, in credits (milliseconds of a slot), until it has ended.
const ESTIMATE: u64 = 100;

impl Actor for Scheduler {
    type Msg = SchedulerMessage;
    type State = SchedulerState;
    type Arguments = SchedulerArguments;

    async fn pre_start(
        &self,
        _: ActorRef<SchedulerMessage>,
        arguments: SchedulerArguments,
    ) -> Result<SchedulerState, ActorProcessingErr> {
        let queue = RunQueue::new(Config { slots: arguments.slots, ..Config::default() })?;
        Ok(SchedulerState {
            queue,
            clients: BTreeMap::new(),
            lanes: BTreeMap::new(),
            agents: BTreeMap::new(),
            configured: arguments.clients,
            events: Vec::new(),
            measures: QueueMeasures::new(arguments.measures),
            stopped: false,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<SchedulerMessage>,
        message: SchedulerMessage,
        state: &mut SchedulerState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SchedulerMessage::Enqueue { agent, lane, weight, reply_to, jobs } => {
                let lane = state.lane(lane, weight)?;
                state.enqueue(agent, lane, reply_to, jobs)?;
            }
            SchedulerMessage::Settle { job, cost, ended } => state.settle(job, cost, ended),
            SchedulerMessage::Hello { agent, reply_to, running } => state.hello(&agent, reply_to, &running),
            SchedulerMessage::Bye { agent, running } => state.void(&agent, &running),
            SchedulerMessage::Look { reply } => {
                let clients = state.clients.iter().map(|(name, client)| (name, *client));
                let _ = reply.send(state.measures.look(&state.queue, clients));
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

impl SchedulerState {
    fn lane(&mut self, lane: Lane, weight: u32) -> Result<AgentHandle, ActorProcessingErr> {
        if let Some(known) = self.lanes.get(&lane) {
            return Ok(*known);
        }
        let client = match self.clients.get(&lane.client) {
            Some(known) => *known,
            None => {
                let configured = self.configured.iter().find(|client| client.name == lane.client);
                let new = configured.map_or_else(NewClient::default, |client| NewClient {
                    weight: client.weight,
                    tier: if client.contracted { Tier::Contracted } else { Tier::Marketplace },
                    ..NewClient::default()
                });
                let handle = self.queue.add_client(new)?;
                self.clients.insert(lane.client.clone(), handle);
                handle
            }
        };
        let handle = self.queue.add_agent(client, weight)?;
        self.lanes.insert(lane, handle);
        Ok(handle)
    }

    fn enqueue(
        &mut self,
        agent: AgentId,
        lane: AgentHandle,
        reply_to: ActorRef<AgentMessage>,
        jobs: Vec<Job>,
    ) -> Result<(), ActorProcessingErr> {
        let known = self.agents.entry(agent.clone());
        let known = known.or_insert_with(|| Known { actor: reply_to, jobs: BTreeSet::new() });
        let since = self.measures.now();
        for job in jobs {
            let new = NewJob { rank: job.rank, ..NewJob::flat(ESTIMATE) };
            let queued = Queued { job, agent: agent.clone(), since };
            known.jobs.insert(self.queue.enqueue(lane, new, queued, &mut self.events)?);
        }
        Ok(())
    }

    fn settle(&mut self, job: JobHandle, cost: u64, ended: Option<(AttemptKey, ActorRef<AgentMessage>)>) {
        let settled = self.queue.settle(job, Price::flat(cost), &mut self.events).ok();
        if let Some(settled) = &settled {
            self.measures.settled(settled.client, cost);
            self.forget(&settled.payload.agent, job);
        }
        if let Some((key, agent)) = ended {
            let accounts = settled.map(|settled| recorded(settled.accounts));
            let _ = agent.cast(AgentMessage::Ended { key, accounts });
        }
    }

    fn hello(&mut self, agent: &AgentId, reply_to: ActorRef<AgentMessage>, running: &[JobHandle]) {
        if let Some(known) = self.agents.get_mut(agent) {
            known.actor = reply_to;
        }
        self.void(agent, running);
    }

    /// Clears what an earlier life of an agent left: its queued jobs, and the granted ones that never started.
    fn void(&mut self, agent: &AgentId, running: &[JobHandle]) {
        let Some(known) = self.agents.get(agent) else { return };
        let void: Vec<JobHandle> = known.jobs.iter().copied().filter(|job| !running.contains(job)).collect();
        for job in void {
            if self.queue.cancel(job, &mut self.events).is_ok() {
                self.forget(agent, job);
            } else {
                self.settle(job, 1, None);
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

    /// Sends the grants out, those of one agent together.
    fn tell(&mut self) {
        let mut granted: BTreeMap<AgentId, Vec<Granted>> = BTreeMap::new();
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Granted(Grant { job: handle, tier, accounts, .. }) => {
                    let Some(Queued { job, agent, since }) = self.queue.job(handle) else { continue };
                    self.measures.dispatched(tier, *since);
                    let grant = Granted { handle, job: job.clone(), accounts: recorded(accounts) };
                    granted.entry(agent.clone()).or_default().push(grant);
                }
                Event::Parked(client) => tracing::warn!(?client, "a client is parked: its credit is used up"),
                Event::Unparked(client) => tracing::info!(?client, "a client is no longer parked"),
                Event::Stepped { .. } | Event::Rebased { .. } | Event::AgentsRebased { .. } => {}
            }
        }
        for (agent, grants) in granted {
            if let Some(known) = self.agents.get(&agent) {
                // One that is gone gets its jobs voided, which gives these slots back.
                let _ = known.actor.cast(AgentMessage::Granted(grants));
            }
        }
    }
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
