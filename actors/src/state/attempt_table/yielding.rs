//! Yielding a slot while an attempt only waits. The run queue is told under its lock, so both agree.

use std::sync::Arc;

use ostler_scheduler::Price;
use tokio::sync::Notify;

use super::{AttemptState, AttemptTable};
use crate::base::attempt_end::cost_since;
use crate::base::keys::AttemptKey;
use crate::messages::slots::Ticket;
use crate::state::attempt_slot::{Leaves, Slot, Wants};

impl AttemptTable {
    pub(crate) fn slots(&self) -> Vec<Ticket> {
        self.entries.iter().filter_map(|entry| entry.slot.ticket()).collect()
    }

    /// True if an attempt has yielded its slot and has none again.
    pub(crate) fn is_without_slot(&self, key: &AttemptKey) -> bool {
        let is_without = |slot| matches!(slot, Slot::Yielded(_) | Slot::Wanted(_) | Slot::Queued(_));
        self.entries.get(key).is_some_and(|entry| is_without(entry.slot))
    }

    /// True if a running attempt has a slot to yield, or wants one that it no longer needs.
    pub(crate) fn may_yield(&self, key: &AttemptKey) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        let has = matches!(entry.slot, Slot::Held(_) | Slot::Wanted(_) | Slot::Queued(_));
        has && matches!(entry.state, AttemptState::Running { .. })
    }

    /// Takes the slot of an attempt that waits from now on.
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
        // A queued ticket is cancelled without a settlement.
        let was_held = entry.slot.held().is_some();
        entry.charged += due;
        entry.slot = Slot::Yielded(left);
        let token_charge = if was_held { std::mem::take(&mut entry.token_charge) } else { 0 };
        Some(Leaves { ticket, owner: Arc::clone(&entry.owner), due, token_charge })
    }

    /// Marks that an attempt wants a slot again, and returns its signal.
    pub(crate) fn want(&self, key: &AttemptKey) -> Option<Arc<Notify>> {
        let mut entry = self.entries.get_mut(key)?;
        if let Slot::Yielded(left) = entry.slot {
            entry.slot = Slot::Wanted(left);
        }
        Some(Arc::clone(&entry.slot_notify))
    }

    /// Marks that an attempt only reports its end and needs no credits for further slots.
    pub(crate) fn drains(&self, key: &AttemptKey) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.drains = true;
        }
    }

    /// Takes the queued slot of an attempt, to queue it on other terms.
    pub(crate) fn unqueue(&self, key: &AttemptKey) -> Option<Leaves> {
        let mut entry = self.entries.get_mut(key)?;
        let Slot::Queued(ticket) = entry.slot else { return None };
        entry.slot = Slot::Wanted(ticket.estimate);
        Some(Leaves { ticket: Some(ticket), owner: Arc::clone(&entry.owner), due: 0, token_charge: 0 })
    }

    /// What an attempt wants a slot for, unless it is queued in the epoch.
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

    pub(crate) fn all_wanting(&self) -> Vec<AttemptKey> {
        self.keys(|_, entry| matches!(entry.slot, Slot::Wanted(_) | Slot::Queued(_)))
    }

    pub(crate) fn queued(&self, key: &AttemptKey, ticket: Ticket) {
        if let Some(mut entry) = self.entries.get_mut(key) {
            entry.slot = Slot::Queued(ticket);
        }
    }

    /// Gives an attempt its queued slot; `false` if it wants none.
    pub(crate) fn granted(&self, key: &AttemptKey, ticket: Ticket) -> bool {
        let Some(mut entry) = self.entries.get_mut(key) else { return false };
        if entry.slot != Slot::Queued(ticket) {
            return false;
        }
        entry.slot = Slot::Held(ticket);
        entry.waited.with_slot();
        entry.slot_notify.notify_waiters();
        true
    }

    /// Wakes an attempt that the full run queue rejected, to ask again.
    pub(crate) fn ask_again(&self, key: &AttemptKey) {
        if let Some(entry) = self.entries.get(key) {
            entry.slot_notify.notify_waiters();
        }
    }
}

fn less(Price { charge, credits, tokens }: Price, used: u64) -> Price {
    Price {
        charge: charge.saturating_sub(used).max(1),
        // No credits at all mark a reservation; otherwise at least one keeps the attempt waiting for credits.
        credits: credits.saturating_sub(used).max(credits.min(1)),
        tokens: tokens.saturating_sub(used),
    }
}
