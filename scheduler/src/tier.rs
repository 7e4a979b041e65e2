//! The two tiers, and what the marketplace is owed by the contracted one.

use crate::tournament::{Key, Tournament};

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
    order: [Tournament; 2],
    /// Virtual time of each tier.
    pub(crate) vruntime: [i64; 2],
    /// Thousandths of charge: what the marketplace may take before the contracted tier goes on.
    pub(crate) owed: i128,
    guarantee_pm: i16,
}

impl Tiers {
    pub(crate) fn new(guarantee_pm: u16) -> Self {
        Self { order: Default::default(), vruntime: [0; 2], owed: 0, guarantee_pm: guarantee_pm as i16 }
    }

    #[inline]
    pub(crate) fn first(&mut self, tier: Tier) -> Option<u32> {
        self.order[tier as usize].first()
    }

    #[inline]
    pub(crate) fn runnable(&self, tier: Tier) -> u32 {
        self.order[tier as usize].present()
    }

    #[inline]
    pub(crate) fn set(&mut self, tier: Tier, client: u32, key: Key) {
        self.order[tier as usize].set(client, key);
    }

    /// Whether the marketplace is owed a job of this charge.
    #[inline]
    pub(crate) fn owes(&self, charge: u64) -> bool {
        self.guarantee_pm > 0 && self.owed >= i128::from(charge) * i128::from(1000 - self.guarantee_pm)
    }

    /// What a unit of charge adds to what is owed, when one tier is served while the other waits too.
    #[inline]
    pub(crate) fn share_pm(&self, served: Tier) -> i16 {
        match served {
            Tier::Contracted => self.guarantee_pm,
            Tier::Marketplace => self.guarantee_pm - 1000,
        }
    }

    /// An idle marketplace saves nothing up.
    #[inline]
    pub(crate) fn forget_if_idle(&mut self) {
        if self.owed > 0 && self.runnable(Tier::Marketplace) == 0 {
            self.owed = 0;
        }
    }
}
