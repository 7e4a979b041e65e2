//! Inline attempts: calls of microseconds run in the driver's own turn, without a task, a message or an append of their own.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::driver::RunDriver;
use super::launch::Launch;
use crate::attempts::attempt_table::{self, Ended};
use crate::registry::RegistryMessage;

/// Inline attempts in one turn. Other futures get the thread before the next turn.
const IN_A_ROW_MAX: u32 = 64;

/// Time for inline attempts in one turn; later attempts of the turn get tasks.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Granted slots in one turn, so that the resulting events fit into one append.
const SLOTS_IN_A_TURN: u32 = 256;

/// What inline attempts have used of this turn.
#[derive(Default)]
pub(super) struct InlineBudget {
    started: Option<Instant>,
    attempts: u32,
    grants: u32,
    /// Credits charged for attempts that are not appended yet.
    unrecorded: u64,
}

impl InlineBudget {
    pub(super) fn begin(&mut self) {
        (self.started, self.attempts, self.grants) = (None, 0, 0);
    }

    pub(super) fn count_grant(&mut self) {
        self.grants += 1;
    }

    /// Whether the rest must wait for another turn.
    pub(super) fn is_full(&self) -> bool {
        self.grants >= SLOTS_IN_A_TURN || self.attempts >= IN_A_ROW_MAX
    }

    /// Notes that the attempts so far are appended.
    pub(super) fn recorded(&mut self) {
        self.unrecorded = 0;
    }
}

impl RunDriver {
    pub(super) fn has_time(&self) -> bool {
        self.in_flight.inline.started.is_none_or(|begun| begun.elapsed() < AT_ONCE)
    }

    /// Runs an attempt that only computes. Its intent and result go into one append: a crash before it loses nothing but time.
    pub(super) async fn run_inline(&mut self, mut launch: Launch) {
        let started = Instant::now();
        self.in_flight.inline.started.get_or_insert(started);
        self.in_flight.inline.attempts += 1;
        let Some(ended) = AssertUnwindSafe(&mut launch.body).catch_unwind().now_or_never() else {
            // The call waits after all, so it becomes a task.
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

    /// Returns all granted slots that are not used.
    pub(super) fn release_all_slots(&mut self) {
        let granted = self.queue.granted.drain(..).map(|granted| granted.ticket);
        for slot in granted.chain(self.in_flight.launches.drain(..).map(|launch| launch.slot)) {
            self.services.scheduling.give_back(&self.services, slot);
        }
    }

    /// Refunds inline attempts that were never appended.
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
