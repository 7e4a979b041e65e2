//! The queued jobs of one agent.
//!
//! Most jobs state nothing but their cost, and wait in a line; the others, and those that came back from a slot, are sorted.

use std::collections::{BTreeMap, VecDeque};

use crate::job::Order;
use crate::slab::Slab;

/// Cancelled jobs that a line may hold beyond as many as live ones, before it is closed up.
const CANCELLED_SLACK: usize = 32;
/// Places an emptied line keeps, and how many times more than it needs it may hold.
const LINE_KEPT: usize = 64;
const LINE_SLACK: usize = 8;

/// Jobs by their place in the slab of payloads.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Never starts with a cancelled job.
    line: VecDeque<u32>,
    /// How many of the line are cancelled: their places are vacated, and released when they leave the line.
    cancelled: u32,
    sorted: BTreeMap<Order, u32>,
}

impl Backlog {
    /// The job that goes next.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        if !self.sorted.is_empty()
            && let Some((order, &at)) = self.sorted.first_key_value()
            && (self.line.is_empty() || order.precedes_plain())
        {
            return Some(at);
        }
        self.line.front().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len() - self.cancelled as usize + self.sorted.len()
    }

    /// Adds a job: at the end of the line, or in its order. Says whether it is first now.
    pub(crate) fn push(&mut self, at: u32, order: Option<Order>) -> bool {
        let Some(order) = order else { return self.push_plain(at) };
        self.sorted.insert(order, at);
        self.first() == Some(at)
    }

    /// Adds a job at the end of the line. Says whether it is first now.
    #[inline]
    pub(crate) fn push_plain(&mut self, at: u32) -> bool {
        self.line.push_back(at);
        self.line.len() == 1 && self.first() == Some(at)
    }

    #[inline]
    pub(crate) fn pop_first<P>(&mut self, payloads: &mut Slab<P>) -> Option<u32> {
        if !self.sorted.is_empty()
            && let Some(first) = self.sorted.first_entry()
            && (self.line.is_empty() || first.key().precedes_plain())
        {
            return Some(first.remove());
        }
        let at = self.line.pop_front()?;
        self.trim(payloads);
        if self.line.len() * LINE_SLACK < self.line.capacity() && self.line.capacity() > LINE_KEPT {
            self.line.shrink_to(LINE_KEPT.max(self.line.len() * 2));
        }
        Some(at)
    }

    pub(crate) fn remove_sorted(&mut self, order: &Order) {
        self.sorted.remove(order);
    }

    /// Takes note that a job of the line was cancelled and its place vacated.
    pub(crate) fn cancel_in_line<P>(&mut self, payloads: &mut Slab<P>) {
        self.cancelled += 1;
        self.trim(payloads);
        let cancelled = self.cancelled as usize;
        if cancelled > self.line.len() - cancelled + CANCELLED_SLACK {
            self.line.retain(|&at| {
                let live = payloads.is_taken(at);
                if !live {
                    payloads.release(at);
                }
                live
            });
            self.cancelled = 0;
        }
    }

    /// Lets cancelled jobs at the front of the line go.
    fn trim<P>(&mut self, payloads: &mut Slab<P>) {
        while self.cancelled > 0
            && let Some(&at) = self.line.front()
            && !payloads.is_taken(at)
        {
            self.line.pop_front();
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
        let (mut backlog, mut payloads) = (Backlog::default(), Slab::new());
        let (head, _) = payloads.insert((), 0);
        backlog.push(head, None);
        for _ in 0..10_000 {
            let (at, _) = payloads.insert((), 0);
            backlog.push(at, None);
            payloads.vacate(at);
            backlog.cancel_in_line(&mut payloads);
            assert_eq!(backlog.len(), 1);
            assert!(backlog.line.len() <= 2 * (1 + CANCELLED_SLACK));
        }
        assert_eq!(backlog.pop_first(&mut payloads), Some(head));
        assert_eq!((backlog.first(), backlog.line.len()), (None, 0));
    }

    #[test]
    fn a_line_gives_back_what_a_burst_took() {
        let (mut backlog, mut payloads) = (Backlog::default(), Slab::new());
        for _ in 0..10_000 {
            let (at, _) = payloads.insert((), 0);
            backlog.push(at, None);
        }
        while let Some(at) = backlog.pop_first(&mut payloads) {
            payloads.remove(at);
        }
        assert!(backlog.line.capacity() <= 2 * LINE_KEPT);
    }
}
