//! A client: who pays, and what it is entitled to.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::account::Account;
use crate::agent::Agent;
use crate::tier::Tier;
use crate::tournament::{Key, Tournament};

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
/// Best reputation.
pub(crate) const REPUTATION_MAX: u16 = 1000;

pub(crate) struct Client {
    pub(crate) account: Account,
    pub(crate) warp: i64,
    /// Virtual time of the queue of its agents.
    pub(crate) agents_vruntime: i64,
    pub(crate) charged: i128,
    /// Credits that its running jobs are charged.
    pub(crate) held: u64,
    pub(crate) balance: Option<i64>,
    /// Its number in order of creation.
    pub(crate) birth: u64,
    pub(crate) base_weight: u32,
    pub(crate) in_flight: u32,
    pub(crate) in_flight_max: u32,
    pub(crate) reputation: u16,
    pub(crate) tier: Tier,
    pub(crate) parked: bool,
    /// Its runnable agent that goes first.
    pub(crate) first_agent: Option<u32>,
    /// Its runnable agents whose first job costs no credits, by who goes first; kept while it has a balance.
    pub(crate) free_agents: BTreeSet<(Key, u32)>,
    /// Which of these goes, while the balance does not pay for the first job of who would.
    pub(crate) instead: Option<u32>,
    /// Places of its agents, in order of creation.
    pub(crate) agents: Vec<u32>,
    /// Who of them goes first; there is none while there is at most one.
    pub(crate) contest: Option<Box<Tournament>>,
}

impl Client {
    pub(crate) fn new(new: &NewClient, warp: i64, birth: u64) -> Self {
        Self {
            account: Account::new(new.weight),
            warp,
            agents_vruntime: 0,
            charged: 0,
            held: 0,
            balance: new.balance,
            birth,
            base_weight: new.weight,
            in_flight: 0,
            in_flight_max: new.in_flight_max.unwrap_or(u32::MAX),
            reputation: REPUTATION_START,
            tier: new.tier,
            parked: false,
            first_agent: None,
            free_agents: BTreeSet::new(),
            instead: None,
            agents: Vec::new(),
            contest: None,
        }
    }

    /// What it is ordered by, before ties are broken.
    pub(crate) fn due(&self) -> i64 {
        self.account.vruntime - self.warp
    }

    /// Its place in its tier.
    pub(crate) fn key(&self) -> Key {
        if self.account.runnable { Key::new(self.due(), self.account.seq) } else { Key::ABSENT }
    }

    /// The agent whose first job is granted next.
    pub(crate) fn next_agent(&self) -> Option<u32> {
        self.instead.or(self.first_agent)
    }

    /// Finds out who goes first after `agent` at `at`, one of its own, changed.
    #[inline]
    pub(crate) fn place(&mut self, at: u32, agent: &Agent) {
        self.first_agent = match &mut self.contest {
            Some(contest) => {
                contest.set(agent.number, agent.key());
                contest.first().map(|number| self.agents[number as usize])
            }
            None => agent.account.runnable.then_some(at),
        };
    }
}
