//! The queued jobs of one agent.
//!
//! Most jobs state nothing but their cost, and wait in a fifo; the others, and those that came back from a slot, are sorted.

use std::collections::{BTreeMap, VecDeque};

use crate::job::Order;
use crate::arena::Arena;

/// Cancelled jobs that a fifo may hold beyond as many as live ones, before it is closed up.
const CANCELLED_SLACK: usize = 32;
/// Places an emptied fifo keeps, and how many times more than it needs it may hold.
const FIFO_KEPT: usize = 64;
const FIFO_SLACK: usize = 8;

/// Jobs by their place in the arena of payloads.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Never starts with a cancelled job.
    fifo: VecDeque<u32>,
    /// How many of the fifo are cancelled: their places are vacated, and released when they leave the fifo.
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

    /// Adds a job: at the end of the fifo, or in its order. Says whether it is first now.
    pub(crate) fn push(&mut self, at: u32, order: Option<Order>) -> bool {
        let Some(order) = order else { return self.push_plain(at) };
        self.sorted.insert(order, at);
        self.first() == Some(at)
    }

    /// Adds a job at the end of the fifo. Says whether it is first now.
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

    /// Takes note that a job of the fifo was cancelled and its place vacated.
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

    /// Lets cancelled jobs at the front of the fifo go.
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
    fn cancelling_behind_a_job_that_stays_does_not_grow_the_line() {
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
    fn a_line_gives_back_what_a_burst_took() {
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
