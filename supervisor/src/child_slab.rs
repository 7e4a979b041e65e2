//! The slab of a pool's children: an arena indexed by slot, and a map from child ids to slots.
//!
//! A slot finds a child without comparing ids. Slots are reused, so a message names slot and incarnation; a message with an old
//! incarnation is stale and ignored.

use std::collections::HashMap;
use std::collections::hash_map::{self, VacantEntry};

use crate::ChildId;
use crate::entry::Entry;

pub(crate) type Slot = usize;

#[derive(Default)]
pub(crate) struct ChildSlab {
    by_id: HashMap<ChildId, Slot>,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
}

impl ChildSlab {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The slot of child `id`.
    pub(crate) fn of(&self, id: &str) -> Option<Slot> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.entries.get_mut(slot)?.as_mut()
    }

    /// All children, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// The child `id`, or a free slot for it.
    pub(crate) fn find(&mut self, id: ChildId) -> Result<&mut Entry, Vacancy<'_>> {
        match self.by_id.entry(id) {
            hash_map::Entry::Occupied(at) => {
                Ok(self.entries[*at.get()].as_mut().expect("every id in the map has a slot"))
            }
            hash_map::Entry::Vacant(id) => {
                Err(Vacancy { id, entries: &mut self.entries, free: &mut self.free })
            }
        }
    }

    pub(crate) fn put_back(&mut self, entry: Entry) {
        if let Err(vacancy) = self.find(entry.spec.id.clone()) {
            vacancy.fill(entry);
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Entry> {
        let entry = self.entries.get_mut(slot)?.take()?;
        self.by_id.remove(&entry.spec.id);
        self.free.push(slot);
        Some(entry)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> + use<> {
        std::mem::take(self).entries.into_iter().flatten()
    }
}

/// A free slot, reserved for an id.
pub(crate) struct Vacancy<'a> {
    id: VacantEntry<'a, ChildId, Slot>,
    entries: &'a mut Vec<Option<Entry>>,
    free: &'a mut Vec<Slot>,
}

impl Vacancy<'_> {
    /// The slot that [`Vacancy::fill`] takes.
    pub(crate) fn slot(&self) -> Slot {
        self.free.last().copied().unwrap_or(self.entries.len())
    }

    pub(crate) fn fill(self, entry: Entry) {
        match self.free.pop() {
            Some(slot) => {
                self.id.insert(slot);
                self.entries[slot] = Some(entry);
            }
            None => {
                self.id.insert(self.entries.len());
                self.entries.push(Some(entry));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::State;
    use crate::{ChildSpec, Exit, PoolSpec};

    fn add(slab: &mut ChildSlab, id: &str) -> Slot {
        let state = State::Restarting { incarnation: 1, exit: Exit::Normal, causes: Vec::new() };
        let spec = ChildSpec::pool(id, PoolSpec::default());
        let (restarts, last_exit, window) = (0, None, None);
        let entry = Entry { spec, ordinal: 1, generation: 1, restarts, last_exit, window, state };
        let Err(vacancy) = slab.find(id.into()) else { panic!("{id} has a slot") };
        let slot = vacancy.slot();
        vacancy.fill(entry);
        slot
    }

    #[test]
    fn a_child_is_found_at_its_slot_until_it_is_removed_and_again_when_put_back() {
        let mut slab = ChildSlab::default();
        let (a, b) = (add(&mut slab, "a"), add(&mut slab, "b"));
        assert_eq!((slab.of("a"), slab.of("b"), slab.len()), (Some(a), Some(b), 2));
        let entry = slab.remove(a).unwrap();
        assert!(slab.of("a").is_none() && slab.get(a).is_none());
        slab.put_back(entry);
        assert_eq!(slab.of("a"), Some(a));
        assert_eq!(slab.get(a).unwrap().spec.id, "a");
    }

    #[test]
    fn a_free_slot_is_reused_before_a_new_one() {
        let mut slab = ChildSlab::default();
        let (a, b) = (add(&mut slab, "a"), add(&mut slab, "b"));
        slab.remove(a).unwrap();
        assert_eq!(add(&mut slab, "c"), a);
        assert_ne!(add(&mut slab, "d"), b);
        assert_eq!(slab.iter().count(), 3);
        assert_eq!(slab.drain().count(), 3);
        assert_eq!(slab.len(), 0);
    }
}
