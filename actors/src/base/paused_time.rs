//! Time that does not count for an attempt: waits for disk space or for a slot.

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::lock::lock;
use crate::base::process_stops::StopWatch;

/// Delay before a write is tried again that found no disk space.
pub(crate) const SPACE_RETRY: Duration = Duration::from_secs(1);

/// A wait for disk space or for a slot, until it is dropped.
pub(crate) struct Pause<'a>(&'a PausedTime);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        lock(&self.0.still).end();
        lock(&self.0.unpaid).end();
    }
}

#[derive(Default)]
pub(crate) struct PausedTime {
    /// Waits for disk space or for a slot; they do not count against the timeout.
    still: Mutex<PauseSpans>,
    /// The same waits, and other times without a slot; they cost nothing.
    unpaid: Mutex<PauseSpans>,
    /// Stops of the process cost nothing either. They count against the timeout, because the world went on.
    stops: OnceLock<StopWatch>,
}

#[derive(Default)]
struct PauseSpans {
    over: Duration,
    waiting: u32,
    since: Option<Instant>,
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
    /// Begins a wait for disk space or for a slot.
    pub(crate) fn begin(&self) -> Pause<'_> {
        lock(&self.still).begin();
        lock(&self.unpaid).begin();
        Pause(self)
    }

    /// Leaves the time out in which the process does not run from now on.
    pub(crate) fn watch_stops(&self) {
        self.stops.get_or_init(StopWatch::start);
    }

    fn stopped(&self) -> Duration {
        self.stops.get().map_or(Duration::ZERO, StopWatch::stopped)
    }

    pub(crate) fn without_slot(&self) {
        lock(&self.unpaid).begin();
    }

    pub(crate) fn with_slot(&self) {
        lock(&self.unpaid).end();
    }

    /// Time so far that does not count against the timeout.
    pub(crate) fn total(&self) -> Duration {
        lock(&self.still).total()
    }

    pub(crate) fn unpaid(&self) -> Duration {
        lock(&self.unpaid).total() + self.stopped()
    }

    /// End of the last wait; now, during one.
    pub(crate) fn last(&self) -> Option<Instant> {
        let still = lock(&self.still);
        still.since.map(|_| Instant::now()).or(still.until)
    }

    /// When `time` is used up for work that began at `begun`, as far as the waits so far tell. `None`: never.
    pub(crate) fn end_of(&self, begun: Instant, time: Duration) -> Option<Instant> {
        lock(&self.still).end_of(begun, time)
    }

    /// The same for the time that costs credits.
    pub(crate) fn paid_until(&self, begun: Instant, time: Duration) -> Option<Instant> {
        lock(&self.unpaid).end_of(begun.checked_add(self.stopped())?, time)
    }
}
