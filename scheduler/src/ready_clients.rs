//! The tree of runnable clients: the run queue proper.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::account::VRUNTIME_MIN;
use crate::config::WARP_MAX;
use crate::tier::Tier;

/// Position of a runnable client: tier, then vruntime less warp, then `seq`, which no two clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientKey {
    /// The tier in the highest bit, and vruntime less warp as the distance from [`DUE_MIN`] in the others: searches compare
    /// one word, hardly ever two.
    tier_and_due: u64,
    /// Never 0, so that an `Option` of a key takes no more room.
    seq: NonZeroU64,
}

/// Least vruntime less the greatest warp.
const DUE_MIN: i64 = VRUNTIME_MIN - WARP_MAX as i64;

impl ClientKey {
    /// `None` for `seq` 0, which no client that ever woke has.
    #[inline]
    pub(crate) fn new(tier: Tier, due: i64, seq: u64) -> Option<Self> {
        let distance = due.wrapping_sub(DUE_MIN) as u64;
        debug_assert!(distance >> 63 == 0, "vruntimes stay between VRUNTIME_MIN and 2^62 - 2^32");
        NonZeroU64::new(seq).map(|seq| Self { tier_and_due: (tier as u64) << 63 | distance, seq })
    }

    /// Before every client of `tier`.
    fn start_of(tier: Tier) -> Self {
        Self { tier_and_due: (tier as u64) << 63, seq: NonZeroU64::MIN }
    }

    fn tier(self) -> usize {
        (self.tier_and_due >> 63) as usize
    }
}

/// The runnable clients, by who goes first: one ordered map, and beside it the client whose key changed last.
#[derive(Default)]
pub(crate) struct ReadyClients {
    tree: BTreeMap<ClientKey, u32>,
    /// Enters the tree when another key changes. A client's key changes at dispatch (the estimate is charged) and again
    /// at settlement; if the two follow each other, the tree sees one removal and one insertion free_agent of two.
    moved: Option<(ClientKey, u32)>,
    /// Clients of each tier, the moved one included.
    counts: [u32; 2],
}

impl ReadyClients {
    #[inline]
    pub(crate) fn count(&self, tier: Tier) -> u32 {
        self.counts[tier as usize]
    }

    #[inline]
    pub(crate) fn first(&self, tier: Tier) -> Option<u32> {
        if self.count(tier) == 0 {
            return None;
        }
        let first = if tier == Tier::Contracted || self.count(Tier::Contracted) == 0 {
            self.tree.first_key_value()
        } else {
            self.tree.range(ClientKey::start_of(tier)..).next()
        };
        match (first, self.moved) {
            (Some((&key, &client)), Some((moved, _))) if key < moved => Some(client),
            (_, Some((moved, client))) if moved.tier() == tier as usize => Some(client),
            (first, _) => first.map(|(_, &client)| client),
        }
    }

    /// Moves `client` from one position to another; `None` is outside.
    pub(crate) fn reorder(&mut self, client: u32, from: Option<ClientKey>, to: Option<ClientKey>) {
        if let Some(key) = from {
            self.counts[key.tier()] -= 1;
            self.remove(key);
        }
        if let Some(key) = to {
            self.counts[key.tier()] += 1;
            if let Some((moved, client)) = self.moved.replace((key, client)) {
                self.tree.insert(moved, client);
            }
        }
    }

    fn remove(&mut self, key: ClientKey) {
        if self.moved.is_some_and(|(moved, _)| moved == key) {
            self.moved = None;
            return;
        }
        match self.tree.first_entry() {
            // the usual case: who was picked stands first, so no search is needed
            Some(first) if *first.key() == key => {
                first.remove();
            }
            _ => {
                self.tree.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_least_of_an_ordered_set(
            moves in prop::collection::vec((0u32..37, any::<bool>(), -5i64..5, any::<bool>()), 1..300),
        ) {
            let (mut ready, mut set, mut keys) = (ReadyClients::default(), BTreeSet::new(), [None; 37]);
            for (seq, (client, contracted, due, runnable)) in (1u64..).zip(moves) {
                let tier = if contracted { Tier::Contracted } else { Tier::Marketplace };
                let key = ClientKey::new(tier, due, seq).filter(|_| runnable);
                let old = std::mem::replace(&mut keys[client as usize], key);
                old.map(|key| set.remove(&(key, client)));
                set.extend(key.map(|key| (key, client)));
                ready.reorder(client, old, key);
                for tier in Tier::ALL {
                    let mut of_tier = set.iter().filter(|(key, _)| key.tier() == tier as usize);
                    prop_assert_eq!(ready.count(tier) as usize, of_tier.clone().count());
                    prop_assert_eq!(ready.first(tier), of_tier.next().map(|entry| entry.1));
                }
            }
        }
    }

    #[test]
    fn keys_order_by_tier_then_vruntime_then_seq() {
        let key = |tier, due, seq| ClientKey::new(tier, due, seq).unwrap();
        let keys = [
            ClientKey::start_of(Tier::Contracted),
            key(Tier::Contracted, DUE_MIN, 9),
            key(Tier::Contracted, 0, 3),
            key(Tier::Contracted, 0, u64::MAX),
            key(Tier::Contracted, 1 << 61, 1),
            ClientKey::start_of(Tier::Marketplace),
            key(Tier::Marketplace, DUE_MIN, 2),
            key(Tier::Marketplace, -1, 9),
            key(Tier::Marketplace, 1, 1),
        ];
        assert!(keys.is_sorted());
        assert_eq!(ClientKey::new(Tier::Contracted, 0, 0), None);
    }
}
