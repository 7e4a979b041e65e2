//! The time of the run queue: how far it has passed, and the one timer that wakes the queue for the next change.

use std::time::Duration;

use ostler_scheduler::BucketLevels;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::messages::scheduler::SchedulerMessage;
use crate::scheduler::context::QueueContext;

pub(super) struct QueueTime {
    upto: Instant,
    timer: Option<(Instant, AbortHandle)>,
}

/// Levels of the buckets when a queue was closed. Another process begins with full buckets: what its first calls exceed, the providers
/// tell.
#[derive(Debug, Clone)]
pub(super) struct KeptLevels {
    pub(super) levels: BucketLevels,
    pub(super) at: Instant,
}

impl QueueTime {
    pub(super) fn starting(upto: Instant) -> QueueTime {
        QueueTime { upto, timer: None }
    }

    pub(super) fn upto(&self) -> Instant {
        self.upto
    }

    /// The time since the last call, in whole milliseconds.
    pub(super) fn pass(&mut self) -> u64 {
        let ms = u64::try_from(self.upto.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.upto += Duration::from_millis(ms);
        ms
    }

    /// Sets the timer for `ms` from the time passed so far, unless it is set for an earlier time.
    pub(super) fn wake_in(&mut self, ms: u64, cx: &QueueContext) {
        let Some(at) = self.upto.checked_add(Duration::from_millis(ms.max(1))) else { return };
        if self.timer.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        // Outside of the runtime nothing runs any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mailboxes = cx.mailboxes.clone();
        let timer = runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = mailboxes.scheduler.send(SchedulerMessage::TimePassed);
        });
        self.stop();
        self.timer = Some((at, timer.abort_handle()));
    }

    pub(super) fn fired(&mut self) {
        self.timer = None;
    }

    fn stop(&mut self) {
        if let Some((_, timer)) = self.timer.take() {
            timer.abort();
        }
    }
}

impl Drop for QueueTime {
    fn drop(&mut self) {
        self.stop();
    }
}
