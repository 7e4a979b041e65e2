//! Places for connections, shared fairly by those who connect: processes, or addresses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// A process that connects; `None` if the system does not tell.
pub(crate) type Owner = Option<i32>;

/// A limited number of places, each with an owner. A newcomer always gets one: when all are taken, the oldest place of the owner
/// with the most places is given up for it. So an owner that opens hundreds of connections closes its own, and keeps no other out.
#[derive(Debug)]
pub(crate) struct Places<O: Ord + Copy = Owner> {
    most: usize,
    held: Mutex<Held<O>>,
}

#[derive(Debug)]
struct Held<O> {
    next: u64,
    count: usize,
    /// Number and connection of each place, oldest first.
    by_owner: BTreeMap<O, VecDeque<(u64, CancellationToken)>>,
}

/// A place, until it is dropped or given up for a newcomer.
#[derive(Debug)]
pub(crate) struct Place<O: Ord + Copy = Owner> {
    places: Arc<Places<O>>,
    owner: O,
    number: u64,
}

impl<O: Ord + Copy> Places<O> {
    pub(crate) fn new(most: usize) -> Arc<Places<O>> {
        Arc::new(Places { most, held: Mutex::new(Held { next: 0, count: 0, by_owner: BTreeMap::new() }) })
    }

    fn held(&self) -> MutexGuard<'_, Held<O>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for `connection`, which is cancelled when the place is given up.
    pub(crate) fn take(self: &Arc<Places<O>>, owner: O, connection: CancellationToken) -> Place<O> {
        let mut held = self.held();
        if held.count >= self.most {
            held.give_up_one(owner);
        }
        let number = held.next;
        held.next += 1;
        held.count += 1;
        held.by_owner.entry(owner).or_default().push_back((number, connection));
        Place { places: Arc::clone(self), owner, number }
    }
}

impl<O: Ord + Copy> Held<O> {
    /// Gives up the oldest place of the owner with the most, the newcomer's place included.
    fn give_up_one(&mut self, newcomer: O) {
        let count = |owner: O, places: usize| places + usize::from(owner == newcomer);
        let greediest = self.by_owner.iter().max_by_key(|(owner, places)| count(**owner, places.len()));
        let greediest = greediest.map(|(owner, _)| *owner);
        let Some(places) = greediest.and_then(|owner| self.by_owner.get_mut(&owner)) else { return };
        if let Some((_, connection)) = places.pop_front() {
            self.count -= 1;
            connection.cancel();
        }
    }
}

impl<O: Ord + Copy> Drop for Place<O> {
    fn drop(&mut self) {
        let mut held = self.places.held();
        let Some(places) = held.by_owner.get_mut(&self.owner) else { return };
        let before = places.len();
        places.retain(|(number, _)| *number != self.number);
        let freed = before - places.len();
        if places.is_empty() {
            held.by_owner.remove(&self.owner);
        }
        held.count -= freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_takes_the_oldest_place_of_the_process_with_the_most() {
        let places = Places::new(4);
        let take = |owner| {
            let connection = CancellationToken::new();
            (places.take(Some(owner), connection.clone()), connection)
        };
        let (modest, flood) = (take(1), [take(7), take(7), take(7)]);
        assert!(flood.iter().all(|(_, connection)| !connection.is_cancelled()));
        let (newcomer, further) = (take(2), take(7));
        assert!(flood[0].1.is_cancelled() && flood[1].1.is_cancelled() && !flood[2].1.is_cancelled());
        assert!(![&modest, &newcomer, &further].iter().any(|(_, connection)| connection.is_cancelled()));
        drop(flood);
        drop((take(3), take(3)));
        assert!(![&modest, &newcomer, &further].iter().any(|(_, connection)| connection.is_cancelled()));
        drop((modest, newcomer, further));
        let held = places.held();
        assert_eq!((held.count, held.by_owner.len()), (0, 0));
    }
}
