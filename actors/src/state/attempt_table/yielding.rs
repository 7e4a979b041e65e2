//! The slot of an attempt: one that only waits gives it back, and wants one again to go on. Whatever changes here is told the run
//! queue under its lock, so that the two agree.

use std::sync::Arc;

use ostler_scheduler::Price;
use tokio::sync::Notify;

use super::{AttemptState, AttemptTable};
use crate::base::attempt_end::cost_since;
use crate::base::keys::AttemptKey;
use crate::messages::slots::Ticket;
use crate::state::attempt_slot::{Leaves, Slot, Wants};

impl AttemptTable {
    /// The slots that attempts hold, and those that they are queued for to go on.
    pub(crate) fn slots(&self) -> Vec<Ticket> {
        self.entries.iter().filter_map(|entry| entry.slot.ticket()).collect()
    }

    /// Whether an attempt has given its slot back, and has none again.
    pub(crate) fn is_without_slot(&self, key: &AttemptKey) -> bool {
        let is_without = |slot| matches!(slot, Slot::Yielded(_) | Slot::Wanted(_) | Slot::Queued(_));
        self.entries.get(key).is_some_and(|entry| is_without(entry.slot))
    }

    /// Whether an attempt that runs has a slot to give back, or wants one that it need not have.
    pub(crate) fn may_yield(&self, key: &AttemptKey) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        let has = matches!(entry.slot, Slot::Held(_) | Slot::Wanted(_) | Slot::Queued(_));
        has && matches!(entry.state, AttemptState::Running { .. })
    }

    /// An attempt that runs waits without a slot from here on: what it leaves.
    pub(crate) fn yield_slot(&self, key: &AttemptKey) -> Option<Leaves> {
        let mut entry = self.entries.get_mut(key)?;
        if !matches!(entry.state, AttemptState::Running { .. }) {
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
            Slot::Yielded(_) | Slot::Settled => return None,
        };
        entry.charged += due;
        entry.slot = Slot::Yielded(left);
        Some(Leaves { ticket, owner: Arc::clone(&entry.owner), due })
    }

    /// An attempt wants a slot again. Gives what tells it that it has one.
    pub(crate) fn want(&self, key: &AttemptKey) -> Option<Arc<Notify>> {
        let mut entry = self.entries.get_mut(key)?;
        if let Slot::Yielded(left) = entry.slot {
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

    /// What an attempt wants a slot for that is not queued for one in this epoch of the scheduler.
    pub(crate) fn wants(&self, key: &AttemptKey, epoch: u64) -> Option<Wants> {
        let entry = self.entries.get(key)?;
        let estimate = match entry.slot {
            Slot::Wanted(left) => left,
            Slot::Queued(ticket) if ticket.epoch != epoch => ticket.estimate,
            Slot::Queued(_) | Slot::Held(_) | Slot::Yielded(_) | Slot::Settled => return None,
        };
        let credits = if entry.drains { 0 } else { estimate.credits };
        let estimate = Price { credits, ..estimate };
        let runs = matches!(entry.state, AttemptState::Running { .. });
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
