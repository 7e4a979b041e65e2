//! What the registry is asked, and what it says.

use std::sync::Arc;

use ostler_kernel::agent::Profile;
use ostler_kernel::evaluation::UnknownDomain;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::json::JsonError;
use ostler_kernel::market::{MarketStep, Offer};
use ostler_kernel::port::{JournalError, Position, RunRow};
use ostler_kernel::run::Canceller;
use ractor::{ActorRef, RpcReplyPort};
use tokio::time::Instant;

use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::messages::agent::{AgentMessage, AskReply, Request};
use crate::messages::client_change::{ClientChange, ClientError};
use crate::messages::market::{MarketError, OfferRefused};
use crate::messages::verdict::{EvaluationError, Said};

pub(crate) enum RegistryMessage {
    /// An agent is to exist from here on.
    Register {
        agent: AgentId,
        client: ClientId,
        weight: Option<u32>,
        profile: Profile,
        reply: RpcReplyPort<Result<Position, RegisterError>>,
    },
    /// A run is open and this process is to drive it.
    Drive(RunRow),
    /// An actor is up and wants to know its work.
    Up { agent: AgentId, actor: ActorRef<AgentMessage> },
    /// A run is over, or set aside: the agent is free for its next one.
    Done { agent: AgentId, run: RunId },
    /// A run that its agent does not go on with: it is set aside, and those who wanted that hear when it is durable.
    SetAside { agent: AgentId, run: RunId, reason: String, replies: Vec<AskReply> },
    /// An attempt ended whose run nobody drove just now.
    UndeliveredResult(AttemptKey),
    /// Some of what was ordered was undone: everything is read again.
    Undone,
    /// There is room on the disk again.
    Room,
    /// A run that is on no agent's list is to be set aside, for which there was no room before.
    Park { row: RunRow, reason: String },
    /// The first run of an agent has come to wait for a person: what was asked about those behind it is refused.
    StandsStill { agent: AgentId },
    /// An actor is gone; `again`: its supervisor starts it once more by itself.
    Gone { agent: AgentId, again: bool },
    /// An actor failed too often: its agent is taken out of service.
    GivenUp { agent: AgentId, reason: String },
    /// An agent that is out of service is to be put back; the answer is where that is recorded.
    Release { agent: AgentId, reply: RpcReplyPort<Result<Position, ReleaseError>> },
    /// The pool is up, empty.
    PoolUp,
    /// The pool of this number ended before the agent was up.
    PoolGone { agent: AgentId, pool: u64 },
    /// The pool of this number has as many actors as it may have: the agent waits for a place. `called`: it had waited for one
    /// before.
    NoPlace { agent: AgentId, pool: u64, called: bool },
    /// The next one that waits for a place in the pool of this number is to try.
    CallNext { pool: u64 },
    /// Something is asked for about a run: passed on to its actor, which is brought up first if need be.
    Ask { agent: AgentId, run: RunId, request: Request, reply: AskReply },
    /// A run waits for a time, for a person or, `unpaid`, for credits, and needs no actor until then. `asked`: the requests that its
    /// actor has had.
    Passivate { agent: AgentId, run: RunId, until: Option<Instant>, unpaid: bool, asked: u64 },
    /// A client may have credits to spend again.
    Credits { client: ClientId },
    /// Those of its runs that are still without an actor may be taken up, if it has credits still.
    TakeUpUnpaid { client: ClientId },
    /// The time has come that a passive run waited for.
    Wake { agent: AgentId, run: RunId },
    /// A run is to be cancelled. If it waits behind another run of its agent, it is cancelled and closed here and
    /// now; the answer is where that is recorded, or `None` if it does not wait.
    CancelQueued {
        agent: AgentId,
        run: RunId,
        by: Canceller,
        reply: RpcReplyPort<Result<Option<Position>, RunError>>,
    },
    /// The terms of a client are to change, or its credits; the answer is where that is recorded, if there was anything
    /// to record.
    ChangeClient {
        client: ClientId,
        change: ClientChange,
        reply: RpcReplyPort<Result<Option<Position>, ClientError>>,
    },
    /// A person says how good a run of this client is that is over; the answer is where that is recorded.
    Judge { row: RunRow, said: Box<Said>, reply: RpcReplyPort<Result<Position, EvaluationError>> },
    /// What an agent offers from here on; the answer is where that is recorded.
    Offer { agent: AgentId, offer: Box<Offer>, reply: RpcReplyPort<Result<Position, OfferRefused>> },
    /// A job of the market gets on by a step; the answer is where that is recorded.
    Market { job: RunId, step: Box<MarketStep>, reply: RpcReplyPort<Result<Position, MarketError>> },
    /// All agents.
    List { reply: RpcReplyPort<Vec<AgentRow>> },
    /// The agent of this name.
    Find { agent: AgentId, reply: RpcReplyPort<Option<AgentRow>> },
    /// How many agents are in each state?
    Count { reply: RpcReplyPort<Vec<(&'static str, usize)>> },
}

/// Why an agent could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another client has an agent of this name.
    #[error("agent {agent} belongs to client {owner}, not to {client}: choose another name")]
    Taken {
        /// The name.
        agent: AgentId,
        /// Whose it is.
        owner: ClientId,
        /// Who asked.
        client: ClientId,
    },
    /// It has another weight.
    #[error("agent {agent} has the weight {weight}, and a weight never changes: choose another name")]
    Weight {
        /// The name.
        agent: AgentId,
        /// The weight that it has.
        weight: u32,
    },
    /// It says something else of itself.
    #[error("agent {0} has another profile, and a profile never changes: choose another name")]
    Profile(AgentId),
    /// Nobody set weights for its domain.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// What it says of itself cannot be written down.
    #[error("the profile cannot be written down: {0}")]
    Unwritable(#[from] JsonError),
    /// There are as many agents as there may be.
    #[error("there are {0} agents already, which is the most: retire some")]
    TooMany(usize),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why an agent was not put back into service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// There is no agent of this name.
    #[error("there is no agent {0} with a name of its own")]
    Unknown(AgentId),
    /// It never left.
    #[error("agent {0} is in service: only one that is quarantined can be released")]
    InService(AgentId),
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is being restarted.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// One line of the table of agents.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct AgentRow {
    /// Its name.
    pub agent: AgentId,
    /// Who pays.
    pub client: ClientId,
    /// Its weight among the agents of its client.
    pub weight: u32,
    /// `idle` (it has no actor, as nothing of it goes on), `starting`, `live`, `stopping` or `quarantined`.
    pub state: &'static str,
    /// What it said of itself when it was spawned, which never changes.
    pub profile: Arc<Profile>,
    /// What it offers now: without a domain, that of its profile counts; `None`: nothing.
    pub offer: Option<Arc<Offer>>,
    /// Why it is quarantined, if it is.
    pub reason: Option<String>,
    /// Runs it has to drive.
    pub runs_open: usize,
}
