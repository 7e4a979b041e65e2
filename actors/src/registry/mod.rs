//! The registry: which agents exist, which runs each has to drive, and whether an actor drives them now. Only the registry changes
//! the entry of an agent and appends to the streams of clients.
//!
//! | file | idea |
//! |---|---|
//! | `client_stream` | the streams of the clients: appended here, and read when the registry starts |
//! | `entry`, `agent_lifecycle` | an agent, and the state machine of its actor |
//! | `drive` | which run an agent drives; requests to runs |
//! | `grants` | records grants: approvals that operators give in advance |
//! | `failures` | actors that end, quarantined agents, runs that are suspended for that |
//! | `admission`, `admission_queue` | starts actors; agents that wait for a place |
//! | `credit_wait`, `credit_wait_queue` | resumes runs whose client has credits again; runs that wait for credits |
//! | `pending_requests` | requests that wait for an actor |

mod admission;
mod admission_queue;
mod agent_lifecycle;
mod client_stream;
mod credit_wait;
mod credit_wait_queue;
mod drive;
mod entry;
mod failures;
mod grants;
mod pending_requests;
mod retractions;

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::id::AgentId;
use ostler_kernel::port::{RunRow, Seq, StreamId};
use ostler_scheduler::AGENT_WEIGHT;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::messages::agent::AgentMessage;
use crate::messages::registry::{AgentRow, RegistryMessage};
use crate::run::services::RunServices;
use admission_queue::AdmissionQueue;
use agent_lifecycle::{Input, Phase};
use credit_wait_queue::CreditWaitQueue;
use entry::AgentEntry;
use pending_requests::PendingRequests;

pub(crate) struct Registry;

pub(crate) struct RegistryState {
    services: Arc<RunServices>,
    agents: BTreeMap<AgentId, AgentEntry>,
    registered: usize,
    /// Last record of each client's stream, to which only the actor appends.
    heads: BTreeMap<StreamId, Seq>,
    waiting: PendingRequests,
    line: AdmissionQueue,
    unpaid: CreditWaitQueue,
}

impl Actor for Registry {
    type Msg = RegistryMessage;
    type State = RegistryState;
    type Arguments = Arc<RunServices>;

    async fn pre_start(
        &self,
        _: ActorRef<RegistryMessage>,
        services: Arc<RunServices>,
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
        state.services.journal.status.faults.inject_panic("registry");
        match message {
            RegistryMessage::Register { agent, client, weight, profile, reply } => {
                let _ = reply.send(state.register(agent, client, weight, profile));
            }
            RegistryMessage::Drive(row) => state.drive(row)?,
            RegistryMessage::Up { agent, actor } => state.up(&agent, actor),
            RegistryMessage::Done { agent, run } => state.done(&agent, run),
            RegistryMessage::Suspend { agent, run, reason, replies } => {
                state.suspend(&agent, run, reason, replies)?;
            }
            RegistryMessage::UndeliveredResult(key) => state.undelivered_result(&key),
            // Everything after the registry in the tree restarts with it.
            RegistryMessage::RolledBack => {
                return Err("the disk was full, and some records were undone".into());
            }
            RegistryMessage::SpaceFound => state.wake_all(),
            RegistryMessage::Park { row, reason } => state.park_late(row, reason)?,
            RegistryMessage::BlockedOnHuman { agent } => state.blocked_on_human(&agent),
            RegistryMessage::Gone { agent, again } => state.gone(&agent, again)?,
            RegistryMessage::GivenUp { agent, reason } => state.give_up(&agent, reason)?,
            RegistryMessage::PoolUp => state.pool_up()?,
            RegistryMessage::PoolGone { agent, pool } => state.pool_gone(&agent, pool),
            RegistryMessage::Ask { agent, run, request, reply } => state.ask(&agent, run, request, reply),
            RegistryMessage::NoPlace { agent, pool, called } => state.no_place(agent, pool, called),
            RegistryMessage::CallNext { pool } => state.call_next(pool),
            RegistryMessage::Credits { client } => state.credits(client),
            RegistryMessage::ResumeForCredits { client } => state.resume_for_credits(client),
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
            RegistryMessage::RemoveClient { client, reply } => {
                let _ = reply.send(state.remove_client(&client));
            }
            RegistryMessage::Grant { grant, reply } => {
                let _ = reply.send(state.grant(grant));
            }
            RegistryMessage::RevokeGrant { id, by, reply } => {
                let _ = reply.send(state.revoke_grant(id, by));
            }
            RegistryMessage::Retract { retraction, reply } => {
                let _ = reply.send(state.retract(retraction));
            }
            RegistryMessage::EndRetraction { id, step, reply } => {
                let _ = reply.send(state.end_retraction(id, step));
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
                let _ = reply.send(state.find(&agent));
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

    fn up(&mut self, agent: &AgentId, actor: ActorRef<AgentMessage>) {
        self.services.measures.tell(Telemetry::AgentStarted, Some(agent), None);
        self.take(agent, Input::Up(actor));
    }

    fn find(&self, agent: &AgentId) -> Option<AgentRow> {
        self.agents.get(agent).map(|entry| self.row(agent, entry))
    }

    fn list(&self) -> Vec<AgentRow> {
        self.agents.iter().map(|(agent, entry)| self.row(agent, entry)).collect()
    }

    fn row(&self, agent: &AgentId, entry: &AgentEntry) -> AgentRow {
        AgentRow {
            agent: agent.clone(),
            client: entry.client.clone(),
            weight: entry.weight,
            state: entry.phase().as_str().into(),
            profile: self.services.evaluation.profiles.of(agent),
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
