//! The scheduler: owns the run queue, gives out slots, settles what attempts cost. Its actor keeps the queue open; who
//! needs a slot or has one to give back comes to the queue without a message ([`Scheduling`]).

mod handle;
mod slot_allocator;
mod tenants;

use std::sync::Arc;

use ostler_kernel::event::Accounts;
use ostler_kernel::id::{AgentId, ClientId, NodeId, RunId};
use ostler_scheduler::{JobHandle, Price};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::services::Services;
pub(crate) use handle::Scheduling;

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
    pub(crate) life: u64,
    job: JobHandle,
    /// What was charged for it.
    pub(crate) estimate: Price,
}

/// A slot for a job, its estimate charged.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub(crate) ticket: Ticket,
    pub(crate) job: Job,
    pub(crate) accounts: Accounts,
}

pub(crate) enum SchedulerMessage {
    /// The queue cannot be relied on any more, for this reason.
    Broken(String),
}

pub(crate) struct SchedulerArguments {
    pub(crate) slots: u32,
    pub(crate) services: Arc<Services>,
}

pub(crate) struct Scheduler;

/// For as long as this is there, the queue is open, unless another life has opened it meanwhile: a supervisor may start that before
/// this is dropped.
pub(crate) struct Open {
    services: Arc<Services>,
    life: u64,
}

impl Actor for Scheduler {
    type Msg = SchedulerMessage;
    type State = Open;
    type Arguments = SchedulerArguments;

    async fn pre_start(
        &self,
        me: ActorRef<SchedulerMessage>,
        SchedulerArguments { slots, services }: SchedulerArguments,
    ) -> Result<Open, ActorProcessingErr> {
        // Should the queue break as soon as it is open, it is this life that hears of it.
        services.links.scheduler.point_to(me);
        let life = services.scheduling.open(&services, slots)?;
        Ok(Open { services, life })
    }

    async fn handle(
        &self,
        _: ActorRef<SchedulerMessage>,
        SchedulerMessage::Broken(why): SchedulerMessage,
        _: &mut Open,
    ) -> Result<(), ActorProcessingErr> {
        Err(why.into())
    }
}

impl Drop for Open {
    /// However it ends, what is owed to whom outlives it.
    fn drop(&mut self) {
        self.services.scheduling.close(&self.services, self.life);
    }
}
