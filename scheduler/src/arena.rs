//! A paged generational arena: a value keeps its index until removal, and a reused index gets a new generation.
//!
//! Invariant: an index in the free list is vacant; a retained index is vacant and not in the free list.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Entries of one page. Growth adds pages and moves no full one, so no insertion copies more than one page.
const PAGE_ENTRIES: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 14;

const FIRST: NonZeroU32 = NonZeroU32::MIN;
/// End of the free list.
const END: u32 = u32::MAX;
/// Marks a vacant index that must not be reused: the owner still refers to it, or its generations are used up.
const RETAINED: u32 = u32::MAX - 1;

/// `tag` is a word for the owner's use; it fills bytes that alignment would waste.
enum Entry<T> {
    Vacant { next: u32, generation: NonZeroU32 },
    Occupied { value: T, tag: u32, generation: NonZeroU32 },
}

/// Panics on the index of a vacant entry: indices come from the arena, so a vacant one is a broken invariant.
pub(crate) struct Arena<T> {
    pages: Vec<Vec<Entry<T>>>,
    free: u32,
    occupied: u32,
}

impl<T> Arena<T> {
    pub(crate) fn new() -> Self {
        Self { pages: Vec::new(), free: END, occupied: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.occupied
    }

    pub(crate) fn insert(&mut self, value: T, tag: u32) -> (u32, NonZeroU32) {
        self.occupied += 1;
        if self.free != END {
            let at = self.free;
            let entry = self.entry_mut(at);
            let Entry::Vacant { next, generation } = *entry else {
                unreachable!("the free list holds vacant entries")
            };
            *entry = Entry::Occupied { value, tag, generation };
            self.free = next;
            return (at, generation);
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE_ENTRIES) {
            let first = self.pages.is_empty();
            self.pages.push(if first { Vec::new() } else { Vec::with_capacity(PAGE_ENTRIES) });
        }
        let base = (self.pages.len() - 1) << PAGE_BITS;
        let page = self.pages.last_mut().expect("the branch above added a page");
        page.push(Entry::Occupied { value, tag, generation: FIRST });
        ((base + page.len() - 1) as u32, FIRST)
    }

    /// True if `at` holds the value inserted with `generation`.
    #[inline]
    pub(crate) fn contains(&self, at: u32, generation: NonZeroU32) -> bool {
        self.tag_of(at, generation).is_some()
    }

    /// Tag of the value inserted with `generation`; `None` if `at` no longer holds the value.
    #[inline]
    pub(crate) fn tag_of(&self, at: u32, generation: NonZeroU32) -> Option<u32> {
        match self.entry(at) {
            Some(Entry::Occupied { tag, generation: found, .. }) if *found == generation => Some(*tag),
            _ => None,
        }
    }

    pub(crate) fn is_occupied(&self, at: u32) -> bool {
        matches!(self.entry(at), Some(Entry::Occupied { .. }))
    }

    pub(crate) fn tag(&self, at: u32) -> u32 {
        match self.entry(at) {
            Some(Entry::Occupied { tag, .. }) => *tag,
            _ => unreachable!("tag of a vacant entry"),
        }
    }

    /// Tag and generation of an occupied entry.
    #[inline]
    pub(crate) fn tag_mut(&mut self, at: u32) -> (&mut u32, NonZeroU32) {
        match self.entry_mut(at) {
            Entry::Occupied { tag, generation, .. } => (tag, *generation),
            Entry::Vacant { .. } => unreachable!("tag of a vacant entry"),
        }
    }

    pub(crate) fn generation(&self, at: u32) -> NonZeroU32 {
        match self.entry(at) {
            Some(Entry::Occupied { generation, .. } | Entry::Vacant { generation, .. }) => *generation,
            None => unreachable!("generation of an index that was never given out"),
        }
    }

    pub(crate) fn with_generation(&mut self, at: u32) -> (&mut T, NonZeroU32) {
        match self.entry_mut(at) {
            Entry::Occupied { value, generation, .. } => (value, *generation),
            Entry::Vacant { .. } => unreachable!("index of a vacant entry"),
        }
    }

    /// Removes a value and returns it with its tag. The index is reused, unless its generations are used up.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> (T, u32) {
        let free = self.free;
        let entry = self.entry_mut(at);
        let Entry::Occupied { generation, .. } = *entry else { unreachable!("removal of a vacant entry") };
        let vacant = match generation.checked_add(1) {
            Some(following) => Entry::Vacant { next: free, generation: following },
            None => Entry::Vacant { next: RETAINED, generation },
        };
        let retired = generation == NonZeroU32::MAX;
        let Entry::Occupied { value, tag, .. } = std::mem::replace(entry, vacant) else {
            unreachable!("the entry was occupied above")
        };
        self.free = if retired { free } else { at };
        self.occupied -= 1;
        (value, tag)
    }

    /// As [`Arena::remove`], but the index is not reused before [`Arena::release`].
    pub(crate) fn vacate(&mut self, at: u32) -> (T, u32) {
        let entry = self.entry_mut(at);
        let Entry::Occupied { generation, .. } = *entry else { unreachable!("removal of a vacant entry") };
        let Entry::Occupied { value, tag, .. } =
            std::mem::replace(entry, Entry::Vacant { next: RETAINED, generation })
        else {
            unreachable!("the entry was occupied above")
        };
        self.occupied -= 1;
        (value, tag)
    }

    /// Makes a vacated index available again, unless its generations are used up.
    pub(crate) fn release(&mut self, at: u32) {
        let free = self.free;
        let Entry::Vacant { next, generation } = self.entry_mut(at) else {
            unreachable!("release of an occupied entry")
        };
        if let Some(following) = generation.checked_add(1) {
            *generation = following;
            *next = free;
            self.free = at;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, NonZeroU32, &T)> {
        self.pages.iter().flatten().zip(0..).filter_map(|(entry, at)| match entry {
            Entry::Occupied { value, generation, .. } => Some((at, *generation, value)),
            Entry::Vacant { .. } => None,
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.pages.iter_mut().flatten().zip(0..).filter_map(|(entry, at)| match entry {
            Entry::Occupied { value, .. } => Some((at, value)),
            Entry::Vacant { .. } => None,
        })
    }

    #[inline]
    fn entry(&self, at: u32) -> Option<&Entry<T>> {
        self.pages.get((at >> PAGE_BITS) as usize)?.get(at as usize & (PAGE_ENTRIES - 1))
    }

    #[inline]
    fn entry_mut(&mut self, at: u32) -> &mut Entry<T> {
        &mut self.pages[(at >> PAGE_BITS) as usize][at as usize & (PAGE_ENTRIES - 1)]
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        match self.entry(at) {
            Some(Entry::Occupied { value, .. }) => value,
            _ => unreachable!("index of a vacant entry"),
        }
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.entry_mut(at) {
            Entry::Occupied { value, .. } => value,
            Entry::Vacant { .. } => unreachable!("index of a vacant entry"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_index_has_another_generation() {
        let mut arena = Arena::new();
        let (at, old) = arena.insert('a', 7);
        assert_eq!((arena[at], arena.tag(at), arena.contains(at, old)), ('a', 7, true));
        assert_eq!(arena.remove(at), ('a', 7));
        let (again, new) = arena.insert('b', 0);
        assert_eq!((again, arena.contains(at, old), arena.contains(at, new)), (at, false, true));
    }

    #[test]
    fn a_vacated_index_waits_for_its_release() {
        let mut arena = Arena::new();
        let (at, _) = arena.insert('a', 0);
        arena.vacate(at);
        assert!(!arena.is_occupied(at));
        assert_ne!(arena.insert('b', 0).0, at);
        arena.release(at);
        assert_eq!(arena.insert('c', 0).0, at);
    }

    #[test]
    fn an_index_out_of_generations_is_retired() {
        let mut arena = Arena::new();
        let (at, _) = arena.insert('a', 0);
        arena.pages[0][0] = Entry::Occupied { value: 'a', tag: 0, generation: NonZeroU32::MAX };
        arena.remove(at);
        assert_ne!(arena.insert('b', 0).0, at);
    }

    #[test]
    fn indices_run_on_over_pages() {
        let mut arena = Arena::new();
        let indices: Vec<u32> = (0..3000).map(|n| arena.insert(n, 0).0).collect();
        assert_eq!(indices, (0..3000).collect::<Vec<u32>>());
        assert_eq!(arena.iter().map(|(at, _, value)| (at, *value)).nth(2047), Some((2047, 2047)));
        assert_eq!(arena.len(), 3000);
    }

    #[test]
    fn an_entry_costs_eight_bytes_beyond_an_eight_byte_value() {
        assert_eq!(size_of::<Entry<u64>>(), 16);
    }
}
