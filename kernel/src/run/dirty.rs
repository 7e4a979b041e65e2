//! The dirty set: nodes that propagation has to look at, in passes of ascending index.
//!
//! Invariant: a node outside of the set has no step to make. Looking only at dirty nodes therefore takes the same steps in the
//! same order as looking at all nodes in every pass, at a cost of the nodes that changed.

/// The nodes of this pass and of the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct DirtySet {
    /// Nodes of this pass, all above `passed`.
    now: BitSet,
    next: BitSet,
    passed: Option<usize>,
    /// Nodes that take part from the next pass on.
    held: BitSet,
    /// Nodes taken since the last change of the plan.
    #[cfg(test)]
    pub(super) looks: usize,
}

impl DirtySet {
    pub(super) fn mark(&mut self, at: usize) {
        if self.passed.is_none_or(|passed| at > passed) && !self.held.contains(at) {
            self.now.insert(at);
        } else {
            self.next.insert(at);
        }
    }

    pub(super) fn mark_all(&mut self, nodes: usize) {
        (0..nodes).for_each(|at| self.mark(at));
    }

    /// Takes the next node; `None` ends the last pass.
    pub(super) fn take(&mut self) -> Option<usize> {
        if self.now.count == 0 {
            std::mem::swap(&mut self.now, &mut self.next);
            self.passed = None;
            self.held = BitSet::default();
        }
        let at = self.now.take_from(self.passed.map_or(0, |passed| passed + 1))?;
        self.passed = Some(at);
        #[cfg(test)]
        {
            self.looks += 1;
        }
        Some(at)
    }

    /// Continues a pass after the node `passed` once the indices changed: every other node is examined in this pass or the
    /// next, the nodes in `added` in the next.
    pub(super) fn resume(&mut self, passed: usize, nodes: usize, added: &[usize]) {
        self.clear();
        self.passed = Some(passed);
        added.iter().for_each(|&at| self.held.insert(at));
        self.mark_all(nodes);
    }

    /// Empties the set before the indices change.
    pub(super) fn clear(&mut self) {
        *self = DirtySet::default();
    }
}

#[derive(Debug, Clone, Default)]
struct BitSet {
    words: Vec<u64>,
    count: usize,
}

impl BitSet {
    fn insert(&mut self, at: usize) {
        let (word, bit) = (at / 64, 1 << (at % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.count += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    fn contains(&self, at: usize) -> bool {
        self.count > 0 && self.words.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// Removes the first index from `from` on.
    fn take_from(&mut self, from: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let first = from / 64;
        let above = |word: usize| if word == first { u64::MAX << (from % 64) } else { u64::MAX };
        let (word, bits) = (first..self.words.len())
            .map(|word| (word, self.words[word] & above(word)))
            .find(|(_, bits)| *bits != 0)?;
        let bit = bits.trailing_zeros() as usize;
        self.words[word] &= !(1 << bit);
        self.count -= 1;
        Some(word * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nodes_are_taken_in_passes_of_ascending_index(marks in prop::collection::vec((0..300usize, any::<bool>()), 0..200)) {
            let (mut dirty, mut now, mut next) = (DirtySet::default(), BTreeSet::new(), BTreeSet::new());
            let mut passed = None;
            for (at, take) in marks {
                dirty.mark(at);
                if passed.is_none_or(|passed| at > passed) { now.insert(at) } else { next.insert(at) };
                if take {
                    if now.is_empty() {
                        (now, next, passed) = (next, BTreeSet::new(), None);
                    }
                    let expected = now.pop_first();
                    passed = expected.or(passed);
                    prop_assert_eq!(dirty.take(), expected);
                }
            }
            let left: Vec<usize> = std::iter::from_fn(|| dirty.take()).collect();
            prop_assert_eq!(left, now.into_iter().chain(next).collect::<Vec<_>>());
        }
    }
}
