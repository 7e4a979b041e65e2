//! Whether there is room for what is written down: a full disk stops what goes on, and lets it go on when there is room.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::registry::RegistryMessage;
use crate::services::Services;

/// Time until something is tried again for which there was no room.
pub(crate) const ROOM: Duration = Duration::from_secs(1);

/// Whether there is room.
#[derive(Default)]
pub(crate) struct Room {
    /// Why there is none, as long as that is so.
    full: watch::Sender<Option<String>>,
    /// Results that wait for some.
    waiting: AtomicUsize,
}

/// Something that waits for room.
pub(crate) struct Waits<'a>(&'a Room);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    /// Whether there is none.
    pub(crate) fn is_full(&self) -> bool {
        self.full.borrow().is_some()
    }

    /// Why there is none; tells when that changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<String>> {
        self.full.subscribe()
    }

    /// There is none: nothing goes on until there is, which is looked for from here on.
    pub(crate) fn is_missing(&self, why: &str) {
        self.full.send_if_modified(|full| {
            let first = full.is_none();
            if first {
                tracing::warn!(why, "nothing goes on until there is room on the disk");
                *full = Some(why.to_owned());
            }
            first
        });
    }

    /// Something waits for room, until what this gives is dropped.
    pub(crate) fn wait(&self, why: &str) -> Waits<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.is_missing(why);
        Waits(self)
    }

    /// Looks whether there is room again: then what waits for it goes on.
    pub(crate) fn look(services: &Services) {
        services.sweep_effects();
        let Room { full, waiting } = &services.room;
        if waiting.load(Ordering::Relaxed) == 0 && services.journal.has_room() {
            tracing::info!("there is room on the disk again");
            full.send_replace(None);
            services.links.tell_registry(RegistryMessage::Room);
        }
    }
}
