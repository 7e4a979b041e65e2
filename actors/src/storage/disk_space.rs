//! Disk space for records and results: a full disk suspends work, and free space resumes it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::base::paused_time::{Pause, PausedTime};

#[derive(Default)]
pub(crate) struct DiskSpace {
    /// The reason why there is no space, for records or for a result.
    full: watch::Sender<Option<String>>,
    stops: AtomicBool,
    /// Results that wait for space; smaller writes go on.
    waiting: AtomicUsize,
}

pub(crate) struct SpaceWait<'a> {
    disk: &'a DiskSpace,
    _pause: Pause<'a>,
}

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        self.disk.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DiskSpace {
    /// True if records have no space.
    pub(crate) fn is_full(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }

    /// Watches the reason why there is no space, for records or for a result; `None` while there is.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.full.subscribe()
    }

    /// Records have no space: suspends work and starts looking for space.
    pub(crate) fn is_missing(&self, why: &str) {
        let is_new = !self.stops.swap(true, Ordering::SeqCst);
        if is_new {
            tracing::warn!(why, "nothing goes on until there is room on the disk");
        }
        self.tell(why, is_new);
    }

    /// Registers a result that waits for space, until the returned value is dropped.
    pub(crate) fn wait<'a>(&'a self, why: &str, waited: &'a PausedTime) -> SpaceWait<'a> {
        if self.waiting.fetch_add(1, Ordering::SeqCst) == 0 {
            tracing::warn!(why, "what was done waits for room on the disk");
        }
        self.tell(why, false);
        SpaceWait { disk: self, _pause: waited.begin() }
    }

    fn tell(&self, why: &str, is_new: bool) {
        self.full.send_if_modified(|full| {
            let first = full.is_none();
            full.get_or_insert_with(|| why.to_owned());
            first || is_new
        });
    }

    /// Space is available again. Calls `resume` if records had none, and wakes all waits.
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
