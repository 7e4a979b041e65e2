//! Whether there is room for what is written down: a full disk stops what goes on, and lets it go on when there is room.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::lock::lock;
use crate::registry::RegistryMessage;
use crate::services::Services;

/// Time until something is tried again for which there was no room.
pub(crate) const ROOM: Duration = Duration::from_secs(1);

/// Whether there is room.
#[derive(Default)]
pub(crate) struct Room {
    /// Why there is none, for records or for a result, as long as that is so.
    full: watch::Sender<Option<String>>,
    /// There is none for records: nothing goes on.
    stops: AtomicBool,
    /// Results that wait for some. Whatever needs less goes on.
    waiting: AtomicUsize,
}

/// A result that waits for room.
pub(crate) struct Waits<'a> {
    room: &'a Room,
    _span: Span<'a>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.room.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Time in which an attempt waits for room, or for a slot, until this is dropped.
pub(crate) struct Span<'a>(&'a Waited);

impl Drop for Span<'_> {
    fn drop(&mut self) {
        lock(&self.0.still).end();
        lock(&self.0.unpaid).end();
    }
}

/// How long an attempt has waited.
#[derive(Default)]
pub(crate) struct Waited {
    /// For room, or for a slot to go on: that is none of its time.
    still: Mutex<Spans>,
    /// That, and without a slot for something else: that costs nobody anything.
    unpaid: Mutex<Spans>,
}

#[derive(Default)]
struct Spans {
    /// Those that are over.
    over: Duration,
    /// Results that wait at the same time, and since when any does.
    waiting: u32,
    since: Option<Instant>,
    /// When the last one was over.
    until: Option<Instant>,
}

impl Spans {
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
        Some(if self.since.is_some() { end.max(Instant::now() + ROOM) } else { end })
    }
}

impl Waited {
    /// It waits for room or for a slot from here on.
    pub(crate) fn begin(&self) -> Span<'_> {
        lock(&self.still).begin();
        lock(&self.unpaid).begin();
        Span(self)
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

impl Room {
    /// Whether there is none for records.
    pub(crate) fn is_full(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }

    /// Why there is none, for records or for a result; tells when that changes, and when it is for records or is not any more.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.full.subscribe()
    }

    /// There is none for records: nothing goes on until there is, which is looked for from here on.
    pub(crate) fn is_missing(&self, why: &str) {
        let is_new = !self.stops.swap(true, Ordering::SeqCst);
        if is_new {
            tracing::warn!(why, "nothing goes on until there is room on the disk");
        }
        self.tell(why, is_new);
    }

    /// A result waits for room, until what this gives is dropped.
    pub(crate) fn wait<'a>(&'a self, why: &str, waited: &'a Waited) -> Waits<'a> {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            tracing::warn!(why, "what was done waits for room on the disk");
        }
        self.tell(why, false);
        Waits { room: self, _span: waited.begin() }
    }

    fn tell(&self, why: &str, is_new: bool) {
        self.full.send_if_modified(|full| {
            let first = full.is_none();
            full.get_or_insert_with(|| why.to_owned());
            first || is_new
        });
    }

    /// Looks whether there is room again: then what waits for it goes on.
    pub(crate) fn look(services: &Services) {
        services.sweep_effects();
        let Room { full, stops, waiting } = &services.room;
        if !services.journal.has_room() {
            return;
        }
        let goes_on = stops.swap(false, Ordering::SeqCst);
        if goes_on {
            tracing::info!("there is room on the disk again");
            services.links.tell_registry(RegistryMessage::Room);
        }
        // Looked at under its lock, which whoever says that there is none takes behind that.
        full.send_if_modified(|full| {
            let found = !stops.load(Ordering::SeqCst) && waiting.load(Ordering::SeqCst) == 0;
            (found && full.take().is_some()) || goes_on
        });
    }
}
