//! The slot of an attempt. An attempt that only waits returns its slot, and asks for one again to continue.

use std::sync::Arc;

use ostler_scheduler::Price;
use ractor::ActorRef;

use crate::base::keys::Owner;
use crate::messages::agent::AgentMessage;
use crate::messages::slots::Ticket;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The attempt holds the slot.
    Held(Ticket),
    /// The attempt waits without a slot; the price is its expected remaining cost.
    Yielded(Price),
    /// The attempt wants a slot again and is not queued yet.
    Wanted(Price),
    /// The attempt is in the run queue.
    Queued(Ticket),
    /// The attempt has ended and is settled.
    Settled,
}

impl Slot {
    pub(crate) fn held(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) => Some(ticket),
            Slot::Yielded(_) | Slot::Wanted(_) | Slot::Queued(_) | Slot::Settled => None,
        }
    }

    /// The ticket in the run queue, held or queued.
    pub(crate) fn ticket(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) | Slot::Queued(ticket) => Some(ticket),
            Slot::Yielded(_) | Slot::Wanted(_) | Slot::Settled => None,
        }
    }
}

/// What an attempt returns to the run queue when it ends or waits.
pub(crate) struct Leaves {
    pub(crate) ticket: Option<Ticket>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) due: u64,
    /// Charge for limited tokens since the slot was granted.
    pub(crate) token_charge: u64,
}

pub(crate) struct Wants {
    pub(crate) owner: Arc<Owner>,
    pub(crate) agent: ActorRef<AgentMessage>,
    pub(crate) estimate: Price,
}
