//! Messages to the registry, and its answers.

use std::borrow::Cow;
use std::sync::Arc;

use ostler_kernel::agent::Profile;
use ostler_kernel::evaluation::UnknownDomain;
use ostler_kernel::event::Retraction;
use ostler_kernel::id::{AgentId, ClientId, RunId};
use ostler_kernel::json::JsonError;
use ostler_kernel::market::{MarketStep, Offer};
use ostler_kernel::port::{JournalError, Position, RunRow};
use ostler_kernel::run::Canceller;
use ractor::{ActorRef, RpcReplyPort};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use tokio::time::Instant;

use ostler_kernel::grant::Grant;

use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::messages::agent::{AgentMessage, AskReply, Request};
use crate::messages::client_change::{ClientChange, ClientError};
use crate::messages::grant::GrantError;
use crate::messages::market::{MarketError, OfferRefused};
use crate::messages::retraction::{RetractError, RetractionStep};
use crate::messages::verdict::{EvaluationError, Said};

pub(crate) enum RegistryMessage {
    /// Register an agent.
    Register {
        agent: AgentId,
        client: ClientId,
        weight: Option<u32>,
        profile: Profile,
        reply: RpcReplyPort<Result<Position, RegisterError>>,
    },
    /// Drive an open run.
    Drive(RunRow),
    /// An actor has started and asks for its work.
    Up {
        agent: AgentId,
        actor: ActorRef<AgentMessage>,
    },
    /// A run is closed or suspended: the agent is free for its next one.
    Done {
        agent: AgentId,
        run: RunId,
    },
    /// Suspend a run that its agent cannot continue; the replies wait for the record.
    Suspend {
        agent: AgentId,
        run: RunId,
        reason: String,
        replies: Vec<AskReply>,
    },
    /// An attempt ended while no driver had its run.
    UndeliveredResult(AttemptKey),
    /// Appended records were rolled back: the registry fails on purpose, so that the tree reads everything again.
    RolledBack,
    /// The disk has space again.
    SpaceFound,
    /// Record the suspension of a run that was not recorded for lack of space.
    Park {
        row: RunRow,
        reason: String,
    },
    /// The agent's first run now waits for a person: requests to the runs behind it are refused.
    BlockedOnHuman {
        agent: AgentId,
    },
    /// An actor has ended; `again`: its supervisor restarts it.
    Gone {
        agent: AgentId,
        again: bool,
    },
    /// An actor failed too often: its agent is quarantined.
    GivenUp {
        agent: AgentId,
        reason: String,
    },
    /// Put an agent back into service; the reply is the position of the record.
    Release {
        agent: AgentId,
        reply: RpcReplyPort<Result<Position, ReleaseError>>,
    },
    /// The pool has started, without children.
    PoolUp,
    /// The pool with the number ended before the agent started.
    PoolGone {
        agent: AgentId,
        pool: u64,
    },
    /// The pool with the number is full: the agent waits for a place. `called`: it has waited before.
    NoPlace {
        agent: AgentId,
        pool: u64,
        called: bool,
    },
    /// The next agent in line may try to start in the pool with the number.
    CallNext {
        pool: u64,
    },
    /// A request to a run: forwarded to its actor, which is started first if necessary.
    Ask {
        agent: AgentId,
        run: RunId,
        request: Request,
        reply: AskReply,
    },
    /// A run only waits, for a time, a person or credits (`unpaid`), and needs no actor. `asked`: the requests that the
    /// actor has received.
    Passivate {
        agent: AgentId,
        run: RunId,
        until: Option<Instant>,
        unpaid: bool,
        asked: u64,
    },
    /// A client may have credits again.
    Credits {
        client: ClientId,
    },
    /// Load runs of the client that wait for credits, if it still has some.
    ResumeForCredits {
        client: ClientId,
    },
    /// The deadline of a passive run has come.
    Wake {
        agent: AgentId,
        run: RunId,
    },
    /// Cancel a run. A run behind another of its agent is cancelled and closed at once; the reply is the position of
    /// the record, or `None` if the run is not queued.
    CancelQueued {
        agent: AgentId,
        run: RunId,
        by: Canceller,
        reply: RpcReplyPort<Result<Option<Position>, RunError>>,
    },
    /// Change a client's terms or credits; the reply is the position of the record, if one was needed.
    ChangeClient {
        client: ClientId,
        change: ClientChange,
        reply: RpcReplyPort<Result<Option<Position>, ClientError>>,
    },
    /// Remove a client's terms and credits; the reply is the position of the record.
    RemoveClient {
        client: ClientId,
        reply: RpcReplyPort<Result<Position, ClientError>>,
    },
    /// Record a grant under a new id; the reply is the grant and the position of the record.
    Grant {
        grant: Grant,
        reply: RpcReplyPort<Result<(Grant, Position), GrantError>>,
    },
    /// Revoke a grant; the reply is the grant and the position of the record.
    RevokeGrant {
        id: String,
        by: String,
        reply: RpcReplyPort<Result<(Grant, Position), GrantError>>,
    },
    /// Record a retraction under a new id; the reply is the retraction and the position of the record. `None`: the same results
    /// are withdrawn already, by that retraction.
    Retract {
        retraction: Retraction,
        reply: RpcReplyPort<Result<(Retraction, Option<Position>), RetractError>>,
    },
    /// Record the end of a retraction; the reply is the retraction and the position of the record.
    EndRetraction {
        id: String,
        step: RetractionStep,
        reply: RpcReplyPort<Result<(Retraction, Position), RetractError>>,
    },
    /// Record a verdict; the reply is the position of the record.
    Judge {
        row: RunRow,
        said: Box<Said>,
        reply: RpcReplyPort<Result<Position, EvaluationError>>,
    },
    /// Record an offer; the reply is the position of the record.
    Offer {
        agent: AgentId,
        offer: Box<Offer>,
        reply: RpcReplyPort<Result<Position, OfferRefused>>,
    },
    /// Move a market job to its next stage; the reply is the position of the record.
    Market {
        job: RunId,
        step: Box<MarketStep>,
        reply: RpcReplyPort<Result<Position, MarketError>>,
    },
    List {
        reply: RpcReplyPort<Vec<AgentRow>>,
    },
    Find {
        agent: AgentId,
        reply: RpcReplyPort<Option<AgentRow>>,
    },
    /// Number of agents in each state.
    Count {
        reply: RpcReplyPort<Vec<(&'static str, usize)>>,
    },
}

/// The reason why an agent was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another client has an agent of the name.
    #[error("agent {agent} belongs to client {owner}, not to {client}: choose another name")]
    Taken {
        /// The name.
        agent: AgentId,
        /// The agent's client.
        owner: ClientId,
        /// The requesting client.
        client: ClientId,
    },
    /// The agent has another weight.
    #[error("agent {agent} has the weight {weight}, and a weight never changes: choose another name")]
    Weight {
        /// The name.
        agent: AgentId,
        /// The weight.
        weight: u32,
    },
    /// The agent has another profile.
    #[error("agent {0} has another profile, and a profile never changes: choose another name")]
    Profile(AgentId),
    /// The domain has no weights.
    #[error(transparent)]
    Domain(#[from] UnknownDomain),
    /// Canonical JSON cannot represent the profile.
    #[error("the profile cannot be written down: {0}")]
    Unwritable(#[from] JsonError),
    /// The system has the maximal number of agents.
    #[error("there are {0} agents already, which is the most: retire some")]
    TooMany(usize),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The reason why an agent was not released.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// No agent has the name.
    #[error("there is no agent {0} with a name of its own")]
    Unknown(AgentId),
    /// The agent is in service.
    #[error("agent {0} is in service: only one that is quarantined can be released")]
    InService(AgentId),
    /// The journal refused the record.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The registry is restarting; repeat the request.
    #[error("the system is restarting: try again")]
    Restarting,
}

/// An agent in the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    /// The name.
    pub agent: AgentId,
    /// The client that pays.
    pub client: ClientId,
    /// Weight among the agents of the client.
    pub weight: u32,
    /// `idle` (no actor and no work), `waiting` (for one of a limited number of actors), `starting`, `live`, `stopping` or
    /// `quarantined`.
    pub state: Cow<'static, str>,
    /// The permanent profile.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub profile: Arc<Profile>,
    /// The present offer; without a domain of its own, that of the profile counts. `None`: no offer.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "without_nulls")]
    pub offer: Option<Arc<Offer>>,
    /// Reason of the quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Open runs of the agent.
    pub runs_open: usize,
}

fn is_empty(profile: &Arc<Profile>) -> bool {
    profile.is_empty()
}

/// Serialises an offer without its absent fields. Records hold offers too, in a format that needs every field.
fn without_nulls<S: Serializer>(offer: &Option<Arc<Offer>>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut offer = serde_json::to_value(offer).map_err(S::Error::custom)?;
    if let Some(fields) = offer.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    offer.serialize(serializer)
}
