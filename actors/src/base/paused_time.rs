//! Time that an attempt does not use: while it waits for space on the disk, or for a slot.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::lock::lock;

/// Time until something is tried again for which there was no room.
pub(crate) const SPACE_RETRY: Duration = Duration::from_secs(1);

/// Time in which an attempt waits for room, or for a slot, until this is dropped.
pub(crate) struct Pause<'a>(&'a PausedTime);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        lock(&self.0.still).end();
        lock(&self.0.unpaid).end();
    }
}

/// How long an attempt has waited.
#[derive(Default)]
pub(crate) struct PausedTime {
    /// For room, or for a slot to go on: that is none of its time.
    still: Mutex<PauseSpans>,
    /// That, and without a slot for something else: that costs nobody anything.
    unpaid: Mutex<PauseSpans>,
}

#[derive(Default)]
struct PauseSpans {
    /// Those that are over.
    over: Duration,
    /// Results that wait at the same time, and since when any does.
    waiting: u32,
    since: Option<Instant>,
    /// When the last one was over.
    until: Option<Instant>,
}

impl PauseSpans {
    fn begin(&mut self) {
        self.waiting += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            let since = self.since.take();
            self.over += since.map_or(Duration::ZERO, |since| since.elapsed());
            self.until = Some(Instant::now());
        }
    }

    fn total(&self) -> Duration {
        self.over + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn end_of(&self, begun: Instant, time: Duration) -> Option<Instant> {
        let end = begun.checked_add(self.total())?.checked_add(time)?;
        Some(if self.since.is_some() { end.max(Instant::now() + SPACE_RETRY) } else { end })
    }
}

impl PausedTime {
    /// It waits for room or for a slot from here on.
    pub(crate) fn begin(&self) -> Pause<'_> {
        lock(&self.still).begin();
        lock(&self.unpaid).begin();
        Pause(self)
    }

    /// It has no slot from here on.
    pub(crate) fn without_slot(&self) {
        lock(&self.unpaid).begin();
    }

    /// It has one again.
    pub(crate) fn with_slot(&self) {
        lock(&self.unpaid).end();
    }

    /// What is none of its time, so far.
    pub(crate) fn total(&self) -> Duration {
        lock(&self.still).total()
    }

    /// What costs nobody anything, so far.
    pub(crate) fn unpaid(&self) -> Duration {
        lock(&self.unpaid).total()
    }

    /// When its time stood still last: now, if it does.
    pub(crate) fn last(&self) -> Option<Instant> {
        let still = lock(&self.still);
        still.since.map(|_| Instant::now()).or(still.until)
    }

    /// When work that began then has had so much time besides, as far as it can be told: while it waits, it is looked at again later.
    /// `None`: never.
    pub(crate) fn end_of(&self, begun: Instant, time: Duration) -> Option<Instant> {
        lock(&self.still).end_of(begun, time)
    }

    /// The same, of time that it pays for.
    pub(crate) fn paid_until(&self, begun: Instant, time: Duration) -> Option<Instant> {
        lock(&self.unpaid).end_of(begun, time)
    }
}
