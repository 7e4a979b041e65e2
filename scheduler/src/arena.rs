//! Storage by place: values keep their index until they are removed, and an index used again gets a new generation.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Entries of one page; a page is never moved once it is full-sized, so growth copies at most one page.
const PAGE_ENTRIES: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 14;

const FIRST: NonZeroU32 = NonZeroU32::MIN;
const END: u32 = u32::MAX;
/// A place that is empty, but that something still points at: not in the list of free places.
const RETAINED: u32 = u32::MAX - 1;

/// `tag` is four bytes of the owner's own beside the value: they fill what alignment would otherwise waste.
enum Entry<T> {
    Vacant { next: u32, generation: NonZeroU32 },
    Occupied { value: T, tag: u32, generation: NonZeroU32 },
}

/// A paged arena. Indices come from the arena itself, so indexing one that is not occupied is a broken invariant.
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
                unreachable!("the free list contains vacant places")
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
        let page = self.pages.last_mut().expect("a page was just made sure of");
        page.push(Entry::Occupied { value, tag, generation: FIRST });
        ((base + page.len() - 1) as u32, FIRST)
    }

    /// Whether `at` contains the value that was inserted with `generation`.
    #[inline]
    pub(crate) fn contains(&self, at: u32, generation: NonZeroU32) -> bool {
        self.tag_of(at, generation).is_some()
    }

    /// The tag of the value that was inserted with `generation`, if `at` contains it.
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
            _ => unreachable!("tag of a vacant place"),
        }
    }

    /// The tag of a occupied place, and its generation.
    #[inline]
    pub(crate) fn tag_mut(&mut self, at: u32) -> (&mut u32, NonZeroU32) {
        match self.entry_mut(at) {
            Entry::Occupied { tag, generation, .. } => (tag, *generation),
            Entry::Vacant { .. } => unreachable!("tag of a vacant place"),
        }
    }

    pub(crate) fn generation(&self, at: u32) -> NonZeroU32 {
        match self.entry(at) {
            Some(Entry::Occupied { generation, .. } | Entry::Vacant { generation, .. }) => *generation,
            None => unreachable!("generation of a place that never was"),
        }
    }

    pub(crate) fn with_generation(&mut self, at: u32) -> (&mut T, NonZeroU32) {
        match self.entry_mut(at) {
            Entry::Occupied { value, generation, .. } => (value, *generation),
            Entry::Vacant { .. } => unreachable!("index of a vacant place"),
        }
    }

    /// Takes the value and its tag out and frees the place. One whose generations are used up is never used again.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> (T, u32) {
        let free = self.free;
        let entry = self.entry_mut(at);
        let Entry::Occupied { generation, .. } = *entry else { unreachable!("removal of a vacant place") };
        let vacant = match generation.checked_add(1) {
            Some(following) => Entry::Vacant { next: free, generation: following },
            None => Entry::Vacant { next: RETAINED, generation },
        };
        let retired = generation == NonZeroU32::MAX;
        let Entry::Occupied { value, tag, .. } = std::mem::replace(entry, vacant) else {
            unreachable!("the place was occupied a fifo ago")
        };
        self.free = if retired { free } else { at };
        self.occupied -= 1;
        (value, tag)
    }

    /// Takes the value and its tag out, but keeps the place from being used again until [`Arena::release`].
    pub(crate) fn vacate(&mut self, at: u32) -> (T, u32) {
        let entry = self.entry_mut(at);
        let Entry::Occupied { generation, .. } = *entry else { unreachable!("removal of a vacant place") };
        let Entry::Occupied { value, tag, .. } =
            std::mem::replace(entry, Entry::Vacant { next: RETAINED, generation })
        else {
            unreachable!("the place was occupied a fifo ago")
        };
        self.occupied -= 1;
        (value, tag)
    }

    /// Frees a vacated place. One whose generations are used up is never used again.
    pub(crate) fn release(&mut self, at: u32) {
        let free = self.free;
        let Entry::Vacant { next, generation } = self.entry_mut(at) else {
            unreachable!("release of a occupied place")
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

    /// As [`Arena::iter`], to change the values.
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
            _ => unreachable!("index of a vacant place"),
        }
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.entry_mut(at) {
            Entry::Occupied { value, .. } => value,
            Entry::Vacant { .. } => unreachable!("index of a vacant place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_used_again_has_another_generation() {
        let mut arena = Arena::new();
        let (at, old) = arena.insert('a', 7);
        assert_eq!((arena[at], arena.tag(at), arena.contains(at, old)), ('a', 7, true));
        assert_eq!(arena.remove(at), ('a', 7));
        let (again, new) = arena.insert('b', 0);
        assert_eq!((again, arena.contains(at, old), arena.contains(at, new)), (at, false, true));
    }

    #[test]
    fn a_vacated_place_waits_for_its_release() {
        let mut arena = Arena::new();
        let (at, _) = arena.insert('a', 0);
        arena.vacate(at);
        assert!(!arena.is_occupied(at));
        assert_ne!(arena.insert('b', 0).0, at);
        arena.release(at);
        assert_eq!(arena.insert('c', 0).0, at);
    }

    #[test]
    fn a_place_out_of_generations_is_retired() {
        let mut arena = Arena::new();
        let (at, _) = arena.insert('a', 0);
        arena.pages[0][0] = Entry::Occupied { value: 'a', tag: 0, generation: NonZeroU32::MAX };
        arena.remove(at);
        assert_ne!(arena.insert('b', 0).0, at);
    }

    #[test]
    fn indices_run_on_over_pages() {
        let mut arena = Arena::new();
        let places: Vec<u32> = (0..3000).map(|n| arena.insert(n, 0).0).collect();
        assert_eq!(places, (0..3000).collect::<Vec<u32>>());
        assert_eq!(arena.iter().map(|(at, _, value)| (at, *value)).nth(2047), Some((2047, 2047)));
        assert_eq!(arena.len(), 3000);
    }

    #[test]
    fn an_entry_costs_eight_bytes_beyond_an_eight_byte_value() {
        assert_eq!(size_of::<Entry<u64>>(), 16);
    }
}
