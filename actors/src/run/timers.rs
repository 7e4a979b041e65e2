//! Timers of a run.

use ostler_kernel::event::TimerKind;
use ostler_kernel::id::{NodeId, Ticks};
use ostler_kernel::policy::View;
use tokio::time::{Duration, Instant};

use super::deadlines::Deadline;
use super::driver::RunDriver;
use crate::messages::agent::AgentMessage;

/// A century, the longest wait: adding it to the clock cannot overflow.
const LONGEST_WAIT_MS: u64 = 100 * 366 * 24 * 3_600 * 1_000;

impl RunDriver {
    pub(super) fn set_deadline(&mut self, node: &NodeId, kind: TimerKind, at: Ticks) {
        let wait = at.saturating_sub(self.services.journal.now()).max(0) as u64;
        // The clock may have been set back while no process ran.
        let wait = match kind {
            TimerKind::Backoff => wait.min(self.run.backoff_max(node).max(0) as u64),
            TimerKind::Human | TimerKind::Sleep => wait,
        };
        let instance = self.run.instance(node);
        let number = instance.map_or(0, |instance| match kind {
            TimerKind::Human => instance.requests,
            TimerKind::Sleep | TimerKind::Backoff => instance.attempts,
        });
        let wait = Duration::from_millis(wait.min(LONGEST_WAIT_MS));
        self.timers.deadlines.set(node, Deadline { at: Instant::now() + wait, kind, number });
    }

    /// Sets the time at which the time of a goal run is up. The deadline is absolute, so a crash does not move it.
    pub(super) fn set_wall(&mut self) {
        let now = self.services.journal.now();
        let at = View::of(&self.run, now).and_then(View::wall_at);
        let wait = |at: Ticks| at.saturating_sub(now).unsigned_abs().min(LONGEST_WAIT_MS);
        self.timers.wall = at.map(|at| Instant::now() + Duration::from_millis(wait(at)));
    }

    pub(super) fn arm_timer(&mut self) {
        let Some(at) = self.timers.first() else { return };
        if self.timers.armed.as_ref().is_some_and(|(set, task)| *set == at && !task.is_finished()) {
            return;
        }
        let me = self.me.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = me.cast(AgentMessage::Due);
        });
        if let Some((_, earlier)) = self.timers.armed.replace((at, task)) {
            earlier.abort();
        }
    }
}
