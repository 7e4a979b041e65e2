//! Adjacency lists in compressed sparse row form: many short lists in two allocations.

use std::ops::Index;

/// Lists by index, written once in order and then read.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedLists<T> {
    /// End of each list in `items`; the start is the end of the list before.
    ends: Vec<usize>,
    items: Vec<T>,
}

impl<T> PackedLists<T> {
    /// Creates an empty collection with room for `lists` lists and `items` items in all.
    pub(super) fn with_capacity(lists: usize, items: usize) -> PackedLists<T> {
        PackedLists { ends: Vec::with_capacity(lists), items: Vec::with_capacity(items) }
    }

    pub(super) fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        self.ends.push(self.items.len());
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the collection has no list.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lists in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|at| &self[at])
    }

    /// The items of all lists in order.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T: Copy> PackedLists<T> {
    /// Groups items by list number with a counting sort; items of one list keep their order.
    pub(super) fn grouped(lists: usize, items: impl Iterator<Item = (usize, T)> + Clone) -> PackedLists<T> {
        let mut ends = vec![0; lists];
        items.clone().for_each(|(list, _)| ends[list] += 1);
        let mut count = 0;
        for end in &mut ends {
            // Holds the start of the list until the items are placed.
            count += std::mem::replace(end, count);
        }
        let Some((_, any)) = items.clone().next() else { return PackedLists { ends, items: Vec::new() } };
        let mut placed = vec![any; count];
        for (list, item) in items {
            placed[ends[list]] = item;
            ends[list] += 1;
        }
        PackedLists { ends, items: placed }
    }
}

impl<T: Copy> PackedLists<(usize, T)> {
    /// Reverses every edge: lists of sources become lists of consumers, ascending.
    pub(super) fn transposed(&self) -> PackedLists<(usize, T)> {
        let edges = self.iter().enumerate().flat_map(|(at, list)| list.iter().map(move |edge| (at, edge)));
        PackedLists::grouped(self.len(), edges.map(|(at, &(other, what))| (other, (at, what))))
    }
}

impl<T> Default for PackedLists<T> {
    fn default() -> PackedLists<T> {
        PackedLists { ends: Vec::new(), items: Vec::new() }
    }
}

impl<T> Index<usize> for PackedLists<T> {
    type Output = [T];

    fn index(&self, at: usize) -> &[T] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[begin..self.ends[at]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lists: &PackedLists<char>, expected: &[&str]) {
        let found: Vec<String> = lists.iter().map(|list| list.iter().collect()).collect();
        assert_eq!(found, expected);
        assert_eq!(lists.items().iter().collect::<String>(), expected.concat());
    }

    #[test]
    fn lists_are_what_was_pushed() {
        let mut lists = PackedLists::default();
        check(&lists, &[]);
        for list in ["", "ab", "", "c", ""] {
            lists.push(list.chars());
        }
        check(&lists, &["", "ab", "", "c", ""]);
    }

    #[test]
    fn items_are_grouped_in_their_order() {
        let items = [(3, 'a'), (1, 'b'), (3, 'c'), (0, 'd'), (3, 'e')];
        check(&PackedLists::grouped(5, items.into_iter()), &["d", "b", "", "ace", ""]);
        check(&PackedLists::grouped(2, std::iter::empty()), &["", ""]);
        check(&PackedLists::grouped(0, std::iter::empty()), &[]);
    }
}
