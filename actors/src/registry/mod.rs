//! The registry: which agents exist, which runs they have to drive, and whether an actor does so now. It alone
//! changes the entry of one.
//!
//! | file | idea |
//! |---|---|
//! | `message` | what it is asked, and what it says |
//! | `client_stream` | what it writes down and reads back: the streams of the clients |
//! | `drive` | which run an agent is to drive, and the actor that does it |
//! | `entry`, `phase` | an agent as it is kept, and the machine that says whether an actor stands behind it |
//! | `line` | agents that wait for a place for their actor |
//! | `unpaid` | runs that wait for credits, and need no actor for that |
//! | `waiting` | requests that wait for an actor |

mod admission_queue;
mod agent_lifecycle;
mod client_stream;
mod credit_wait_queue;
mod drive;
mod entry;
mod pending_requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::id::AgentId;
use ostler_kernel::port::{RunRow, Seq, StreamId};
use ostler_scheduler::AGENT_WEIGHT;
use ractor::{Actor, ActorProcessingErr, ActorRef};

pub(crate) use crate::messages::registry::RegistryMessage;
pub use crate::messages::registry::{AgentRow, RegisterError, ReleaseError};
use admission_queue::Line;
use agent_lifecycle::{Input, Phase};
use credit_wait_queue::Unpaid;
use entry::AgentEntry;
use pending_requests::Waiting;

use crate::services::Services;

pub(crate) struct Registry;

pub(crate) struct RegistryState {
    services: Arc<Services>,
    agents: BTreeMap<AgentId, AgentEntry>,
    /// Those with a name of their own.
    registered: usize,
    /// Last record of each client's stream, which only this actor appends to.
    heads: BTreeMap<StreamId, Seq>,
    /// Requests that wait for their run's actor to be live.
    waiting: Waiting,
    /// Agents that wait for a place.
    line: Line,
    /// Runs that wait for credits.
    unpaid: Unpaid,
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
        let (agents, registered, heads, waiting) = Default::default();
        let (line, unpaid) = Default::default();
        let mut state = RegistryState { services, agents, registered, heads, waiting, line, unpaid };
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
            RegistryMessage::Unheard(key) => state.unheard(&key),
            // All after it in the tree is started again with it.
            RegistryMessage::Undone => return Err("the disk was full, and some records were undone".into()),
            RegistryMessage::Room => state.wake_all(),
            RegistryMessage::Park { row, reason } => state.park_late(row, reason)?,
            RegistryMessage::StandsStill { agent } => state.stands_still(&agent),
            RegistryMessage::Gone { agent, again } => state.gone(&agent, again)?,
            RegistryMessage::GivenUp { agent, reason } => state.give_up(&agent, reason)?,
            RegistryMessage::PoolUp => state.pool_up()?,
            RegistryMessage::PoolGone { agent, pool } => state.pool_gone(&agent, pool),
            RegistryMessage::Ask { agent, run, request, reply } => state.ask(&agent, run, request, reply),
            RegistryMessage::NoPlace { agent, pool, called } => state.no_place(agent, pool, called),
            RegistryMessage::CallNext { pool } => state.call_next(pool),
            RegistryMessage::Credits { client } => state.credits(client),
            RegistryMessage::TakeUpUnpaid { client } => state.take_up_unpaid(client),
            RegistryMessage::Passivate { agent, run, until, unpaid, asked } => {
                state.passivate(&agent, run, (until, unpaid), asked)
            }
            RegistryMessage::Wake { agent, run } => {
                state.take(&agent, Input::Wake { run });
            }
            RegistryMessage::Release { agent, reply } => {
                let _ = reply.send(state.release(&agent));
            }
            RegistryMessage::CancelQueued { agent, run, by, reply } => {
                let _ = reply.send(state.cancel_queued(&agent, run, by));
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
                let found = state.agents.get(&agent).map(|entry| state.row(&agent, entry));
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
    fn entry(&mut self, row: &RunRow) -> &mut AgentEntry {
        let entry = self.agents.entry(row.agent.clone());
        entry.or_insert_with(|| AgentEntry::new(row.client.clone(), AGENT_WEIGHT))
    }

    fn list(&self) -> Vec<AgentRow> {
        self.agents.iter().map(|(agent, entry)| self.row(agent, entry)).collect()
    }

    fn row(&self, agent: &AgentId, entry: &AgentEntry) -> AgentRow {
        AgentRow {
            agent: agent.clone(),
            client: entry.client.clone(),
            weight: entry.weight,
            state: entry.phase().as_str(),
            profile: self.services.profiles.of(agent),
            offer: self.services.market.offer(agent),
            reason: entry.reason.clone(),
            runs_open: entry.runs.len(),
        }
    }

    fn count(&self) -> Vec<(&'static str, usize)> {
        let mut counts = Phase::<()>::WORDS.map(|word| (word, 0));
        for entry in self.agents.values() {
            counts[entry.phase().index()].1 += 1;
        }
        counts.into()
    }
}
