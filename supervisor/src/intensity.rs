//! Restart intensity: a sliding window of restarts, with the time as an argument.
//!
//! OTP's `add_restart` (`supervisor.erl`): each restart is recorded with its time, records older than the period are dropped, and the
//! supervisor gives up when more than `restarts` remain. A supervisor that gives up exits with `Shutdown`, which makes the failure
//! the problem of its parent: the parent restarts a permanent sub-supervisor with a clean state, and leaves a transient one down.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Restarts that a supervisor allows within a period before giving up (OTP's `intensity` and `period`).
///
/// `restarts` within `period` are allowed, the next one is not. The window slides, and the bound is inclusive: a
/// restart exactly `period` old still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// Restarts within the period; 0 makes the first failure final.
    pub restarts: u32,
    /// Length of the window; zero is refused by the spec checks.
    pub period: Duration,
}

impl Intensity {
    /// Never gives up, and remembers nothing: for pools that rely on the windows of their children.
    pub const UNLIMITED: Intensity = Intensity { restarts: u32::MAX, period: Duration::MAX };

    /// `restarts` within `period`.
    pub fn new(restarts: u32, period: Duration) -> Self {
        Intensity { restarts, period }
    }
}

impl Default for Intensity {
    /// One restart in five seconds.
    fn default() -> Self {
        Intensity { restarts: 1, period: Duration::from_secs(5) }
    }
}

/// Result of charging a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// Allowed and remembered.
    Allowed,
    /// Refused; nothing was remembered.
    Exhausted,
}

/// The restarts in the window: at most `restarts` instants; a charge costs amortised constant time.
#[derive(Debug, Clone)]
pub struct Window {
    limit: Intensity,
    charged: VecDeque<Instant>,
}

impl Window {
    /// An empty window.
    pub fn new(limit: Intensity) -> Self {
        Window { limit, charged: VecDeque::new() }
    }

    /// Charges one restart at `now`.
    ///
    /// `now` must not go back between calls; if it does, older charges keep counting.
    pub fn charge(&mut self, now: Instant) -> Charge {
        if self.limit.restarts == u32::MAX {
            return Charge::Allowed;
        }
        while let Some(oldest) = self.charged.front() {
            if now.saturating_duration_since(*oldest) <= self.limit.period {
                break;
            }
            self.charged.pop_front();
        }
        if self.charged.len() as u64 >= u64::from(self.limit.restarts) {
            return Charge::Exhausted;
        }
        self.charged.push_back(now);
        Charge::Allowed
    }

    /// Number of remembered restarts.
    pub fn len(&self) -> usize {
        self.charged.len()
    }

    /// True if no restart is remembered.
    pub fn is_empty(&self) -> bool {
        self.charged.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Charges at `seconds` and compares the results, as a word of `y` and `n`.
    fn check(restarts: u32, period: u64, seconds: &[u64], expected: &str) {
        let start = Instant::now();
        let mut window = Window::new(Intensity::new(restarts, Duration::from_secs(period)));
        let answers: String = seconds
            .iter()
            .map(|second| match window.charge(start + Duration::from_secs(*second)) {
                Charge::Allowed => 'y',
                Charge::Exhausted => 'n',
            })
            .collect();
        assert_eq!(answers, expected, "{restarts} in {period} s at {seconds:?}");
    }

    #[test]
    fn the_window_slides_and_its_bound_is_inclusive() {
        check(0, 1, &[0], "n");
        check(2, 10, &[0, 0, 0], "yyn");
        check(2, 10, &[0, 9, 11], "yyy");
        check(2, 10, &[0, 9, 10], "yyn");
        check(1, 1, &[0, 2, 4, 6], "yyyy");
    }

    #[test]
    fn an_unlimited_window_remembers_nothing() {
        let mut window = Window::new(Intensity::UNLIMITED);
        for _ in 0..1000 {
            assert_eq!(window.charge(Instant::now()), Charge::Allowed);
        }
        assert!(window.is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_counting_the_whole_history(
            restarts in 0u32..6,
            period in 1u64..20,
            gaps in proptest::collection::vec(0u64..8, 0..60),
        ) {
            let start = Instant::now();
            let mut window = Window::new(Intensity::new(restarts, Duration::from_secs(period)));
            let (mut now, mut allowed) = (0u64, Vec::new());
            for gap in gaps {
                now += gap;
                let recent = allowed.iter().filter(|at| now - **at <= period).count();
                let expected = if recent < restarts as usize { Charge::Allowed } else { Charge::Exhausted };
                prop_assert_eq!(window.charge(start + Duration::from_secs(now)), expected);
                if expected == Charge::Allowed {
                    allowed.push(now);
                }
                prop_assert!(window.len() <= restarts as usize);
            }
        }
    }
}
