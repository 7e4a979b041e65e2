//! Tools for tests of trees: a manual clock, and faults on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use crate::tree::Call;
use crate::{ChildId, Clock, SupervisorRef};

/// A clock that moves only when it is advanced. Clones share the time.
///
/// ```
/// # use std::time::Duration;
/// # use ostler_supervisor::{Clock, testing::ManualClock};
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3));
/// assert_eq!(clock.now() - before, Duration::from_secs(3));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    start: Instant,
    time: Mutex<Time>,
    slept: Notify,
}

#[derive(Default)]
struct Time {
    elapsed: Duration,
    next: u64,
    sleepers: BTreeMap<u64, (Instant, oneshot::Sender<()>)>,
}

impl ManualClock {
    /// A clock at the present time.
    pub fn new() -> Self {
        let shared = Shared { start: Instant::now(), time: Mutex::default(), slept: Notify::new() };
        ManualClock { shared: Arc::new(shared) }
    }

    /// Moves the clock forward and wakes all sleeps that are over.
    pub fn advance(&self, by: Duration) {
        let mut time = self.shared.lock();
        time.elapsed += by;
        let now = self.shared.start + time.elapsed;
        let due: Vec<u64> =
            time.sleepers.iter().filter(|(_, (at, _))| *at <= now).map(|(key, _)| *key).collect();
        for key in due {
            if let Some((_, wake)) = time.sleepers.remove(&key) {
                // The sleeper may have been dropped.
                let _ = wake.send(());
            }
        }
    }

    /// Time moved since the clock was created.
    pub fn elapsed(&self) -> Duration {
        self.shared.lock().elapsed
    }

    /// Waits until at least `count` sleeps are pending for the next advance.
    pub async fn sleeping(&self, count: usize) {
        loop {
            let mut slept = std::pin::pin!(self.shared.slept.notified());
            slept.as_mut().enable();
            if self.shared.lock().sleepers.len() >= count {
                return;
            }
            slept.await;
        }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.shared.start + self.elapsed()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let mut time = self.shared.lock();
        if self.shared.start + time.elapsed >= at {
            return Box::pin(std::future::ready(()));
        }
        let key = time.next;
        time.next += 1;
        let (wake, woken) = oneshot::channel();
        time.sleepers.insert(key, (at, wake));
        drop(time);
        self.shared.slept.notify_waiters();
        let sleeper = Sleeper { key, shared: self.shared.clone() };
        Box::pin(async move {
            // The sender leaves the map only to send, or with the clock, which `sleeper` keeps.
            let _ = woken.await;
            drop(sleeper);
        })
    }
}

struct Sleeper {
    key: u64,
    shared: Arc<Shared>,
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.lock().sleepers.remove(&self.key);
    }
}

/// Aborts the task of the running worker `id`, like a runtime that shuts down; the worker ends as
/// [`crate::Exit::Cancelled`]. Returns whether such a worker existed.
pub async fn cancel_child(supervisor: &SupervisorRef, id: impl Into<ChildId>) -> bool {
    let id = id.into();
    supervisor.call_of(&id.clone(), |reply| Call::Abort { id, reply }).await.unwrap_or(false)
}
