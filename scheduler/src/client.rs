//! A client: who pays, and what it is entitled to.

use std::num::NonZeroU32;

use crate::account::Account;
use crate::agent::Agent;
use crate::agent_order::AgentOrder;
use crate::ready_clients::ClientKey;
use crate::tier::{Tier, Tiers};

/// A client of the queue; it is spent once the client is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
}

/// How soon a client wants to be served once it wakes; its share is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "see `Warp`, which says what each is for")]
pub enum Latency {
    Interactive,
    #[default]
    Normal,
    Batch,
}

/// What a client starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewClient {
    /// Its entitlement, 1 to [`WEIGHT_MAX`](crate::WEIGHT_MAX).
    pub weight: u32,
    /// Which tier it is served in.
    pub tier: Tier,
    /// Most of its jobs that may run at once, 1 or more.
    pub in_flight_max: Option<u32>,
    /// Its credits, 0 to [`BALANCE_MAX`](crate::BALANCE_MAX); `None` is unmetered.
    pub balance: Option<i64>,
    /// How soon it wants to be served.
    pub latency: Latency,
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
        }
    }
}

/// Reputation of a client nobody judged yet; it leaves the weight as it is.
pub(crate) const REPUTATION_START: u16 = 500;
pub(crate) const REPUTATION_MAX: u16 = 1000;

pub(crate) struct Client {
    pub(crate) account: Account,
    pub(crate) warp: i64,
    pub(crate) agents_vruntime: i64,
    pub(crate) charged: i128,
    /// Credits that its running jobs are charged.
    pub(crate) held: u64,
    pub(crate) balance: Option<i64>,
    /// Its number in order of creation.
    pub(crate) ordinal: u64,
    pub(crate) base_weight: u32,
    pub(crate) in_flight: u32,
    pub(crate) in_flight_max: u32,
    pub(crate) reputation: u16,
    pub(crate) tier: Tier,
    pub(crate) parked: bool,
    pub(crate) first_agent: Option<u32>,
    /// Which of these goes, while the balance does not pay for the first job of who would.
    pub(crate) free_agent: Option<u32>,
    /// Places of its agents, in order of creation.
    pub(crate) agents: Vec<u32>,
    /// `None` while it has at most one agent, which needs no order.
    pub(crate) agent_order: Option<Box<AgentOrder>>,
    /// Its key in the tree of runnable clients, while it stands there.
    pub(crate) queued_under: Option<ClientKey>,
}

impl Client {
    pub(crate) fn new(new: &NewClient, warp: i64, ordinal: u64) -> Self {
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
            first_agent: None,
            free_agent: None,
            agents: Vec::new(),
            agent_order: None,
            queued_under: None,
        }
    }

    /// What it is ordered by, before ties are broken.
    pub(crate) fn effective_vruntime(&self) -> i64 {
        self.account.vruntime - self.warp
    }

    /// Its place in the tree of runnable clients; `None` unless it is runnable.
    fn key(&self) -> Option<ClientKey> {
        ClientKey::new(self.tier, self.effective_vruntime(), self.account.seq).filter(|_| self.account.runnable)
    }

    /// Moves the client, stored at `at`, to its present place in the tree of runnable clients.
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

    /// Moves `agent`, stored at `at` and one of this client's, to its present position among them.
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
