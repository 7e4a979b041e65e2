//! The tree of runnable clients, from which every dispatch picks.
//!
//! Invariant: a client has at most one entry, under the key in its field `queued_under`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::account::VRUNTIME_MIN;
use crate::config::WARP_MAX;
use crate::tier::Tier;

/// Position of a runnable client: tier, then vruntime − warp, then `seq`. No two clients share a `seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientKey {
    /// The tier in the highest bit; below it, vruntime − warp as the distance from [`EFFECTIVE_MIN`]. A search compares one word
    /// for each entry, and `seq` only for equal words.
    tier_and_vruntime: u64,
    /// Nonzero, so that `Option<ClientKey>` has the size of a key.
    seq: NonZeroU64,
}

/// Least vruntime less the greatest warp.
const EFFECTIVE_MIN: i64 = VRUNTIME_MIN - WARP_MAX as i64;

impl ClientKey {
    /// `effective` is vruntime − warp. `None` for `seq` 0: the client never woke.
    #[inline]
    pub(crate) fn new(tier: Tier, effective: i64, seq: u64) -> Option<Self> {
        let distance = effective.wrapping_sub(EFFECTIVE_MIN) as u64;
        debug_assert!(distance >> 63 == 0, "vruntimes stay between VRUNTIME_MIN and 2^62 - 2^32");
        NonZeroU64::new(seq).map(|seq| Self { tier_and_vruntime: (tier as u64) << 63 | distance, seq })
    }

    /// Before every client of `tier`.
    fn start_of(tier: Tier) -> Self {
        Self { tier_and_vruntime: (tier as u64) << 63, seq: NonZeroU64::MIN }
    }

    fn tier(self) -> usize {
        (self.tier_and_vruntime >> 63) as usize
    }
}

/// The runnable clients in order of dispatch: one ordered map, and beside the map the client with the latest change of key.
#[derive(Default)]
pub(crate) struct ReadyClients {
    tree: BTreeMap<ClientKey, u32>,
    /// The client with the latest change of key; it enters the tree when the key of another client changes. A key changes at dispatch
    /// (the estimate is charged) and again at settlement. When these two follow each other, the tree has one
    /// removal and one insertion instead of two of each.
    moved: Option<(ClientKey, u32)>,
    /// Clients of each tier, `moved` included.
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

    /// Moves `client` between positions; `None` stands for outside.
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
            // a dispatch takes the first client, whose removal needs no search
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
            for (seq, (client, contracted, effective, runnable)) in (1u64..).zip(moves) {
                let tier = if contracted { Tier::Contracted } else { Tier::Marketplace };
                let key = ClientKey::new(tier, effective, seq).filter(|_| runnable);
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
        let key = |tier, effective, seq| ClientKey::new(tier, effective, seq).unwrap();
        let keys = [
            ClientKey::start_of(Tier::Contracted),
            key(Tier::Contracted, EFFECTIVE_MIN, 9),
            key(Tier::Contracted, 0, 3),
            key(Tier::Contracted, 0, u64::MAX),
            key(Tier::Contracted, 1 << 61, 1),
            ClientKey::start_of(Tier::Marketplace),
            key(Tier::Marketplace, EFFECTIVE_MIN, 2),
            key(Tier::Marketplace, -1, 9),
            key(Tier::Marketplace, 1, 1),
        ];
        assert!(keys.is_sorted());
        assert_eq!(ClientKey::new(Tier::Contracted, 0, 0), None);
    }
}
