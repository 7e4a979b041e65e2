//! The slot of an attempt: an attempt that only waits gives it back, and wants one again to go on.

use std::sync::Arc;

use ostler_scheduler::Price;
use ractor::ActorRef;

use crate::base::keys::Owner;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::Ticket;

/// What an attempt has of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It holds one.
    Held(Ticket),
    /// It waits without; what it is expected to cost from here on.
    Yielded(Price),
    /// It wants one again, and is not queued for it yet.
    Wanted(Price),
    /// It is queued for one.
    Queued(Ticket),
    /// It has ended, and that is settled.
    Settled,
}

impl Slot {
    /// The slot that it holds.
    pub(crate) fn held(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) => Some(ticket),
            Slot::Yielded(_) | Slot::Wanted(_) | Slot::Queued(_) | Slot::Settled => None,
        }
    }

    /// What the run queue knows it by.
    pub(crate) fn ticket(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) | Slot::Queued(ticket) => Some(ticket),
            Slot::Yielded(_) | Slot::Wanted(_) | Slot::Settled => None,
        }
    }
}

/// What an attempt leaves to the run queue, as it ends or waits.
pub(crate) struct Leaves {
    /// The slot that it held, or was queued for.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) owner: Arc<Owner>,
    /// What it cost that nobody was charged for yet.
    pub(crate) due: u64,
}

/// An attempt that wants a slot again.
pub(crate) struct Wants {
    pub(crate) owner: Arc<Owner>,
    pub(crate) agent: ActorRef<AgentMessage>,
    /// What it is expected to cost from here on.
    pub(crate) estimate: Price,
}
