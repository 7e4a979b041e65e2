//! Estimates of the tokens of a prompt before the provider counts them.

use crate::text::TOKEN_BYTES;

/// A ratio of 1, in thousandths.
const ONE: u64 = 1_000;

/// Bounds of the correction, in thousandths: a token has between one and sixteen bytes.
const RATIO_MIN: u64 = ONE / 4;
const RATIO_MAX: u64 = 4 * ONE;

/// The newest call counts for one in `NEWEST` of the average.
const NEWEST: u64 = 4;

/// Estimates the input tokens of one model: a token for four bytes, corrected by the exponentially weighted moving average
/// of counted over estimated tokens.
///
/// The average stays between a quarter and four, so an estimate is at most one token for each byte. What a provider counts
/// beyond the estimate may exceed a budget by that error; the answer never does.
///
/// ```
/// use ostler_kernel::ledger::InputEstimate;
/// let mut estimate = InputEstimate::default();
/// assert_eq!(estimate.tokens(4_000), 1_000);
/// (0..40).for_each(|_| estimate.learn(4_000, 1_500));
/// assert!((1_480..=1_500).contains(&estimate.tokens(4_000)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputEstimate {
    /// Counted over estimated tokens, in thousandths.
    ratio: u64,
}

impl Default for InputEstimate {
    fn default() -> InputEstimate {
        InputEstimate { ratio: ONE }
    }
}

impl InputEstimate {
    /// Estimated tokens of a prompt of so many bytes.
    pub fn tokens(&self, bytes: u64) -> u64 {
        bytes.div_ceil(TOKEN_BYTES).saturating_mul(self.ratio).div_ceil(ONE)
    }

    /// Learns from a call whose provider counted the prompt.
    pub fn learn(&mut self, bytes: u64, counted: u64) {
        if bytes == 0 || counted == 0 {
            return;
        }
        let ratio = counted.saturating_mul(ONE) / bytes.div_ceil(TOKEN_BYTES);
        let ratio = ratio.clamp(RATIO_MIN, RATIO_MAX);
        self.ratio = (self.ratio * (NEWEST - 1) + ratio) / NEWEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_absurd_count_moves_the_estimate_by_a_bounded_step() {
        let mut estimate = InputEstimate::default();
        estimate.learn(4, u64::MAX);
        assert_eq!(estimate.tokens(4_000), 1_750);
        (0..100).for_each(|_| estimate.learn(4, u64::MAX));
        assert!(estimate.tokens(4_000) <= 4_000, "at most a token for each byte");
        (0..100).for_each(|_| estimate.learn(u64::MAX, 1));
        assert!(estimate.tokens(4_000) >= 250);
    }
}
