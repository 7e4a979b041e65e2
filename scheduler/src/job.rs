//! Jobs: what the caller states of one, and how they are stored.
//!
//! An ordinary queued job costs four bytes beside its payload and its position: its charge. While it runs it has a [`PlainRun`];
//! whatever else is stated of a job stands in [`Attributes`] of its own.

use std::cmp::Reverse;
use std::num::NonZeroU32;

use crate::cost::Price;
use crate::arena::Arena;

/// A queued or running job; it is spent once the job is settled or cancelled, and is never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
    pub(crate) agent: u32,
}

/// A model with a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelHandle(pub(crate) u32);

/// What the caller states of a job.
///
/// Jobs of one agent go by priority (greatest first), deadline (earliest first, none last), rank (greatest first), arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewJob {
    /// The estimate, charged at dispatch. One without credits waits for no balance.
    pub estimate: Price,
    /// Greater goes first.
    pub priority: i32,
    /// Earlier goes first, in any unit the caller likes; the queue has no clock.
    pub deadline: Option<u64>,
    /// The longest expected work from here to the end of the plan; greater goes first.
    pub rank: u64,
    /// The model whose bucket has to hold the estimated tokens.
    pub model: Option<ModelHandle>,
}

impl NewJob {
    /// A job of this estimate in all units, and nothing else to say.
    pub const fn flat(estimate: u64) -> Self {
        Self::of(Price::flat(estimate))
    }

    /// A job of this estimate, and nothing else to say.
    pub const fn of(estimate: Price) -> Self {
        Self { estimate, priority: 0, deadline: None, rank: 0, model: None }
    }

    /// Whether anything but arrival orders it.
    fn is_sorted(&self) -> bool {
        self.priority != 0 || self.deadline.is_some_and(|at| at != u64::MAX) || self.rank != 0
    }

    /// The charge, if that is all there is to say of it.
    #[inline]
    pub(crate) fn plain_charge(&self) -> Option<u32> {
        let Price { charge, credits, .. } = self.estimate;
        let plain = !self.is_sorted() && self.model.is_none() && charge == credits;
        (plain && charge < u64::from(PLAIN_RUN)).then_some(charge as u32)
    }
}

/// Order of the jobs of one agent, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    priority: Reverse<i32>,
    /// `u64::MAX` is none.
    deadline: u64,
    rank: Reverse<u64>,
    /// Among equals: when it arrived, or for a job that came back without ever having had a number, when it was first
    /// dispatched. Jobs without a number stand in one fifo and leave it in the order they came, so the two agree.
    pub(crate) arrival: u64,
}

impl Order {
    const PLAIN: Self = Self { priority: Reverse(0), deadline: u64::MAX, rank: Reverse(0), arrival: 0 };

    /// Whether the job goes before every job that only arrival orders and that was never dispatched.
    pub(crate) fn precedes_plain(&self) -> bool {
        Self { arrival: 0, ..*self } <= Self::PLAIN
    }
}

/// What a job costs, how it is ordered, and where it stands.
pub(crate) struct Attributes {
    pub(crate) price: Price,
    pub(crate) order: Order,
    pub(crate) model: Option<ModelHandle>,
    /// What one unit of its charge adds to what the marketplace is owed.
    pub(crate) owed_pm: i16,
    /// Whether it was to cost no credits: it waits for no balance.
    pub(crate) is_free: bool,
    pub(crate) position: Position,
}

/// Where a job with [`Attributes`] stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// In its agent's fifo of plain jobs.
    Line,
    /// In its agent's sorted jobs.
    Sorted,
    /// In a slot.
    Running,
}

/// A job in a slot of which nothing is stated but its charge.
struct PlainRun {
    first_dispatch: u64,
    charge: u32,
    owed_pm: i16,
}

/// What the accounts need to know of a running job.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub(crate) price: Price,
    pub(crate) owed_pm: i16,
    pub(crate) model: Option<ModelHandle>,
}

/// A tag below this is the charge of a plain queued job.
const PLAIN_RUN: u32 = 1 << 30;
/// A tag from [`PLAIN_RUN`] up to this names the plain_run of a plain running job; from here on, the attributes of any other job.
const ATTRIBUTES: u32 = 1 << 31;

enum Tag {
    Charge(u32),
    PlainRun(u32),
    Attributes(u32),
}

impl Tag {
    #[inline]
    fn of(tag: u32) -> Self {
        match tag {
            0..PLAIN_RUN => Self::Charge(tag),
            PLAIN_RUN..ATTRIBUTES => Self::PlainRun(tag - PLAIN_RUN),
            ATTRIBUTES.. => Self::Attributes(tag - ATTRIBUTES),
        }
    }
}

/// The payloads of all jobs and what is stated of them.
pub(crate) struct Jobs<P> {
    pub(crate) payloads: Arena<P>,
    attributes: Arena<Attributes>,
    plain_runs: Vec<PlainRun>,
    plain_runs_free: Vec<u32>,
}

impl<P> Jobs<P> {
    pub(crate) fn new() -> Self {
        Self { payloads: Arena::new(), attributes: Arena::new(), plain_runs: Vec::new(), plain_runs_free: Vec::new() }
    }

    /// Stores a job of which nothing is stated but its charge.
    #[inline]
    pub(crate) fn insert_plain(&mut self, charge: u32, payload: P) -> (u32, NonZeroU32) {
        self.payloads.insert(payload, charge)
    }

    /// Stores any other job; `arrival` counts if it stands among the sorted ones.
    pub(crate) fn insert(
        &mut self,
        job: &NewJob,
        payload: P,
        arrival: u64,
    ) -> (u32, NonZeroU32, Option<Order>) {
        let (price, sorted) = (job.estimate, job.is_sorted());
        let order = Order {
            priority: Reverse(job.priority),
            deadline: job.deadline.unwrap_or(u64::MAX),
            rank: Reverse(job.rank),
            arrival,
        };
        let position = if sorted { Position::Sorted } else { Position::Fifo };
        let (model, is_free) = (job.model, price.credits == 0);
        let attributes = Attributes { price, order, model, owed_pm: 0, is_free, position };
        let tag = ATTRIBUTES + self.attributes.insert(attributes, 0).0;
        let (at, generation) = self.payloads.insert(payload, tag);
        (at, generation, sorted.then_some(order))
    }

    /// What is stated of a job beside a plain charge.
    pub(crate) fn attributes(&self, at: u32) -> Option<&Attributes> {
        match Tag::of(self.payloads.tag(at)) {
            Tag::Attributes(index) => Some(&self.attributes[index]),
            Tag::Charge(_) | Tag::PlainRun(_) => None,
        }
    }

    /// Whether a job was to cost no credits.
    pub(crate) fn is_free(&self, at: u32) -> bool {
        self.attributes(at).is_some_and(|attributes| attributes.is_free)
    }

    pub(crate) fn price(&self, at: u32) -> Price {
        match Tag::of(self.payloads.tag(at)) {
            Tag::Charge(charge) => Price::flat(charge.into()),
            Tag::PlainRun(index) => Price::flat(self.plain_runs[index as usize].charge.into()),
            Tag::Attributes(index) => self.attributes[index].price,
        }
    }

    /// Marks a queued job as running; `first_dispatch` orders it among plain jobs should it come back.
    #[inline]
    pub(crate) fn start(&mut self, at: u32, owed_pm: i16, first_dispatch: u64) -> (Running, NonZeroU32) {
        let (tag, generation) = self.payloads.tag_mut(at);
        let running = match Tag::of(*tag) {
            Tag::Charge(charge) => {
                let plain_run = PlainRun { first_dispatch, charge, owed_pm };
                let index = match self.plain_runs_free.pop() {
                    Some(index) => {
                        self.plain_runs[index as usize] = plain_run;
                        index
                    }
                    None => {
                        self.plain_runs.push(plain_run);
                        self.plain_runs.len() as u32 - 1
                    }
                };
                *tag = PLAIN_RUN + index;
                Running { price: Price::flat(charge.into()), owed_pm, model: None }
            }
            Tag::Attributes(index) => {
                let attributes = &mut self.attributes[index];
                if attributes.position == Position::Fifo {
                    attributes.order.arrival = first_dispatch;
                }
                (attributes.owed_pm, attributes.position) = (owed_pm, Position::Running);
                Running { price: attributes.price, owed_pm, model: attributes.model }
            }
            Tag::PlainRun(_) => unreachable!("a running job is not in a backlog"),
        };
        (running, generation)
    }

    /// What the accounts need of the job with this tag, if it runs.
    #[inline]
    pub(crate) fn running(&self, tag: u32) -> Option<Running> {
        match Tag::of(tag) {
            Tag::Charge(_) => None,
            Tag::PlainRun(index) => {
                let PlainRun { charge, owed_pm, .. } = self.plain_runs[index as usize];
                Some(Running { price: Price::flat(charge.into()), owed_pm, model: None })
            }
            Tag::Attributes(index) => {
                let Attributes { price, model, owed_pm, position, .. } = self.attributes[index];
                (position == Position::Running).then_some(Running { price, owed_pm, model })
            }
        }
    }

    /// The attributes of a running job; a plain one gets some, because it is about to differ from others.
    pub(crate) fn attributes_of_running(&mut self, at: u32) -> &mut Attributes {
        let index = match Tag::of(self.payloads.tag(at)) {
            Tag::Attributes(index) => index,
            Tag::PlainRun(index) => {
                let PlainRun { first_dispatch, charge, owed_pm } = self.plain_runs[index as usize];
                self.plain_runs_free.push(index);
                let (price, order) =
                    (Price::flat(charge.into()), Order { arrival: first_dispatch, ..Order::PLAIN });
                let attributes =
                    Attributes { price, order, model: None, owed_pm, is_free: false, position: Position::Running };
                let (index, _) = self.attributes.insert(attributes, 0);
                *self.payloads.tag_mut(at).0 = ATTRIBUTES + index;
                index
            }
            Tag::Charge(_) => unreachable!("the job was just seen to run"),
        };
        &mut self.attributes[index]
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> P {
        let (payload, tag) = self.payloads.remove(at);
        self.remove_tag(tag);
        payload
    }

    /// Takes a job out whose place something still points at.
    pub(crate) fn vacate(&mut self, at: u32) -> P {
        let (payload, tag) = self.payloads.vacate(at);
        self.remove_tag(tag);
        payload
    }

    /// Forgets everything stated of a job that is gone.
    #[inline]
    fn remove_tag(&mut self, tag: u32) {
        match Tag::of(tag) {
            Tag::Charge(_) => {}
            Tag::PlainRun(index) => self.plain_runs_free.push(index),
            Tag::Attributes(index) => {
                self.attributes.remove(index);
            }
        }
    }
}
