//! The two tiers, and what the marketplace is owed by the contracted one.

use crate::ready_clients::{ClientKey, ReadyClients};

/// Which clients go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Clients with a contract: first, but for what the marketplace is owed.
    Contracted,
    /// Everyone else, with a guaranteed share.
    Marketplace,
}

impl Tier {
    /// Both, in order.
    pub const ALL: [Self; 2] = [Self::Contracted, Self::Marketplace];
}

pub(crate) struct Tiers {
    ready: ReadyClients,
    pub(crate) vruntime: [i64; 2],
    /// Thousandths of charge: what the marketplace may take before the contracted tier goes on.
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

    /// Whether the marketplace is owed a job of this charge.
    #[inline]
    pub(crate) fn owes(&self, charge: u64) -> bool {
        self.guarantee_pm > 0 && self.owed >= i128::from(charge) * i128::from(1000 - self.guarantee_pm)
    }

    /// What a unit of charge adds to what is owed, when one tier is served while the other waits too.
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
