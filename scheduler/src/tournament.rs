//! The least of many keys, where one key changes at a time.
//!
//! It answers what an ordered map keyed `(vruntime - warp, seq)` would answer to "first", but moving an entry costs one
//! walk from its leaf towards the root, without allocation, where a map pays for a removal and an insertion.

/// Order of entities in a queue: least vruntime (warp taken off) first, then the one that came to it earliest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(i128);

impl Key {
    /// Greater than every key of an entity: this one does not compete.
    pub(crate) const ABSENT: Self = Self(i128::MAX);

    pub(crate) fn new(vruntime: i64, seq: u64) -> Self {
        Self((i128::from(vruntime) << 64) | i128::from(seq))
    }
}

/// A tournament tree over leaves numbered from 0.
#[derive(Default)]
pub(crate) struct Tournament {
    /// By leaf; the length is a power of two, or 0.
    keys: Vec<Key>,
    /// The leaf that wins each node: node 1 is the root, the children of `n` are `2n` and `2n + 1`. There are as many
    /// nodes as leaves, counting node 0, which is none; a child from there on is a leaf.
    winners: Vec<u32>,
    present: u32,
    /// The leaf whose key changed since its matches were last played: several changes of one leaf in a row, as those of a
    /// client whose job is dispatched and settled, cost one walk.
    unplayed: Option<u32>,
}

impl Tournament {
    /// The leaf with the least key.
    #[inline]
    pub(crate) fn first(&mut self) -> Option<u32> {
        if let Some(leaf) = self.unplayed.take() {
            self.replay(leaf);
        }
        let leaf = self.winners.get(1).copied().unwrap_or(0);
        self.keys.get(leaf as usize).is_some_and(|&key| key != Key::ABSENT).then_some(leaf)
    }

    /// How many leaves compete.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// Gives `leaf` a key; [`Key::ABSENT`] takes it out.
    #[inline]
    pub(crate) fn set(&mut self, leaf: u32, key: Key) {
        if leaf as usize >= self.keys.len() {
            if key == Key::ABSENT {
                return;
            }
            self.grow(leaf as usize + 1);
        }
        let old = self.keys[leaf as usize];
        if old == key {
            return;
        }
        if let Some(other) = self.unplayed.replace(leaf)
            && other != leaf
        {
            self.replay(other);
        }
        self.present = self.present + u32::from(old == Key::ABSENT) - u32::from(key == Key::ABSENT);
        self.keys[leaf as usize] = key;
    }

    /// Plays again every match on the way from `leaf` to the root whose outcome may differ.
    fn replay(&mut self, leaf: u32) {
        let (keys, winners) = (self.keys.as_slice(), self.winners.as_mut_slice());
        let (mut best, mut best_key) = (leaf, keys[leaf as usize]);
        let mut rival = leaf ^ 1;
        let mut node = (keys.len() + leaf as usize) / 2;
        while node > 0 {
            let rival_key = keys[rival as usize];
            let beaten = rival_key < best_key;
            best = if beaten { rival } else { best };
            best_key = if beaten { rival_key } else { best_key };
            if winners[node] == best && best != leaf {
                return; // neither the winner nor its key changed, so nothing above does
            }
            winners[node] = best;
            rival = winners[node ^ 1];
            node /= 2;
        }
    }

    fn grow(&mut self, leaves: usize) {
        let leaves = leaves.next_power_of_two();
        self.keys.reserve_exact(leaves - self.keys.len());
        self.keys.resize(leaves, Key::ABSENT);
        self.winners = vec![0; leaves];
        self.unplayed = None;
        for node in (1..leaves).rev() {
            let child = |child: usize| {
                if child < leaves { self.winners[child] } else { (child - leaves) as u32 }
            };
            let (left, right) = (child(2 * node), child(2 * node + 1));
            self.winners[node] =
                if self.keys[right as usize] < self.keys[left as usize] { right } else { left };
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
        fn first_is_the_least_of_an_ordered_set(moves in prop::collection::vec((0u32..37, -5i64..5, any::<bool>()), 1..300)) {
            let (mut tournament, mut set, mut keys) = (Tournament::default(), BTreeSet::new(), [Key::ABSENT; 37]);
            for (seq, (leaf, vruntime, there)) in (0u64..).zip(moves) {
                let key = if there { Key::new(vruntime, seq) } else { Key::ABSENT };
                set.remove(&(keys[leaf as usize], leaf));
                if there {
                    set.insert((key, leaf));
                }
                keys[leaf as usize] = key;
                tournament.set(leaf, key);
                prop_assert_eq!(tournament.first(), set.first().map(|entry| entry.1));
                prop_assert_eq!(tournament.present() as usize, set.len());
            }
        }
    }

    #[test]
    fn keys_order_by_vruntime_then_seq() {
        let mut keys =
            [Key::new(1, 0), Key::new(-1, 9), Key::new(0, u64::MAX), Key::new(0, 3), Key::new(i64::MAX, 1)];
        keys.sort();
        assert!(
            keys == [
                Key::new(-1, 9),
                Key::new(0, 3),
                Key::new(0, u64::MAX),
                Key::new(1, 0),
                Key::new(i64::MAX, 1)
            ]
        );
        assert!(Key::new(i64::MAX, u64::MAX - 1) < Key::ABSENT);
    }
}
