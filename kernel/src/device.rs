//! Restart policy of devices: delays between restarts, and a circuit breaker.

/// Consecutive failures after which the breaker opens: calls are refused at once.
pub const BREAKER_FAILURES: u32 = 3;
/// Wait after the second consecutive failure, in milliseconds; each further failure doubles the wait.
pub const RESTART_WAIT_MS: u64 = 200;
/// Longest wait, in milliseconds.
pub const RESTART_WAIT_MS_MAX: u64 = 30_000;

/// Circuit breaker of one device: counts consecutive failures and decides when the device may start again.
///
/// ```
/// use ostler_kernel::device::{Breaker, Restart};
///
/// let mut breaker = Breaker::default();
/// assert_eq!(breaker.ended(false), Restart::Now);
/// assert_eq!(breaker.ended(false), Restart::After { wait_ms: 200 });
/// assert_eq!(breaker.ended(false), Restart::Refuse { wait_ms: 400 });
/// // A device that did some work was well: the count begins again.
/// assert_eq!(breaker.ended(true), Restart::Now);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
}

/// Decision after the end of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The next call starts the device.
    Now,
    /// The next call waits, then starts the device.
    After {
        /// Wait in milliseconds.
        wait_ms: u64,
    },
    /// Calls are refused at once. After the wait the next call starts the device as a trial.
    Refuse {
        /// Wait in milliseconds.
        wait_ms: u64,
    },
}

impl Breaker {
    /// Records the end of the device. `served`: the device did some work before, so the count of failures restarts at 1.
    pub fn ended(&mut self, served: bool) -> Restart {
        self.failures = if served { 1 } else { self.failures.saturating_add(1) };
        let doublings = self.failures.saturating_sub(2).min(16);
        let wait_ms = (RESTART_WAIT_MS << doublings).min(RESTART_WAIT_MS_MAX);
        match self.failures {
            0 | 1 => Restart::Now,
            failures if failures < BREAKER_FAILURES => Restart::After { wait_ms },
            _ => Restart::Refuse { wait_ms },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_to_its_limit_and_a_trial_that_fails_opens_the_breaker_again() {
        let mut breaker = Breaker::default();
        let waits: Vec<u64> = (0..u64::from(u8::MAX))
            .filter_map(|_| match breaker.ended(false) {
                Restart::Refuse { wait_ms } => Some(wait_ms),
                Restart::Now | Restart::After { .. } => None,
            })
            .collect();
        assert_eq!(waits[..3], [400, 800, 1_600]);
        assert_eq!(waits.last(), Some(&RESTART_WAIT_MS_MAX));
        assert!(waits.is_sorted());
    }
}
