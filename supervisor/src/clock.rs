//! Where time comes from: restart windows and shutdown limits never look at a clock of their own.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;

/// A monotonic clock that restart windows and shutdown limits are measured on.
///
/// [`SystemClock`] is the real one; tests use [`crate::testing::ManualClock`].
pub trait Clock: Send + Sync {
    /// The present moment; never goes back.
    fn now(&self) -> Instant;

    /// Completes once [`Clock::now`] has reached `at`. Dropping the future gives the wait up.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// The clock of the tokio runtime, which follows `tokio::time::pause` as well. The runtime needs its timers (`enable_time`):
/// without them a supervisor panics when it is to wait for a child that stops, and its children are killed.
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

/// Waits for `span` on `clock`; a span too long for the clock to express never ends.
pub(crate) async fn pass(clock: &dyn Clock, span: Duration) {
    match clock.now().checked_add(span) {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
