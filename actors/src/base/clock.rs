//! Wall time that never jumps: the system clock is read once, and the monotonic clock carries it on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler_kernel::id::Ticks;
use tokio::time::Instant;

/// Follows tokio's clock, so paused time stands still.
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

    /// Milliseconds since the Unix epoch; negative before 1970.
    pub(crate) fn now(&self) -> Ticks {
        self.anchor_ms.saturating_add(millis(self.anchor.elapsed()))
    }
}

fn millis(span: Duration) -> Ticks {
    Ticks::try_from(span.as_millis()).unwrap_or(Ticks::MAX)
}
