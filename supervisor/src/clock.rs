//! The source of time for restart windows and shutdown limits.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;

/// A monotonic clock for restart windows and shutdown limits.
///
/// [`SystemClock`] is the real one; tests use [`crate::testing::ManualClock`].
pub trait Clock: Send + Sync {
    /// The present time; never goes back.
    fn now(&self) -> Instant;

    /// Completes once [`Clock::now`] has reached `at`. Dropping the future cancels the wait.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// The clock of the tokio runtime, including `tokio::time::pause`. The runtime needs timers (`enable_time`): without
/// them a supervisor panics when waiting for a stopping child, and its children are killed.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// Waits for `span`; a span beyond the clock's range never ends.
pub(crate) async fn pass(clock: &dyn Clock, span: Duration) {
    match clock.now().checked_add(span) {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
