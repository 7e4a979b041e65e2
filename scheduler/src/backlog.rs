//! The queued jobs of one agent.
//!
//! Jobs without priority, deadline and rank wait in a FIFO queue, at four bytes each. All other jobs, and jobs that yielded, stand in
//! an ordered map. The order of both together is that of [`Order`].

use std::collections::{BTreeMap, VecDeque};

use crate::arena::Arena;
use crate::job::Order;

/// Cancelled jobs that a FIFO queue may hold, beyond the number of live ones, before compaction.
const CANCELLED_SLACK: usize = 32;
/// Capacity that an emptied FIFO queue keeps, and the ratio of capacity to length at which it shrinks.
const FIFO_KEPT: usize = 64;
const FIFO_SLACK: usize = 8;

/// Jobs, as indices of the arena of payloads.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Cancelled jobs stay inside until they reach the front; the front itself is never cancelled.
    fifo: VecDeque<u32>,
    /// Number of cancelled jobs in `fifo`. Their indices are vacated, and released when they leave `fifo`.
    cancelled: u32,
    sorted: BTreeMap<Order, u32>,
}

impl Backlog {
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        if !self.sorted.is_empty()
            && let Some((order, &at)) = self.sorted.first_key_value()
            && (self.fifo.is_empty() || order.precedes_plain())
        {
            return Some(at);
        }
        self.fifo.front().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.fifo.len() - self.cancelled as usize + self.sorted.len()
    }

    /// Adds a job, to `fifo` if `order` is `None`. Returns true if the job is now first.
    pub(crate) fn push(&mut self, at: u32, order: Option<Order>) -> bool {
        let Some(order) = order else { return self.push_plain(at) };
        self.sorted.insert(order, at);
        self.first() == Some(at)
    }

    /// Adds a job at the end of `fifo`. Returns true if the job is now first.
    #[inline]
    pub(crate) fn push_plain(&mut self, at: u32) -> bool {
        self.fifo.push_back(at);
        self.fifo.len() == 1 && self.first() == Some(at)
    }

    #[inline]
    pub(crate) fn pop_first<P>(&mut self, payloads: &mut Arena<P>) -> Option<u32> {
        if !self.sorted.is_empty()
            && let Some(first) = self.sorted.first_entry()
            && (self.fifo.is_empty() || first.key().precedes_plain())
        {
            return Some(first.remove());
        }
        let at = self.fifo.pop_front()?;
        self.drop_cancelled(payloads);
        if self.fifo.len() * FIFO_SLACK < self.fifo.capacity() && self.fifo.capacity() > FIFO_KEPT {
            self.fifo.shrink_to(FIFO_KEPT.max(self.fifo.len() * 2));
        }
        Some(at)
    }

    pub(crate) fn remove_sorted(&mut self, order: &Order) {
        self.sorted.remove(order);
    }

    /// Counts a cancelled job of `fifo`. The caller has vacated the index.
    pub(crate) fn cancel_in_fifo<P>(&mut self, payloads: &mut Arena<P>) {
        self.cancelled += 1;
        self.drop_cancelled(payloads);
        let cancelled = self.cancelled as usize;
        if cancelled > self.fifo.len() - cancelled + CANCELLED_SLACK {
            self.fifo.retain(|&at| {
                let live = payloads.is_occupied(at);
                if !live {
                    payloads.release(at);
                }
                live
            });
            self.cancelled = 0;
        }
    }

    /// Restores the invariant that the front of `fifo` is not cancelled.
    fn drop_cancelled<P>(&mut self, payloads: &mut Arena<P>) {
        while self.cancelled > 0
            && let Some(&at) = self.fifo.front()
            && !payloads.is_occupied(at)
        {
            self.fifo.pop_front();
            payloads.release(at);
            self.cancelled -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_behind_a_job_that_stays_does_not_grow_the_queue() {
        let (mut backlog, mut payloads) = (Backlog::default(), Arena::new());
        let (head, _) = payloads.insert((), 0);
        backlog.push(head, None);
        for _ in 0..10_000 {
            let (at, _) = payloads.insert((), 0);
            backlog.push(at, None);
            payloads.vacate(at);
            backlog.cancel_in_fifo(&mut payloads);
            assert_eq!(backlog.len(), 1);
            assert!(backlog.fifo.len() <= 2 * (1 + CANCELLED_SLACK));
        }
        assert_eq!(backlog.pop_first(&mut payloads), Some(head));
        assert_eq!((backlog.first(), backlog.fifo.len()), (None, 0));
    }

    #[test]
    fn the_queue_shrinks_after_a_burst() {
        let (mut backlog, mut payloads) = (Backlog::default(), Arena::new());
        for _ in 0..10_000 {
            let (at, _) = payloads.insert((), 0);
            backlog.push(at, None);
        }
        while let Some(at) = backlog.pop_first(&mut payloads) {
            payloads.remove(at);
        }
        assert!(backlog.fifo.capacity() <= 2 * FIFO_KEPT);
    }
}
