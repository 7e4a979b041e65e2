//! Time in which the process did not run although attempts did: the process was stopped by a signal or a debugger, or its
//! machine was paused.
//!
//! A thread looks at the clock while attempts run. A look that comes much too late tells that the process stood still.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A look this late means that the process did not run; a busy machine delays a thread by less.
const STOPPED_MIN: Duration = Duration::from_secs(1);

static STOPS: Mutex<Stops> = Mutex::new(Stops { watched: 0, last: None, total: Duration::ZERO });

struct Stops {
    /// Attempts that run.
    watched: usize,
    /// The last look; `None` without a watching thread.
    last: Option<Instant>,
    total: Duration,
}

impl Stops {
    /// Counts the time since the last look as a stop if the look at `now` comes too late.
    fn look(&mut self, now: Instant) {
        let Some(last) = self.last else { return };
        let late = now.saturating_duration_since(last).saturating_sub(LOOK_EVERY);
        if late >= STOPPED_MIN {
            self.total += late;
        }
        self.last = Some(now);
    }
}

fn stops() -> MutexGuard<'static, Stops> {
    STOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches for stops of the process, until dropped.
pub(crate) struct StopWatch {
    before: Duration,
}

impl StopWatch {
    pub(crate) fn start() -> StopWatch {
        let mut stops = stops();
        stops.watched += 1;
        if stops.last.is_some() {
            stops.look(Instant::now());
        } else {
            let watching = thread::Builder::new().name("process-stops".into()).spawn(watch);
            match watching {
                Ok(_) => stops.last = Some(Instant::now()),
                Err(error) => tracing::warn!(%error, "stops of the process cannot be seen, and cost credits"),
            }
        }
        StopWatch { before: stops.total }
    }

    /// Time since the start in which the process did not run.
    pub(crate) fn stopped(&self) -> Duration {
        let mut stops = stops();
        stops.look(Instant::now());
        stops.total.saturating_sub(self.before)
    }
}

impl Drop for StopWatch {
    fn drop(&mut self) {
        stops().watched -= 1;
    }
}

fn watch() {
    loop {
        thread::sleep(LOOK_EVERY);
        let mut stops = stops();
        if stops.watched == 0 {
            stops.last = None;
            return;
        }
        stops.look(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_comes_much_too_late_is_a_stop() {
        let begun = Instant::now();
        let mut stops = Stops { watched: 1, last: Some(begun), total: Duration::ZERO };
        let mut now = begun;
        for (after, total) in [(100, 0), (900, 0), (1_099, 0), (1_100, 1_000), (100, 1_000), (5_100, 6_000)] {
            now += Duration::from_millis(after);
            stops.look(now);
            assert_eq!(stops.total, Duration::from_millis(total), "after {after} ms");
        }
    }
}
