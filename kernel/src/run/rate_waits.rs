//! What an attempt does when the provider of a model asks it to wait: wait and call again, or fail.
//!
//! A wait is no failure of the node, so it uses up none of its retries. The counts live with the attempt and are in no record: an
//! attempt that its process lost is made again from the beginning, asks the provider, and learns the present wait.

/// Most waits of one attempt for providers that refused its calls.
pub const RATE_WAITS_MAX: u32 = 32;

/// Longest sum of these waits, in milliseconds: an hour.
pub const RATE_WAIT_MS_MAX: u64 = 3_600_000;

/// The waits of an attempt so far.
///
/// ```
/// use ostler_kernel::run::{RATE_WAIT_MS_MAX, RateWaits};
///
/// let mut waits = RateWaits::default();
/// assert_eq!(waits.refused(Some(2_000)), Some(2_000));
/// // Without a time the node's own backoff decides.
/// assert_eq!(waits.refused(None), None);
/// // Longer than an attempt waits: the call has failed.
/// assert_eq!(waits.refused(Some(RATE_WAIT_MS_MAX)), None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateWaits {
    waits: u32,
    wait_ms: u64,
}

impl RateWaits {
    /// The provider refused a call and asks to wait for `next_call_ms`. Returns the time to wait before the call is made again;
    /// `None`: the call has failed.
    pub fn refused(&mut self, next_call_ms: Option<u64>) -> Option<u64> {
        let next_call_ms = next_call_ms?;
        let wait_ms = self.wait_ms.saturating_add(next_call_ms);
        if self.waits >= RATE_WAITS_MAX || wait_ms > RATE_WAIT_MS_MAX {
            return None;
        }
        *self = RateWaits { waits: self.waits + 1, wait_ms };
        Some(next_call_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_limited_in_number_and_in_time() {
        let mut waits = RateWaits::default();
        assert!((0..RATE_WAITS_MAX).all(|_| waits.refused(Some(0)) == Some(0)));
        assert_eq!(waits.refused(Some(0)), None);
        let mut waits = RateWaits::default();
        assert_eq!(waits.refused(Some(RATE_WAIT_MS_MAX - 1)), Some(RATE_WAIT_MS_MAX - 1));
        assert_eq!(waits.refused(Some(2)), None);
        assert_eq!(waits.refused(Some(1)), Some(1), "a shorter wait still fits");
        assert_eq!(waits.refused(Some(u64::MAX)), None);
    }
}
