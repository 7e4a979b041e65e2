//! The run queue and the structures it is compared with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use ostler_scheduler::{AgentHandle, Event, NewJob, RunQueue};

use crate::paper::PaperQueue;
use crate::workload::{Draw, Draws, Numbers, Size, filled, weight};

/// A queue of constant length.
pub(crate) trait Contender {
    /// Adds one job and removes one.
    fn turn(&mut self, draw: Draw);
}

/// Mean nanoseconds per turn.
pub(crate) fn sample(contender: &mut dyn Contender, draws: &mut Draws, turns: u32) -> f64 {
    // The draws are collected first, so drawing is not timed.
    let drawn: Vec<Draw> = (0..turns).map(|_| draws.draw()).collect();
    let start = Instant::now();
    drawn.into_iter().for_each(|draw| contender.turn(draw));
    start.elapsed().as_nanos() as f64 / f64::from(turns)
}

/// Enqueue, dispatch, settle.
pub(crate) struct Ours {
    queue: RunQueue<u64>,
    agents: Vec<AgentHandle>,
    events: Vec<Event>,
    number: u64,
    new: fn(u64, u64) -> NewJob,
}

impl Ours {
    /// Plain jobs, served in order of arrival.
    pub(crate) fn new(size: Size) -> Self {
        Self::of(size, |_, estimate| NewJob::flat(estimate))
    }

    /// Groups of sixteen jobs with a common deadline and different ranks, as the nodes of runs have.
    pub(crate) fn ranked(size: Size) -> Self {
        Self::of(size, |number, estimate| NewJob {
            deadline: Some(number / 16),
            rank: 1 + estimate % 16,
            ..NewJob::flat(estimate)
        })
    }

    fn of(size: Size, new: fn(u64, u64) -> NewJob) -> Self {
        let (queue, agents) = filled(size, 1, new);
        Self { queue, agents, events: Vec::new(), number: size.jobs, new }
    }
}

impl Contender for Ours {
    fn turn(&mut self, draw: Draw) {
        self.number += 1;
        let agent = self.agents[draw.client as usize];
        let new = (self.new)(self.number, draw.estimate);
        self.queue.enqueue(agent, new, self.number, &mut self.events).unwrap();
        self.queue.dispatch(1, &mut self.events);
        let Some(Event::Granted(grant)) = self.events.first() else { unreachable!("the slot is free") };
        let job = grant.job;
        black_box(self.queue.settle(job, draw.actual.into(), &mut self.events).unwrap());
        self.events.clear();
    }
}

/// Key of the bare structures: tier, virtual time, number of arrival.
type Key = (u8, i64, u64);

/// Random keys over the whole range of the turns.
fn keys(size: Size) -> impl Iterator<Item = (Key, u64)> {
    let mut numbers = Numbers::new();
    let end = size.jobs * crate::workload::COST_MAX;
    (0..size.jobs).map(move |job| ((1, numbers.below(end) as i64, job), job))
}

/// Insert and `pop_first`.
pub(crate) struct Tree {
    tree: BTreeMap<Key, u64>,
    first: i64,
    number: u64,
}

impl Tree {
    pub(crate) fn new(size: Size) -> Self {
        Self { tree: grown(size), first: 0, number: size.jobs }
    }
}

/// A tree filled by insertions in random order; a collected tree has fuller nodes.
fn grown(size: Size) -> BTreeMap<Key, u64> {
    let mut tree = BTreeMap::new();
    tree.extend(keys(size));
    tree
}

impl Contender for Tree {
    fn turn(&mut self, draw: Draw) {
        self.number += 1;
        self.tree.insert((1, self.first + draw.behind, self.number), self.number);
        self.first = black_box(self.tree.pop_first()).unwrap().0.1;
    }
}

/// The same in a `Mutex`, locked twice per turn.
pub(crate) struct Locked {
    tree: Mutex<BTreeMap<Key, u64>>,
    first: i64,
    number: u64,
}

impl Locked {
    pub(crate) fn new(size: Size) -> Self {
        Self { tree: Mutex::new(grown(size)), first: 0, number: size.jobs }
    }
}

impl Contender for Locked {
    fn turn(&mut self, draw: Draw) {
        self.number += 1;
        self.tree.lock().unwrap().insert((1, self.first + draw.behind, self.number), self.number);
        self.first = black_box(self.tree.lock().unwrap().pop_first()).unwrap().0.1;
    }
}

/// Push and pop.
pub(crate) struct Heap {
    heap: BinaryHeap<Reverse<(Key, u64)>>,
    first: i64,
    number: u64,
}

impl Heap {
    pub(crate) fn new(size: Size) -> Self {
        let mut heap = BinaryHeap::new();
        keys(size).for_each(|entry| heap.push(Reverse(entry)));
        Self { heap, first: 0, number: size.jobs }
    }
}

impl Contender for Heap {
    fn turn(&mut self, draw: Draw) {
        self.number += 1;
        self.heap.push(Reverse(((1, self.first + draw.behind, self.number), self.number)));
        self.first = black_box(self.heap.pop()).unwrap().0.0.1;
    }
}

/// Enqueue and dequeue of the paper's algorithm, without settlement.
pub(crate) struct Paper {
    queue: PaperQueue<u64>,
    number: u64,
}

impl Paper {
    pub(crate) fn new(size: Size) -> Self {
        let (mut queue, mut numbers) = (PaperQueue::new(), Numbers::new());
        for client in 0..size.clients {
            queue.add_client(false, f64::from(weight(client)));
        }
        for job in 0..size.jobs {
            queue.enqueue((job % size.clients) as u32, numbers.cost(), job);
        }
        Self { queue, number: size.jobs }
    }
}

impl Contender for Paper {
    fn turn(&mut self, draw: Draw) {
        self.number += 1;
        self.queue.enqueue(draw.client, draw.estimate, self.number);
        black_box(self.queue.dequeue().unwrap());
    }
}
