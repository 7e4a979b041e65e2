//! Attempts that an agent makes itself, as they take microseconds: without a task, a message and an append of their own.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::driver::RunDriver;
use super::launch::Launch;
use crate::attempts::attempt_table::{self, Ended};
use crate::registry::RegistryMessage;

/// Attempts, at most, that an agent makes itself in one turn: others have the thread before the next.
const IN_A_ROW_MAX: u32 = 64;

/// How long it may be about them, if each takes longer than it should; those after them are made beside it.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Slots that are looked at in one turn, at most, whatever becomes of them: what follows from them has room in one append.
const SLOTS_IN_A_TURN: u32 = 256;

/// What an agent has done itself in this turn.
#[derive(Default)]
pub(super) struct InlineBudget {
    started: Option<Instant>,
    attempts: u32,
    grants: u32,
    /// Credits that they cost, which nothing is written down of yet.
    unrecorded: u64,
}

impl InlineBudget {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        (self.started, self.attempts, self.grants) = (None, 0, 0);
    }

    /// A slot was granted.
    pub(super) fn count_grant(&mut self) {
        self.grants += 1;
    }

    /// Whether what else there is is for another turn.
    pub(super) fn is_full(&self) -> bool {
        self.grants >= SLOTS_IN_A_TURN || self.attempts >= IN_A_ROW_MAX
    }

    /// What was done so far is written down.
    pub(super) fn recorded(&mut self) {
        self.unrecorded = 0;
    }
}

impl RunDriver {
    /// Whether one more attempt may be made here in this turn.
    pub(super) fn has_time(&self) -> bool {
        self.in_flight.inline.started.is_none_or(|begun| begun.elapsed() < AT_ONCE)
    }

    /// Makes an attempt that only computes. It is written down with its beginning; who dies before has done nothing.
    pub(super) async fn run_inline(&mut self, mut launch: Launch) {
        let started = Instant::now();
        self.in_flight.inline.started.get_or_insert(started);
        self.in_flight.inline.attempts += 1;
        let Some(ended) = AssertUnwindSafe(&mut launch.body).catch_unwind().now_or_never() else {
            // It waits after all.
            self.in_flight.launches.push(launch);
            return;
        };
        let outcome = ended.unwrap_or_else(|panic| attempt_table::panicked(&*panic));
        let (duration_ms, cost) = attempt_table::cost_since(started);
        let owner = &self.arguments.owner;
        let (services, run) = (&self.services, self.opened.run);
        let (accounts, granted) = services.scheduling.settle(services, owner, run, launch.slot, cost);
        self.queue.granted.extend(granted);
        self.in_flight.inline.unrecorded += cost;
        self.record_result(&launch.key, Ended { outcome, duration_ms, cost, accounts }).await;
    }

    /// What was granted and is not used is free again.
    pub(super) fn release_all_slots(&mut self) {
        let granted = self.queue.granted.drain(..).map(|granted| granted.ticket);
        for slot in granted.chain(self.in_flight.launches.drain(..).map(|launch| launch.slot)) {
            self.services.scheduling.give_back(&self.services, slot);
        }
    }

    /// What was done here and is not written down costs nobody anything.
    pub(super) fn refund_unrecorded(&mut self) {
        let cost = std::mem::take(&mut self.in_flight.inline.unrecorded);
        if cost > 0 {
            self.book.unspend(self.opened.run, cost);
            self.services.scheduling.renew_terms(&self.services, &self.opened.client);
            let client = self.opened.client.clone();
            self.services.links.tell_registry(RegistryMessage::Credits { client });
        }
    }
}
