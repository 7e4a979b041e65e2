//! Inline attempts: calls of microseconds run in the driver's own turn, without a task, a message or an append of their own.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::Instant;

use super::attempt_launch::Launch;
use super::driver::RunDriver;
use super::inline_budget::AT_ONCE;
use crate::base::attempt_end::{Ended, cost_since, panicked};
use crate::messages::registry::RegistryMessage;

impl RunDriver {
    pub(super) fn has_time(&self) -> bool {
        self.in_flight.inline.started.is_none_or(|begun| begun.elapsed() < AT_ONCE)
    }

    /// Runs an attempt that only computes. Intent and result go into one append: an earlier crash loses nothing but
    /// time.
    pub(super) async fn run_inline(&mut self, mut launch: Launch) {
        let started = Instant::now();
        self.in_flight.inline.started.get_or_insert(started);
        self.in_flight.inline.attempts += 1;
        let Some(ended) = AssertUnwindSafe(&mut launch.body).catch_unwind().now_or_never() else {
            // The call waits after all, so it becomes a task.
            self.in_flight.launches.push(launch);
            return;
        };
        let outcome = ended.unwrap_or_else(|panic| panicked(&*panic));
        let (duration_ms, cost) = cost_since(started);
        let owner = &self.arguments.owner;
        let (services, run) = (&self.services, self.opened.run);
        let cost = services.run_budgets.chargeable(&launch.key, cost);
        let (accounts, granted) = services.scheduler.settle(owner, run, launch.slot, cost);
        self.queue.granted.extend(granted);
        self.in_flight.inline.unrecorded += cost;
        let model_calls = launch.log.take_model_calls();
        self.record_result(&launch.key, Ended { outcome, duration_ms, cost, accounts, model_calls }).await;
    }

    pub(super) fn release_all_slots(&mut self) {
        let granted = self.queue.granted.drain(..).map(|granted| granted.ticket);
        for slot in granted.chain(self.in_flight.launches.drain(..).map(|launch| launch.slot)) {
            self.services.scheduler.give_back(slot);
        }
    }

    /// Refunds inline attempts that were never appended.
    pub(super) fn refund_unrecorded(&mut self) {
        let cost = std::mem::take(&mut self.in_flight.inline.unrecorded);
        if cost > 0 {
            self.book.unspend(self.opened.run, cost);
            self.services.scheduler.renew_terms(&self.opened.client);
            let client = self.opened.client.clone();
            self.services.mailboxes.tell_registry(RegistryMessage::Credits { client });
        }
    }
}
