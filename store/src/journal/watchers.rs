//! Who waits for which stream to grow.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_kernel::port::StreamId;
use tokio::sync::watch;

/// Entries below which nobody looks for ones that nobody waits on any more.
const SWEEP_AT_MIN: usize = 64;

/// Who waits for which stream to grow.
#[derive(Default)]
pub(crate) struct Watchers {
    watched: Mutex<Watched>,
    /// Whether anybody may be there: told without the lock, as nearly every append asks it and nearly none has to tell anybody.
    any: AtomicBool,
}

#[derive(Default)]
struct Watched {
    streams: HashMap<StreamId, watch::Sender<u64>>,
    sweep_at: usize,
}

impl Watchers {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody may wait who looked at a stream before it last grew. To be asked when it has grown, or under the lock
    /// that a look at its head takes.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// A receiver of the number of the stream's last record. It starts at 0, so look at the stream itself after
    /// subscribing and before waiting.
    fn subscribe(&self, stream: StreamId) -> watch::Receiver<u64> {
        let mut watched = self.watched();
        self.any.store(true, Ordering::Release);
        if watched.streams.len() >= watched.sweep_at.max(SWEEP_AT_MIN) {
            watched.streams.retain(|_, sender| sender.receiver_count() > 0);
            watched.sweep_at = watched.streams.len() * 2;
        }
        watched.streams.entry(stream).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Says that the last record of each stream is now `seq`.
    pub(crate) fn grown(&self, streams: impl Iterator<Item = (StreamId, u64)>) {
        if !self.any() {
            return;
        }
        let mut watched = self.watched();
        for (stream, seq) in streams {
            let Some(sender) = watched.streams.get(&stream) else { continue };
            if sender.receiver_count() == 0 {
                watched.streams.remove(&stream);
            } else {
                // Two appends may report in the wrong order; a stream only grows.
                sender.send_if_modified(|known| std::mem::replace(known, seq.max(*known)) < seq);
            }
        }
        if watched.streams.is_empty() {
            self.any.store(false, Ordering::Release);
        }
    }

    /// Makes everyone look again: records were taken back.
    pub(crate) fn reset(&self) {
        self.watched().streams.clear();
    }

    /// Waits until the stream has a record after `after`, where `head` tells the number of its last one.
    pub(crate) async fn grows_past(&self, stream: StreamId, after: u64, head: impl Fn() -> u64) {
        loop {
            let mut receiver = self.subscribe(stream);
            // A closed channel means that records were taken back: look again.
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
    fn streams_that_nobody_waits_on_any_more_are_forgotten() {
        let watchers = Watchers::default();
        for index in 0..10 * SWEEP_AT_MIN {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&index.to_le_bytes());
            drop(watchers.subscribe(StreamId { partition: 0, kind: StreamKind::Run, key }));
        }
        assert!(watchers.watched().streams.len() <= SWEEP_AT_MIN);
    }
}
