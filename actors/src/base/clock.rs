//! Wall time that never jumps: read once, carried on by the monotonic clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_kernel::id::Ticks;
use tokio::time::Instant;

/// The time of a system. Follows tokio's clock, so a paused one stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    anchor_ms: Ticks,
    anchor: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let anchor_ms = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        };
        Clock { anchor_ms, anchor: Instant::now() }
    }

    /// Milliseconds since the Unix epoch; before 1970, negative.
    pub(crate) fn now(&self) -> Ticks {
        self.anchor_ms.saturating_add(millis(self.anchor.elapsed()))
    }
}

fn millis(span: Duration) -> Ticks {
    Ticks::try_from(span.as_millis()).unwrap_or(Ticks::MAX)
}
