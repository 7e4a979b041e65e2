//! What scores add up to.

use serde::{Deserialize, Serialize};

use super::BEST_PM;

/// Share of the newest score in a reputation, in tenths (alpha 0.3).
const ALPHA_TENTHS: u64 = 3;

/// What scores add up to: an average in which the newest counts for three tenths (definition 15, alpha 0.3).
///
/// After a run of n scores that differ from `s` by e1 (the oldest) to en, the reputation differs from `s` by
/// at most 0.7^(n-1)·e1 and the sum of 0.3·0.7^(n-k)·ek of the others: theorem 16 of the paper, put right. As printed, its second
/// term is the greatest of all ek, which never falls, so that it proves no convergence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reputation {
    /// In millionths; without a score, nothing.
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

    /// In thousandths; `None`: there was no score yet.
    pub fn pm(&self) -> Option<u16> {
        (self.scores > 0).then_some(((self.micro + 500) / 1_000) as u16)
    }

    /// Scores so far.
    pub fn scores(&self) -> u64 {
        self.scores
    }

    /// The reputation of all these together, each by the number of its scores; in thousandths.
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

    /// 0.7^(n-1)·e1 + the sum of 0.3·0.7^(n-k)·ek for k = 2..=n, in thousandths.
    fn bound(scores: &[u16], aim: u16) -> f64 {
        let last = scores.len() - 1;
        let terms = scores.iter().enumerate().map(|(at, score)| {
            let decay = 0.7f64.powi((last - at) as i32);
            let off = (f64::from(*score) - f64::from(aim)).abs();
            off * if at == 0 { decay } else { 0.3 * decay }
        });
        terms.sum()
    }

    /// As theorem 16 is printed.
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

    /// One bad start, and good ever after: the printed bound never comes below what the start was off by.
    #[test]
    fn a_reputation_converges_and_the_bound_of_the_paper_does_not_show_it() {
        let mut scores = vec![0];
        scores.extend([900; 60]);
        assert!(off(of(&scores), 900) < 0.01);
        assert!(bound(&scores, 900) < 0.01);
        assert!(printed_bound(&scores, 900) >= 900.0);
    }

    proptest! {
        /// The true bound of theorem 16, with what rounding to millionths can add. It is reached where all scores are on one side.
        #[test]
        fn a_reputation_is_as_near_as_its_scores(scores in proptest::collection::vec(0u16..=1_000, 1..40), aim in 0u16..=1_000) {
            let (found, bound) = (off(of(&scores), aim), bound(&scores, aim));
            prop_assert!(found <= bound + 0.01, "{found} > {bound}");
            if scores.iter().all(|score| *score <= aim) {
                prop_assert!((found - bound).abs() <= 0.01, "{found} is not {bound}");
            }
        }

        /// Where scores come ever nearer to something, so does the reputation.
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
