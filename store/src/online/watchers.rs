//! Tasks waiting for a stream to grow.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::port::StreamId;
use tokio::sync::watch;

const PURGE_AT_MIN: usize = 64;

#[derive(Default)]
pub(super) struct Watchers {
    watched: Mutex<Watched>,
    /// True if any task may wait. Read without the lock, as most appends have no watcher to notify.
    any: AtomicBool,
}

#[derive(Default)]
struct Watched {
    streams: HashMap<StreamId, watch::Sender<u64>>,
    purge_at: usize,
}

impl Watchers {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether any task may wait that read a stream's head before the last append. Must be called after the append, or under
    /// the lock protecting the heads.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// A receiver of the sequence number of the stream's last record. The channel starts at 0: read the head after subscribing
    /// and before waiting.
    fn subscribe(&self, stream: StreamId) -> watch::Receiver<u64> {
        let mut watched = self.watched();
        self.any.store(true, Ordering::Release);
        if watched.streams.len() >= watched.purge_at.max(PURGE_AT_MIN) {
            watched.streams.retain(|_, sender| sender.receiver_count() > 0);
            watched.purge_at = watched.streams.len() * 2;
        }
        watched.streams.entry(stream).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Notifies the watchers of streams now ending at `seq`.
    pub(super) fn notify(&self, streams: impl Iterator<Item = (StreamId, u64)>) {
        if !self.any() {
            return;
        }
        let mut watched = self.watched();
        for (stream, seq) in streams {
            let Some(sender) = watched.streams.get(&stream) else { continue };
            if sender.receiver_count() == 0 {
                watched.streams.remove(&stream);
            } else {
                // Two appends may notify in the wrong order; streams only grow.
                sender.send_if_modified(|known| std::mem::replace(known, seq.max(*known)) < seq);
            }
        }
        if watched.streams.is_empty() {
            self.any.store(false, Ordering::Release);
        }
    }

    /// Makes all watchers read the heads again, after a rollback.
    pub(super) fn wake_all(&self) {
        self.watched().streams.clear();
    }

    /// Waits until the stream has a record behind `after`. `head` returns the sequence number of the last record.
    pub(super) async fn grows_past(&self, stream: StreamId, after: u64, head: impl Fn() -> u64) {
        loop {
            let mut receiver = self.subscribe(stream);
            // The channel closes on a rollback; the loop reads the head again.
            if head() > after || receiver.wait_for(|seq| *seq > after).await.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_kernel::port::StreamKind;

    #[test]
    fn streams_without_watchers_are_purged() {
        let watchers = Watchers::default();
        for index in 0..10 * PURGE_AT_MIN {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&index.to_le_bytes());
            drop(watchers.subscribe(StreamId { partition: 0, kind: StreamKind::Run, key }));
        }
        assert!(watchers.watched().streams.len() <= PURGE_AT_MIN);
    }
}
