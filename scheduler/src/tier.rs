//! The two tiers and the account of the guaranteed share.
//!
//! `owed` is a deficit counter. While both tiers wait, a unit of charge served to the contracted tier adds `g` and one served to
//! the marketplace adds `g − 1` (in thousandths, `g` the guaranteed share). The marketplace is served when `owed` covers `1 − g` for each unit of
//! its next job: that pick returns the counter to 0 or more, so the marketplace receives at least the share `g` of all charge (T2).

use crate::ready_clients::{ClientKey, ReadyClients};

/// Service class of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Clients with a contract, served first except for the guaranteed share of the marketplace.
    Contracted,
    /// Clients without a contract, with a guaranteed share.
    Marketplace,
}

impl Tier {
    /// Both tiers, in order of service.
    pub const ALL: [Self; 2] = [Self::Contracted, Self::Marketplace];
}

pub(crate) struct Tiers {
    ready: ReadyClients,
    pub(crate) vruntime: [i64; 2],
    /// Amount owed to the marketplace in thousandths of charge; negative if the marketplace is ahead.
    pub(crate) owed: i128,
    guarantee_pm: i16,
}

impl Tiers {
    pub(crate) fn new(guarantee_pm: u16) -> Self {
        Self { ready: ReadyClients::default(), vruntime: [0; 2], owed: 0, guarantee_pm: guarantee_pm as i16 }
    }

    #[inline]
    pub(crate) fn first(&self, tier: Tier) -> Option<u32> {
        self.ready.first(tier)
    }

    #[inline]
    pub(crate) fn runnable(&self, tier: Tier) -> u32 {
        self.ready.count(tier)
    }

    #[inline]
    pub(crate) fn reorder(&mut self, client: u32, from: Option<ClientKey>, to: Option<ClientKey>) {
        self.ready.reorder(client, from, to);
    }

    /// True if the owed amount covers a marketplace job of this charge.
    #[inline]
    pub(crate) fn owes(&self, charge: u64) -> bool {
        self.guarantee_pm > 0 && self.owed >= i128::from(charge) * i128::from(1000 - self.guarantee_pm)
    }

    /// Thousandths that a unit of charge adds to `owed` if `served` is served while the other tier waits.
    #[inline]
    pub(crate) fn owed_pm(&self, served: Tier) -> i16 {
        match served {
            Tier::Contracted => self.guarantee_pm,
            Tier::Marketplace => self.guarantee_pm - 1000,
        }
    }

    #[inline]
    pub(crate) fn reset_owed_if_idle(&mut self) {
        if self.owed > 0 && self.runnable(Tier::Marketplace) == 0 {
            self.owed = 0;
        }
    }
}
