//! The slot of an attempt: one that only waits gives it back, and wants one again to go on. Whatever changes here is told the run
//! queue under its lock, so that the two agree.

use std::sync::Arc;

use ostler_scheduler::Price;
use ractor::ActorRef;
use tokio::sync::Notify;

use super::{AttemptKey, Effects, State, cost_since};
use crate::run::AgentMessage;
use crate::scheduler::{Owner, Ticket};

/// What an attempt has of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// It holds one.
    Held(Ticket),
    /// It waits without; what it is expected to cost from here on.
    Vacated(Price),
    /// It wants one again, and is not queued for it yet.
    Wanted(Price),
    /// It is queued for one.
    Queued(Ticket),
    /// It has ended, and that is settled.
    Settled,
}

impl Slot {
    /// The slot that it holds.
    pub(super) fn held(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) => Some(ticket),
            Slot::Vacated(_) | Slot::Wanted(_) | Slot::Queued(_) | Slot::Settled => None,
        }
    }

    /// What the run queue knows it by.
    pub(super) fn ticket(self) -> Option<Ticket> {
        match self {
            Slot::Held(ticket) | Slot::Queued(ticket) => Some(ticket),
            Slot::Vacated(_) | Slot::Wanted(_) | Slot::Settled => None,
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

impl Effects {
    /// The slots that attempts hold, and those that they are queued for to go on.
    pub(crate) fn slots(&self) -> Vec<Ticket> {
        self.entries.iter().filter_map(|entry| entry.slot.ticket()).collect()
    }

    /// Whether an attempt has given its slot back, and has none again.
    pub(crate) fn is_without_slot(&self, key: &AttemptKey) -> bool {
        let is_without = |slot| matches!(slot, Slot::Vacated(_) | Slot::Wanted(_) | Slot::Queued(_));
        self.entries.get(key).is_some_and(|entry| is_without(entry.slot))
    }

    /// Whether an attempt that runs has a slot to give back, or wants one that it need not have.
    pub(crate) fn may_vacate(&self, key: &AttemptKey) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        let has = matches!(entry.slot, Slot::Held(_) | Slot::Wanted(_) | Slot::Queued(_));
        has && matches!(entry.state, State::Running { .. })
    }

    /// An attempt that runs waits without a slot from here on: what it leaves.
    pub(crate) fn vacate(&self, key: &AttemptKey) -> Option<Leaves> {
        let mut entry = self.entries.get_mut(key)?;
        if !matches!(entry.state, State::Running { .. }) {
            return None;
        }
        let (ticket, due, left) = match entry.slot {
            Slot::Held(ticket) => {
                entry.waited.without_slot();
                let (_, cost) = cost_since(entry.started + entry.waited.unpaid());
                let due = cost.saturating_sub(entry.charged);
                (Some(ticket), due, less(ticket.estimate, due))
            }
            Slot::Queued(ticket) => (Some(ticket), 0, ticket.estimate),
            Slot::Wanted(left) => (None, 0, left),
            Slot::Vacated(_) | Slot::Settled => return None,
        };
        entry.charged += due;
        entry.slot = Slot::Vacated(left);
        Some(Leaves { ticket, owner: Arc::clone(&entry.owner), due })
    }

    /// An attempt wants a slot again. Gives what tells it that it has one.
    pub(crate) fn want(&self, key: &AttemptKey) -> Option<Arc<Notify>> {
        let mut entry = self.entries.get_mut(key)?;
        if let Slot::Vacated(left) = entry.slot {
            entry.slot = Slot::Wanted(left);
        }
        Some(Arc::clone(&entry.stirs))
    }

    /// An attempt has its end to tell alone: whatever slot it wants from here on waits for no credits.
    pub(crate) fn drains(&self, key: &AttemptKey) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.drains = true;
        }
    }

    /// An attempt that is queued for a slot wants it on other terms: what it leaves.
    pub(crate) fn unqueue(&self, key: &AttemptKey) -> Option<Leaves> {
        let mut entry = self.entries.get_mut(key)?;
        let Slot::Queued(ticket) = entry.slot else { return None };
        entry.slot = Slot::Wanted(ticket.estimate);
        Some(Leaves { ticket: Some(ticket), owner: Arc::clone(&entry.owner), due: 0 })
    }

    /// What an attempt wants a slot for that is not queued for one in this life of the scheduler.
    pub(crate) fn wants(&self, key: &AttemptKey, life: u64) -> Option<Wants> {
        let entry = self.entries.get(key)?;
        let estimate = match entry.slot {
            Slot::Wanted(left) => left,
            Slot::Queued(ticket) if ticket.life != life => ticket.estimate,
            Slot::Queued(_) | Slot::Held(_) | Slot::Vacated(_) | Slot::Settled => return None,
        };
        let credits = if entry.drains { 0 } else { estimate.credits };
        let estimate = Price { credits, ..estimate };
        let runs = matches!(entry.state, State::Running { .. });
        runs.then(|| Wants { owner: Arc::clone(&entry.owner), agent: entry.agent.clone(), estimate })
    }

    /// Every attempt that wants a slot again.
    pub(crate) fn all_wanting(&self) -> Vec<AttemptKey> {
        self.keys(|_, entry| matches!(entry.slot, Slot::Wanted(_) | Slot::Queued(_)))
    }

    /// An attempt is queued for a slot.
    pub(crate) fn queued(&self, key: &AttemptKey, ticket: Ticket) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.slot = Slot::Queued(ticket);
        }
    }

    /// An attempt has the slot that it was queued for; false if it wants none.
    pub(crate) fn granted(&self, key: &AttemptKey, ticket: Ticket) -> bool {
        let Some(mut entry) = self.entries.get_mut(key) else { return false };
        if entry.slot != Slot::Queued(ticket) {
            return false;
        }
        entry.slot = Slot::Held(ticket);
        entry.waited.with_slot();
        entry.stirs.notify_waiters();
        true
    }

    /// There was no room for an attempt in the run queue: it is to ask again.
    pub(crate) fn ask_again(&self, key: &AttemptKey) {
        if let Some(entry) = self.entries.get(key) {
            entry.stirs.notify_waiters();
        }
    }
}

/// What is left of an estimate.
fn less(Price { charge, credits, tokens }: Price, used: u64) -> Price {
    Price {
        charge: charge.saturating_sub(used).max(1),
        // None at all means that a reservation pays for it: whoever has used up its estimate waits for credits still.
        credits: credits.saturating_sub(used).max(credits.min(1)),
        tokens: tokens.saturating_sub(used),
    }
}
