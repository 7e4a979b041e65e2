//! The slab of a pool's children: each has an id and, while the pool keeps it, a place.
//!
//! A place finds the child without comparing ids. Places are reused, so messages name the number of the start as well.

use std::collections::HashMap;
use std::collections::hash_map::{self, VacantEntry};

use crate::ChildId;
use crate::entry::Entry;

pub(crate) type Place = usize;

#[derive(Default)]
pub(crate) struct Places {
    by_id: HashMap<ChildId, Place>,
    entries: Vec<Option<Entry>>,
    free: Vec<Place>,
}

impl Places {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The place of child `id`.
    pub(crate) fn of(&self, id: &str) -> Option<Place> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Entry> {
        self.entries.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.entries.get_mut(place)?.as_mut()
    }

    /// All children, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    /// The child `id`, or a free place for it.
    pub(crate) fn find(&mut self, id: ChildId) -> Result<&mut Entry, Vacancy<'_>> {
        match self.by_id.entry(id) {
            hash_map::Entry::Occupied(at) => {
                Ok(self.entries[*at.get()].as_mut().expect("whoever has an id has a place"))
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

    pub(crate) fn remove(&mut self, place: Place) -> Option<Entry> {
        let entry = self.entries.get_mut(place)?.take()?;
        self.by_id.remove(&entry.spec.id);
        self.free.push(place);
        Some(entry)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> + use<> {
        std::mem::take(self).entries.into_iter().flatten()
    }
}

/// A free place, and the id it is for.
pub(crate) struct Vacancy<'a> {
    id: VacantEntry<'a, ChildId, Place>,
    entries: &'a mut Vec<Option<Entry>>,
    free: &'a mut Vec<Place>,
}

impl Vacancy<'_> {
    /// The place that [`Vacancy::fill`] takes.
    pub(crate) fn place(&self) -> Place {
        self.free.last().copied().unwrap_or(self.entries.len())
    }

    pub(crate) fn fill(self, entry: Entry) {
        match self.free.pop() {
            Some(place) => {
                self.id.insert(place);
                self.entries[place] = Some(entry);
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

    fn add(places: &mut Places, id: &str) -> Place {
        let state = State::Restarting { birth: 1, exit: Exit::Normal, causes: Vec::new() };
        let spec = ChildSpec::pool(id, PoolSpec::default());
        let (restarts, last_exit, window) = (0, None, None);
        let entry = Entry { spec, ordinal: 1, generation: 1, restarts, last_exit, window, state };
        let Err(vacancy) = places.find(id.into()) else { panic!("{id} has a place") };
        let place = vacancy.place();
        vacancy.fill(entry);
        place
    }

    #[test]
    fn a_child_is_found_at_its_place_until_it_is_removed_and_again_when_put_back() {
        let mut places = Places::default();
        let (a, b) = (add(&mut places, "a"), add(&mut places, "b"));
        assert_eq!((places.of("a"), places.of("b"), places.len()), (Some(a), Some(b), 2));
        let entry = places.remove(a).unwrap();
        assert!(places.of("a").is_none() && places.get(a).is_none());
        places.put_back(entry);
        assert_eq!(places.of("a"), Some(a));
        assert_eq!(places.get(a).unwrap().spec.id, "a");
    }

    #[test]
    fn a_place_that_is_free_is_taken_before_a_new_one() {
        let mut places = Places::default();
        let (a, b) = (add(&mut places, "a"), add(&mut places, "b"));
        places.remove(a).unwrap();
        assert_eq!(add(&mut places, "c"), a);
        assert_ne!(add(&mut places, "d"), b);
        assert_eq!(places.iter().count(), 3);
        assert_eq!(places.drain().count(), 3);
        assert_eq!(places.len(), 0);
    }
}
