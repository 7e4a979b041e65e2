//! A client: pays for jobs, and has a weight, a tier and a cap.

use std::num::NonZeroU32;

use crate::account::Account;
use crate::agent::Agent;
use crate::agent_order::AgentOrder;
use crate::bucket::BucketHandle;
use crate::config::BucketConfig;
use crate::ready_clients::ClientKey;
use crate::tier::{Tier, Tiers};

/// Handle of a client; invalid once the client is removed, and never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
}

/// Latency class: a head start after waking, with the same share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "documented at `Warp`")]
pub enum Latency {
    Interactive,
    #[default]
    Normal,
    Batch,
}

/// Settings of a client at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewClient {
    /// Entitlement relative to other clients, 1 to [`WEIGHT_MAX`](crate::WEIGHT_MAX).
    pub weight: u32,
    /// The tier that serves the client.
    pub tier: Tier,
    /// Maximum number of running jobs, 1 or more; `None` is no cap.
    pub in_flight_max: Option<u32>,
    /// Credits, 0 to [`BALANCE_MAX`](crate::BALANCE_MAX); `None` is unmetered.
    pub balance: Option<i64>,
    /// Selects the warp.
    pub latency: Latency,
    /// Bucket of the tokens of all jobs with a model; `None`: no limit.
    pub tokens: Option<BucketConfig>,
}

impl Default for NewClient {
    /// Weight 100 in the marketplace, uncapped, unmetered.
    fn default() -> Self {
        Self {
            weight: 100,
            tier: Tier::Marketplace,
            in_flight_max: None,
            balance: None,
            latency: Latency::Normal,
            tokens: None,
        }
    }
}

/// Reputation of a new client; the weight equals the base weight.
pub(crate) const REPUTATION_START: u16 = 500;
pub(crate) const REPUTATION_MAX: u16 = 1000;

pub(crate) struct Client {
    pub(crate) account: Account,
    pub(crate) warp: i64,
    pub(crate) agents_vruntime: i64,
    pub(crate) charged: i128,
    /// Credits charged for running jobs.
    pub(crate) held: u64,
    pub(crate) balance: Option<i64>,
    /// Position in order of creation.
    pub(crate) ordinal: u64,
    pub(crate) base_weight: u32,
    pub(crate) in_flight: u32,
    pub(crate) in_flight_max: u32,
    pub(crate) reputation: u16,
    pub(crate) tier: Tier,
    pub(crate) parked: bool,
    pub(crate) tokens: Option<BucketHandle>,
    pub(crate) first_agent: Option<u32>,
    /// Agent served while the client is parked: the first with a first job without credits.
    pub(crate) free_agent: Option<u32>,
    /// Indices of the client's agents, in order of creation.
    pub(crate) agents: Vec<u32>,
    /// `None` for a client with at most one agent.
    pub(crate) agent_order: Option<Box<AgentOrder>>,
    /// Key in the tree of runnable clients, while the client stands there.
    pub(crate) queued_under: Option<ClientKey>,
}

impl Client {
    pub(crate) fn new(new: &NewClient, tokens: Option<BucketHandle>, warp: i64, ordinal: u64) -> Self {
        Self {
            account: Account::new(new.weight),
            warp,
            agents_vruntime: 0,
            charged: 0,
            held: 0,
            balance: new.balance,
            ordinal,
            base_weight: new.weight,
            in_flight: 0,
            in_flight_max: new.in_flight_max.unwrap_or(u32::MAX),
            reputation: REPUTATION_START,
            tier: new.tier,
            parked: false,
            tokens,
            first_agent: None,
            free_agent: None,
            agents: Vec::new(),
            agent_order: None,
            queued_under: None,
        }
    }

    /// vruntime − warp, the key among clients of a tier.
    pub(crate) fn effective_vruntime(&self) -> i64 {
        self.account.vruntime - self.warp
    }

    /// `None` unless the client is runnable.
    fn key(&self) -> Option<ClientKey> {
        ClientKey::new(self.tier, self.effective_vruntime(), self.account.seq)
            .filter(|_| self.account.runnable)
    }

    /// Moves the client, stored at `at`, to the position of its present key in the tree of runnable clients.
    #[inline]
    pub(crate) fn requeue(&mut self, at: u32, tiers: &mut Tiers) {
        let key = self.key();
        if key != self.queued_under {
            tiers.reorder(at, std::mem::replace(&mut self.queued_under, key), key);
        }
    }

    pub(crate) fn next_agent(&self) -> Option<u32> {
        self.free_agent.or(self.first_agent)
    }

    /// Moves `agent`, an agent of this client stored at `at`, to the position of its present key.
    #[inline]
    pub(crate) fn reorder(&mut self, at: u32, agent: &mut Agent, is_free: bool) {
        if let Some(order) = &mut self.agent_order {
            order.place(at, agent, is_free);
            self.first_agent = order.first();
        } else {
            agent.is_free = is_free;
            self.first_agent = agent.account.runnable.then_some(at);
        }
    }
}
