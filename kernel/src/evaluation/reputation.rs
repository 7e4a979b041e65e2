//! An agent's reputation.

use serde::{Deserialize, Serialize};

use super::BEST_PM;

/// Weight of the newest score in tenths: alpha is 0.3.
const ALPHA_TENTHS: u64 = 3;

/// Exponentially weighted moving average (EWMA) of an agent's composite scores (Agent Scheduler paper, definition 15).
///  
/// The first score is the initial value; each further score `s` moves the average to `0.3·s + 0.7·average`. The state is in
/// millionths, three digits finer than the scores, so that rounding does not accumulate visibly.
///  
/// Error bound: if score k differs from a value v by e_k, then after n scores the reputation differs from v by at most
/// `0.7^(n-1)·e_1 + sum over k = 2..n of 0.3·0.7^(n-k)·e_k`. This corrects theorem 16 of the paper. The printed bound replaces
/// the sum by the maximum of all e_k, which never decreases and therefore proves no convergence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reputation {
    /// Millionths; 0 without scores.
    micro: u64,
    scores: u64,
}

impl Reputation {
    /// The reputation after one more score, in thousandths.
    #[must_use]
    pub fn after(self, score_pm: u16) -> Reputation {
        let score = u64::from(score_pm.min(BEST_PM)) * 1_000;
        let micro = match self.scores {
            0 => score,
            _ => (ALPHA_TENTHS * score + (10 - ALPHA_TENTHS) * self.micro + 5) / 10,
        };
        Reputation { micro, scores: self.scores.saturating_add(1) }
    }

    /// The value in thousandths; `None` without scores.
    pub fn pm(&self) -> Option<u16> {
        (self.scores > 0).then_some(((self.micro + 500) / 1_000) as u16)
    }

    /// Number of scores.
    pub fn scores(&self) -> u64 {
        self.scores
    }

    /// Average of several reputations in thousandths, weighted by their numbers of scores.
    pub fn mean_pm(all: impl IntoIterator<Item = Reputation>) -> Option<u16> {
        let (sum, scores) = all.into_iter().fold((0u128, 0u128), |(sum, scores), one| {
            (sum + u128::from(one.micro) * u128::from(one.scores), scores + u128::from(one.scores))
        });
        (scores > 0).then(|| ((sum / scores.max(1) + 500) / 1_000) as u16)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(scores: &[u16]) -> Reputation {
        scores.iter().fold(Reputation::default(), |reputation, score| reputation.after(*score))
    }

    fn off(reputation: Reputation, aim: u16) -> f64 {
        (reputation.micro as f64 / 1_000.0 - f64::from(aim)).abs()
    }

    /// The corrected bound, in thousandths.
    fn bound(scores: &[u16], aim: u16) -> f64 {
        let last = scores.len() - 1;
        let terms = scores.iter().enumerate().map(|(at, score)| {
            let decay = 0.7f64.powi((last - at) as i32);
            let off = (f64::from(*score) - f64::from(aim)).abs();
            off * if at == 0 { decay } else { 0.3 * decay }
        });
        terms.sum()
    }

    /// Theorem 16 as printed.
    fn printed_bound(scores: &[u16], aim: u16) -> f64 {
        let off = |score: &u16| (f64::from(*score) - f64::from(aim)).abs();
        0.7f64.powi(scores.len() as i32) * off(&scores[0]) + scores.iter().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn a_reputation_begins_with_the_first_score() {
        let first = Reputation::default().after(800);
        assert_eq!((first.pm(), first.scores()), (Some(800), 1));
        assert_eq!(first.after(0).pm(), Some(560));
        assert_eq!(Reputation::default().pm(), None);
        let mean = Reputation::mean_pm([first, first.after(800), Reputation::default()]);
        assert_eq!(mean, Some(800));
    }

    /// After one bad score and many good ones the printed bound still equals the first error.
    #[test]
    fn a_reputation_converges_and_the_bound_of_the_paper_does_not_show_it() {
        let mut scores = vec![0];
        scores.extend([900; 60]);
        assert!(off(of(&scores), 900) < 0.01);
        assert!(bound(&scores, 900) < 0.01);
        assert!(printed_bound(&scores, 900) >= 900.0);
    }

    proptest! {
        /// The corrected bound plus rounding. Equality holds if all scores lie on one side.
        #[test]
        fn a_reputation_is_as_near_as_its_scores(scores in proptest::collection::vec(0u16..=1_000, 1..40), aim in 0u16..=1_000) {
            let (found, bound) = (off(of(&scores), aim), bound(&scores, aim));
            prop_assert!(found <= bound + 0.01, "{found} > {bound}");
            if scores.iter().all(|score| *score <= aim) {
                prop_assert!((found - bound).abs() <= 0.01, "{found} is not {bound}");
            }
        }

        #[test]
        fn a_reputation_follows_scores_that_settle(noise in proptest::collection::vec(-1_000i32..=1_000, 80), aim in 0u16..=1_000) {
            let settling = noise.iter().enumerate().map(|(at, noise)| {
                let off = f64::from(*noise) * 0.8f64.powi(at as i32);
                (i32::from(aim) + off.round() as i32).clamp(0, 1_000) as u16
            });
            let scores: Vec<u16> = settling.collect();
            prop_assert!(off(of(&scores), aim) < 0.1);
        }
    }
}
