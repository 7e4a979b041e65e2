//! Slot and time of an attempt: while it only waits for child runs or for turns of models, it has no slot and costs nothing.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

use ostler_kernel::port::BoxFuture;
use ostler_kernel::run::RunBudget;
use tokio::time::{Instant, sleep};

use super::{AROUND, AttemptJournal, Late};
use crate::attempts::model_turns::PendingTurn;
use crate::base::keys::AttemptKey;
use crate::base::lock::lock;

/// Delay before a full or restarting run queue is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// A step waiting for a child run or for a turn, until dropped.
pub(crate) struct WaitsForRun<'a> {
    log: &'a AttemptJournal,
    step: &'a str,
}

impl Drop for WaitsForRun<'_> {
    fn drop(&mut self) {
        self.log.note_waits(self.step, false);
    }
}

impl AttemptJournal {
    pub(crate) fn key(&self) -> AttemptKey {
        let of = &self.site.of;
        AttemptKey { run: self.site.run, node: of.node.clone(), attempt: of.attempt }
    }

    /// Marks a step as waiting for a child run or for a turn, until the returned value is dropped.
    pub(crate) fn waits_for_run<'a>(&'a self, step: &'a str) -> WaitsForRun<'a> {
        self.note_waits(step, true);
        WaitsForRun { log: self, step }
    }

    /// Waits for the turn of a call, without a slot if nothing else of the attempt runs. That time does not count against the timeout,
    /// like the time before a job has its slot. Never completes during a shutdown.
    pub(super) async fn wait_for_turn(&self, pending: PendingTurn) {
        let step = AROUND.try_get().ok().flatten();
        let waits = self.waits_for_run(step.as_deref().unwrap_or_default());
        let only_waits = lock(&self.steps).only_wait();
        let still = only_waits.then(|| self.waited.begin());
        tokio::select! {
            () = self.bill().turns.wait(pending) => {}
            never = self.ends_with_process() => match never {},
        }
        drop(still);
        drop(waits);
        self.sign();
        self.reclaim().await;
    }

    fn note_waits(&self, step: &str, waits: bool) {
        let mut steps = lock(&self.steps);
        steps.waiting = if waits { steps.waiting + 1 } else { steps.waiting.saturating_sub(1) };
        if let Some(open) = steps.open.get_mut(step) {
            open.waits = waits;
        }
        // The step may wait in another task.
        self.signs.notify_one();
        self.lulls.notify_waiters();
    }

    /// Polls a call. While nothing but waits for child runs and turns is left, the slot is yielded; the call continues once the
    /// attempt has a slot again.
    pub(crate) async fn lending<T>(&self, call: impl Future<Output = T>) -> T {
        let (mut call, mut again) = (pin!(call), None);
        let mut slot: Option<BoxFuture<'_, ()>> = None;
        std::future::poll_fn(|cx| {
            loop {
                if let Some(reclaimed) = &mut slot {
                    ready!(reclaimed.as_mut().poll(cx));
                    slot = None;
                }
                if let Poll::Ready(ended) = call.as_mut().poll(cx) {
                    return Poll::Ready(ended);
                }
                if !self.gave_up_waiting() {
                    break;
                }
                slot = Some(Box::pin(self.reclaim()));
            }
            again = (!self.yield_slot()).then(|| Box::pin(sleep(AGAIN)));
            if let Some(again) = &mut again {
                let _ = again.as_mut().poll(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// True if the slot was yielded for waits that were given up. Reported once.
    fn gave_up_waiting(&self) -> bool {
        let mut steps = lock(&self.steps);
        steps.waiting == 0 && std::mem::take(&mut steps.lent)
    }

    /// Yields an idle slot; `false` if that is impossible now.
    fn yield_slot(&self) -> bool {
        // A step that begins is registered under this lock before it asks for a slot.
        let mut steps = lock(&self.steps);
        if !steps.only_wait() {
            return true;
        }
        let (executor, key) = (&self.executor, self.key());
        if !executor.attempts.may_yield(&key) {
            return true;
        }
        let yielded = executor.scheduler.yield_slot(&key);
        steps.lent |= yielded;
        // The run that it waits for may have asked its question before.
        if yielded && executor.active_runs.all_opened_wait(key.run, &key.node) {
            executor.attempts.look_again(key.run, &key.node);
        }
        yielded
    }

    /// Waits for a slot after the attempt yielded its own, without using up the attempt's time. Never completes during
    /// a shutdown.
    pub(crate) async fn reclaim(&self) {
        let (executor, key) = (&self.executor, self.key());
        if !executor.attempts.is_without_slot(&key) {
            return;
        }
        let _still = self.waited.begin();
        while let Some(slot_notify) = executor.attempts.want(&key) {
            let mut notified = pin!(slot_notify.notified());
            notified.as_mut().enable();
            let has_room = executor.scheduler.reclaim(&key);
            if !executor.attempts.is_without_slot(&key) {
                return;
            }
            let again = async {
                match has_room {
                    true => std::future::pending().await,
                    false => sleep(AGAIN).await,
                }
            };
            tokio::select! {
                () = notified => {}
                () = again => {}
                never = self.ends_with_process() => match never {},
            }
        }
    }

    /// Completes during a shutdown, after the last acting step: the attempt then ends with its process.
    pub(crate) async fn ends_with_process(&self) -> Infallible {
        self.executor.journal.status.stopped().await;
        loop {
            let mut lull = pin!(self.lulls.notified());
            lull.as_mut().enable();
            // Without a slot nothing runs, and nothing begins any more.
            if self.executor.attempts.is_without_slot(&self.key()) || !lock(&self.steps).any_acts() {
                break;
            }
            lull.await;
        }
        self.executor.attempts.leave(&self.key());
        std::future::pending().await
    }

    /// Does the work within its timeout and its share of the run's budget; the share grows while the budget lasts. One
    /// millisecond of a slot is one credit.
    pub(crate) async fn within<T>(&self, timeout_ms: u64, work: impl Future<Output = T>) -> Result<T, Late> {
        let (begun, of) = (Instant::now(), (self.site.of.node.clone(), self.site.of.attempt));
        let mut work = pin!(work);
        // Most pure work completes at its first poll.
        if let Poll::Ready(ended) = futures::poll!(&mut work) {
            return Ok(ended);
        }
        let ask =
            |act: &dyn Fn(&mut RunBudget) -> Option<u64>| self.executor.run_budgets.with(self.site.run, act);
        let mut held = ask(&|run_budget| Some(run_budget.reserved(&of))).flatten();
        loop {
            // A time beyond the clock's range never comes.
            let in_time = || self.waited.end_of(begun, Duration::from_millis(timeout_ms));
            let paid = || {
                let ms = held.filter(|held| *held < timeout_ms)?;
                self.waited.paid_until(begun, Duration::from_millis(ms))
            };
            let ended = match in_time().into_iter().chain(paid()).min() {
                Some(until) => tokio::time::timeout_at(until, &mut work).await,
                None => Ok((&mut work).await),
            };
            if let Ok(ended) = ended {
                return Ok(ended);
            }
            // The work may have waited meanwhile.
            let now = Instant::now();
            let is_past = |until: Option<Instant>| until.is_some_and(|until| until <= now);
            if is_past(in_time()) {
                return Err(Late { ms: timeout_ms, spent: false });
            }
            if is_past(paid()) {
                match ask(&|run_budget| run_budget.reserve(&of, timeout_ms)).flatten() {
                    Some(more) => held = Some(more),
                    None => return Err(Late { ms: held.unwrap_or(0), spent: true }),
                }
            }
        }
    }
}
