//! Places for connections, shared fairly by those who connect: processes, or addresses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

/// A process that connects; `None` if the system does not tell.
pub(crate) type Owner = Option<i32>;

/// A limited number of places, each with an owner. A newcomer always gets one: when all are taken, one is given up for it. Only
/// owners with more than their share, the number of places divided by the number of owners, lose a place: an owner that opens
/// hundreds of connections closes its own, and keeps no other out. Places without a request under way go first, those of the owner
/// with the most before others; without one, the owner with the most loses its oldest.
#[derive(Debug)]
pub(crate) struct Places<O: Ord + Copy = Owner> {
    most: usize,
    held: Mutex<Held<O>>,
}

#[derive(Debug)]
struct Held<O> {
    next: u64,
    count: usize,
    /// The places of each owner; the oldest, or the one that has been idle for the longest, first.
    by_owner: BTreeMap<O, VecDeque<Taken>>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    /// Requests under way: from their head to the end of the answer's body.
    requests: usize,
    connection: CancellationToken,
}

/// A place, until it is dropped or given up for a newcomer.
#[derive(Debug)]
pub(crate) struct Place<O: Ord + Copy = Owner> {
    places: Arc<Places<O>>,
    owner: O,
    number: u64,
}

/// A request under way on the connection of a place, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<O: Ord + Copy = Owner> {
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
            held.give_up_one(owner, self.most);
        }
        let number = held.next;
        held.next += 1;
        held.count += 1;
        held.by_owner.entry(owner).or_default().push_back(Taken { number, requests: 0, connection });
        Place { places: Arc::clone(self), owner, number }
    }
}

impl<O: Ord + Copy> Place<O> {
    /// Counts a request as under way until the returned value is dropped.
    pub(crate) fn request(&self) -> UnderWay<O> {
        if let Some(place) = self.places.held().place(self.owner, self.number) {
            place.requests += 1;
        }
        UnderWay { places: Arc::clone(&self.places), owner: self.owner, number: self.number }
    }
}

impl<O: Ord + Copy> Held<O> {
    fn place(&mut self, owner: O, number: u64) -> Option<&mut Taken> {
        self.by_owner.get_mut(&owner)?.iter_mut().find(|place| place.number == number)
    }

    /// Gives up one of `most` places for the newcomer, whose own place counts among those of its owner.
    fn give_up_one(&mut self, newcomer: O, most: usize) {
        let owners = self.by_owner.len() + usize::from(!self.by_owner.contains_key(&newcomer));
        let share = most / owners;
        let count = |owner: O, places: usize| places + usize::from(owner == newcomer);
        let greedy =
            self.by_owner.iter().map(|(owner, places)| (count(*owner, places.len()), *owner, places));
        let greedy = greedy.filter(|(count, ..)| *count > share);
        // The owner with the most is above the share, because all places and the newcomer's are more than the shares add up to.
        let given_up = greedy.map(|(count, owner, places)| {
            let idle = places.iter().position(|place| place.requests == 0);
            (idle.is_some(), count, owner, idle.unwrap_or(0))
        });
        let Some((.., owner, position)) = given_up.max() else { return };
        if let Some(place) = self.by_owner.get_mut(&owner).and_then(|places| places.remove(position)) {
            self.count -= 1;
            place.connection.cancel();
        }
    }
}

/// `body`, which drops `held` once it has ended.
pub(crate) fn holding(body: Body, held: impl Send + 'static) -> Body {
    Body::new(body.map_frame(move |frame| {
        let _held = &held;
        frame
    }))
}

impl<O: Ord + Copy> Drop for UnderWay<O> {
    /// A connection that falls idle is given up after those that have been idle for longer.
    fn drop(&mut self) {
        let mut held = self.places.held();
        let Some(places) = held.by_owner.get_mut(&self.owner) else { return };
        let Some(position) = places.iter().position(|place| place.number == self.number) else { return };
        places[position].requests -= 1;
        if places[position].requests == 0
            && let Some(place) = places.remove(position)
        {
            places.push_back(place);
        }
    }
}

impl<O: Ord + Copy> Drop for Place<O> {
    fn drop(&mut self) {
        let mut held = self.places.held();
        let Some(places) = held.by_owner.get_mut(&self.owner) else { return };
        let before = places.len();
        places.retain(|place| place.number != self.number);
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

    fn take(places: &Arc<Places>, owner: i32) -> (Place, CancellationToken) {
        let connection = CancellationToken::new();
        (places.take(Some(owner), connection.clone()), connection)
    }

    #[test]
    fn a_place_with_a_request_under_way_outlasts_idle_ones() {
        let places = Places::new(3);
        let [first, second, third] = [1, 1, 1].map(|owner| take(&places, owner));
        let running = first.0.request();
        let further = take(&places, 1);
        assert!(second.1.is_cancelled() && !first.1.is_cancelled(), "the idle one goes");
        drop((running, third));
        // Idle for a shorter time than the others.
        let [fourth, _fifth] = [1, 1].map(|owner| take(&places, owner));
        assert!(further.1.is_cancelled() && !first.1.is_cancelled() && !fourth.1.is_cancelled());
    }

    #[test]
    fn an_owner_within_its_share_loses_no_idle_place_to_a_busy_one() {
        let places = Places::new(4);
        let modest = [take(&places, 1), take(&places, 1)];
        let flood = [take(&places, 7), take(&places, 7)];
        let _running = [flood[0].0.request(), flood[1].0.request()];
        let newcomer = take(&places, 7);
        assert!(flood[0].1.is_cancelled(), "the oldest of the owner with the most");
        assert!(
            ![&modest[0], &modest[1], &flood[1], &newcomer].iter().any(|(_, token)| token.is_cancelled())
        );
        // A third owner makes the share smaller: whoever exceeds it loses an idle place before a busy one.
        let _third = take(&places, 2);
        assert!(newcomer.1.is_cancelled() || modest[0].1.is_cancelled());
        assert!(!flood[1].1.is_cancelled());
    }
}
