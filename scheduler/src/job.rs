//! Jobs: what the caller states of one, and how they are stored.
//!
//! The ordinary job costs four bytes beside its payload and its place: its charge. Whatever else is stated of a job, and
//! whatever a running job needs, stands in a [`Terms`] of its own.

use std::cmp::Reverse;
use std::num::NonZeroU32;

use crate::cost::Price;
use crate::slab::Slab;

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
    /// The estimate, charged at dispatch.
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
}

/// Order of the jobs of one agent, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    priority: Reverse<i32>,
    /// `u64::MAX` is none.
    deadline: u64,
    rank: Reverse<u64>,
    /// Among equals: when it arrived, or for a job that came back without ever having had a number, when it was first
    /// dispatched. Jobs without a number stand in one line and leave it in the order they came, so the two agree.
    pub(crate) arrival: u64,
}

impl Order {
    const PLAIN: Self = Self { priority: Reverse(0), deadline: u64::MAX, rank: Reverse(0), arrival: 0 };

    /// Whether nothing but arrival orders the job.
    pub(crate) fn is_plain(&self) -> bool {
        Self { arrival: 0, ..*self } == Self::PLAIN
    }

    /// Whether the job goes before every job that only arrival orders and that was never dispatched.
    pub(crate) fn precedes_plain(&self) -> bool {
        Self { arrival: 0, ..*self } <= Self::PLAIN
    }
}

/// What a job costs, how it is ordered, and where it stands.
pub(crate) struct Terms {
    pub(crate) price: Price,
    pub(crate) order: Order,
    pub(crate) model: Option<ModelHandle>,
    /// What one unit of its charge adds to what the marketplace is owed.
    pub(crate) share_pm: i16,
    pub(crate) place: Place,
}

/// Where a job with [`Terms`] stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its agent's line of plain jobs.
    Line,
    /// In its agent's sorted jobs.
    Sorted,
    /// In a slot.
    Running,
}

/// Tags from here on name a [`Terms`]; below, the tag is the charge of a plain queued job.
const TERMS: u32 = 1 << 31;

/// The payloads of all jobs and what is stated of them.
pub(crate) struct Jobs<P> {
    pub(crate) payloads: Slab<P>,
    terms: Slab<Terms>,
}

impl<P> Jobs<P> {
    pub(crate) fn new() -> Self {
        Self { payloads: Slab::new(), terms: Slab::new() }
    }

    /// Stores a job that is about to be queued; `arrival` counts if it stands among the sorted ones.
    pub(crate) fn insert(
        &mut self,
        job: &NewJob,
        payload: P,
        arrival: u64,
    ) -> (u32, NonZeroU32, Option<Order>) {
        let order = Order {
            priority: Reverse(job.priority),
            deadline: job.deadline.unwrap_or(u64::MAX),
            rank: Reverse(job.rank),
            arrival,
        };
        let price = job.estimate;
        let sorted = !order.is_plain();
        let bare = !sorted
            && job.model.is_none()
            && price.charge == price.credits
            && price.charge < u64::from(TERMS);
        let tag = if bare {
            price.charge as u32
        } else {
            let place = if sorted { Place::Sorted } else { Place::Line };
            self.terms.insert(Terms { price, order, model: job.model, share_pm: 0, place }, 0).0 | TERMS
        };
        let (at, generation) = self.payloads.insert(payload, tag);
        (at, generation, sorted.then_some(order))
    }

    pub(crate) fn terms(&self, at: u32) -> Option<&Terms> {
        let tag = self.payloads.tag(at);
        (tag >= TERMS).then(|| &self.terms[tag & !TERMS])
    }

    pub(crate) fn terms_mut(&mut self, at: u32) -> Option<&mut Terms> {
        let tag = self.payloads.tag(at);
        (tag >= TERMS).then(|| &mut self.terms[tag & !TERMS])
    }

    pub(crate) fn price(&self, at: u32) -> Price {
        match self.payloads.tag(at) {
            tag if tag >= TERMS => self.terms[tag & !TERMS].price,
            charge => Price::flat(charge.into()),
        }
    }

    /// Marks a queued job as running; `first_dispatch` orders it among plain jobs should it come back.
    pub(crate) fn start(&mut self, at: u32, share_pm: i16, first_dispatch: u64) -> &Terms {
        let tag = self.payloads.tag(at);
        let index = if tag >= TERMS {
            let terms = &mut self.terms[tag & !TERMS];
            if terms.place == Place::Line {
                terms.order.arrival = first_dispatch;
            }
            (terms.share_pm, terms.place) = (share_pm, Place::Running);
            tag & !TERMS
        } else {
            let order = Order { arrival: first_dispatch, ..Order::PLAIN };
            let price = Price::flat(tag.into());
            let (index, _) =
                self.terms.insert(Terms { price, order, model: None, share_pm, place: Place::Running }, 0);
            self.payloads.set_tag(at, index | TERMS);
            index
        };
        &self.terms[index]
    }

    /// Forgets the terms of a job whose payload is about to go.
    pub(crate) fn drop_terms(&mut self, at: u32) {
        let tag = self.payloads.tag(at);
        if tag >= TERMS {
            self.terms.remove(tag & !TERMS);
        }
    }
}
