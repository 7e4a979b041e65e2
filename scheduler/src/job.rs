//! Jobs: their attributes and their compact storage.
//!
//! A *plain* job has a charge and no other attribute. While queued, its charge is the tag of its payload, four bytes; while it runs, the tag
//! is the index of a [`PlainRun`]. The tag of any other job is the index of its [`Attributes`].

use std::cmp::Reverse;
use std::num::NonZeroU32;

use crate::arena::Arena;
use crate::cost::Price;

/// Handle of a queued or running job; invalid once the job is settled or cancelled, and never given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobHandle {
    pub(crate) at: u32,
    pub(crate) generation: NonZeroU32,
    pub(crate) agent: u32,
}

/// Handle of a model with a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelHandle(pub(crate) u32);

/// Attributes of a job at enqueue.
///
/// Jobs of one agent are dispatched by priority (greatest first), deadline (earliest first, none last), rank (greatest first), arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewJob {
    /// Charged at dispatch and corrected at settlement. A job with an estimate of 0 credits also runs while the client is parked.
    pub estimate: Price,
    /// The greater is dispatched first.
    pub priority: i32,
    /// The earlier is dispatched first. Any unit: the queue has no clock.
    pub deadline: Option<u64>,
    /// Upward rank: the longest expected work from this job to the end of its plan. The greater is dispatched first.
    pub rank: u64,
    /// The job waits until the bucket of this model holds the estimated tokens, or is full.
    pub model: Option<ModelHandle>,
}

impl NewJob {
    /// A job of this estimate in all three units, without further attributes.
    pub const fn flat(estimate: u64) -> Self {
        Self::of(Price::flat(estimate))
    }

    /// A job of this estimate, without further attributes.
    pub const fn of(estimate: Price) -> Self {
        Self { estimate, priority: 0, deadline: None, rank: 0, model: None }
    }

    /// True if an attribute other than arrival orders the job.
    fn is_sorted(&self) -> bool {
        self.priority != 0 || self.deadline.is_some_and(|at| at != u64::MAX) || self.rank != 0
    }

    /// The charge of a plain job; `None` for any other.
    #[inline]
    pub(crate) fn plain_charge(&self) -> Option<u32> {
        let Price { charge, credits, .. } = self.estimate;
        let plain = !self.is_sorted() && self.model.is_none() && charge == credits;
        (plain && charge < u64::from(PLAIN_RUN)).then_some(charge as u32)
    }
}

/// Position of a job within its agent, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    priority: Reverse<i32>,
    /// `u64::MAX` is none.
    deadline: u64,
    rank: Reverse<u64>,
    /// Number of arrival. A plain job has none; if one yields and is queued again, the number of its first dispatch takes the place.
    /// Plain jobs are dispatched in order of arrival, so both numbers order them alike.
    pub(crate) arrival: u64,
}

impl Order {
    const PLAIN: Self = Self { priority: Reverse(0), deadline: u64::MAX, rank: Reverse(0), arrival: 0 };

    /// True if the job precedes every plain job that was never dispatched.
    pub(crate) fn precedes_plain(&self) -> bool {
        Self { arrival: 0, ..*self } <= Self::PLAIN
    }
}

/// Cost, order and position of a job that is not plain.
pub(crate) struct Attributes {
    pub(crate) price: Price,
    pub(crate) order: Order,
    pub(crate) model: Option<ModelHandle>,
    /// Thousandths that each unit of charge adds to the amount owed to the marketplace.
    pub(crate) owed_pm: i16,
    /// True if the estimate had 0 credits.
    pub(crate) is_free: bool,
    pub(crate) position: Position,
}

/// Position of a job with [`Attributes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// In the FIFO queue of the agent's backlog.
    Fifo,
    /// In the ordered map of the agent's backlog.
    Sorted,
    /// In a run slot.
    Running,
}

/// A running plain job.
struct PlainRun {
    first_dispatch: u64,
    charge: u32,
    owed_pm: i16,
}

/// The attributes of a running job that its settlement uses.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub(crate) price: Price,
    pub(crate) owed_pm: i16,
    pub(crate) model: Option<ModelHandle>,
}

/// Tags below are the charge of a queued plain job.
const PLAIN_RUN: u32 = 1 << 30;
/// Tags from [`PLAIN_RUN`] up to here are indices of [`PlainRun`]s; the rest are indices of [`Attributes`].
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

/// Payloads and attributes of all jobs.
pub(crate) struct Jobs<P> {
    pub(crate) payloads: Arena<P>,
    attributes: Arena<Attributes>,
    plain_runs: Vec<PlainRun>,
    plain_runs_free: Vec<u32>,
}

impl<P> Jobs<P> {
    pub(crate) fn new() -> Self {
        Self {
            payloads: Arena::new(),
            attributes: Arena::new(),
            plain_runs: Vec::new(),
            plain_runs_free: Vec::new(),
        }
    }

    /// Stores a plain job.
    #[inline]
    pub(crate) fn insert_plain(&mut self, charge: u32, payload: P) -> (u32, NonZeroU32) {
        self.payloads.insert(payload, charge)
    }

    /// Stores a job that is not plain. Returns its order if the job belongs into the ordered map.
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

    /// `None` for a plain job.
    pub(crate) fn attributes(&self, at: u32) -> Option<&Attributes> {
        match Tag::of(self.payloads.tag(at)) {
            Tag::Attributes(index) => Some(&self.attributes[index]),
            Tag::Charge(_) | Tag::PlainRun(_) => None,
        }
    }

    /// True if the estimate of a job had 0 credits.
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

    /// Marks a queued job as running. `first_dispatch` orders a plain job if it yields.
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

    /// The running job with this tag; `None` for a queued one.
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

    /// Attributes of a running job. A plain job becomes one with attributes.
    pub(crate) fn attributes_of_running(&mut self, at: u32) -> &mut Attributes {
        let index = match Tag::of(self.payloads.tag(at)) {
            Tag::Attributes(index) => index,
            Tag::PlainRun(index) => {
                let PlainRun { first_dispatch, charge, owed_pm } = self.plain_runs[index as usize];
                self.plain_runs_free.push(index);
                let (price, order) =
                    (Price::flat(charge.into()), Order { arrival: first_dispatch, ..Order::PLAIN });
                let attributes = Attributes {
                    price,
                    order,
                    model: None,
                    owed_pm,
                    is_free: false,
                    position: Position::Running,
                };
                let (index, _) = self.attributes.insert(attributes, 0);
                *self.payloads.tag_mut(at).0 = ATTRIBUTES + index;
                index
            }
            Tag::Charge(_) => unreachable!("the caller checked that the job runs"),
        };
        &mut self.attributes[index]
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> P {
        let (payload, tag) = self.payloads.remove(at);
        self.remove_tag(tag);
        payload
    }

    /// Removes a job from the middle of a backlog, which releases the index later.
    pub(crate) fn vacate(&mut self, at: u32) -> P {
        let (payload, tag) = self.payloads.vacate(at);
        self.remove_tag(tag);
        payload
    }

    /// Frees the attributes of a removed job.
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
