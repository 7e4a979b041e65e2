//! Whether there is room for what is written down: a full disk stops what goes on, and lets it go on when there is room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::base::paused_time::{Pause, PausedTime};

/// Whether there is room.
#[derive(Default)]
pub(crate) struct DiskSpace {
    /// Why there is none, for records or for a result, as long as that is so.
    full: watch::Sender<Option<String>>,
    /// There is none for records: nothing goes on.
    stops: AtomicBool,
    /// Results that wait for some. Whatever needs less goes on.
    waiting: AtomicUsize,
}

/// A result that waits for room.
pub(crate) struct SpaceWait<'a> {
    room: &'a DiskSpace,
    _span: Pause<'a>,
}

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        self.room.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DiskSpace {
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
    pub(crate) fn wait<'a>(&'a self, why: &str, waited: &'a PausedTime) -> SpaceWait<'a> {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            tracing::warn!(why, "what was done waits for room on the disk");
        }
        self.tell(why, false);
        SpaceWait { room: self, _span: waited.begin() }
    }

    fn tell(&self, why: &str, is_new: bool) {
        self.full.send_if_modified(|full| {
            let first = full.is_none();
            full.get_or_insert_with(|| why.to_owned());
            first || is_new
        });
    }

    /// There is space again. Calls `resume` if records had none; whatever waits for space goes on.
    pub(crate) fn is_found(&self, resume: impl FnOnce()) {
        let DiskSpace { full, stops, waiting } = self;
        let goes_on = stops.swap(false, Ordering::SeqCst);
        if goes_on {
            tracing::info!("there is room on the disk again");
            resume();
        }
        // Read under the lock of the watch, which a caller that finds no space takes after setting its flag.
        full.send_if_modified(|full| {
            let found = !stops.load(Ordering::SeqCst) && waiting.load(Ordering::SeqCst) == 0;
            (found && full.take().is_some()) || goes_on
        });
    }
}
