//! How well a run was done: six dimensions in thousandths, one score, and the reputation that scores add up to.
//!
//! Everything is integers, so that every replay comes to the same.

use serde::{Deserialize, Serialize};

use crate::event::{AttemptResult, Outcome};
use crate::id::Ticks;
use crate::run::Category;

/// The best of anything here: thousandths of one.
pub const BEST_PM: u16 = 1_000;

/// Share of the newest score in a reputation, in tenths (alpha 0.3).
const ALPHA_TENTHS: u64 = 3;

/// What a run did, counted as its attempts end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    attempts: u64,
    failed: u64,
    /// Results that a contract was held against, and those that broke it.
    judged: u64,
    broken: u64,
    cost: u64,
    /// Of attempts that gave what was asked for.
    useful_cost: u64,
    /// Sum of how punctual each attempt was, in thousandths.
    punctual_pm: u64,
}

impl Tally {
    /// Counts an attempt that ended, of a node with this timeout, with or without a contract. A wait is none.
    pub fn count(&mut self, result: &AttemptResult, timeout: Ticks, has_contract: bool) {
        let ok = matches!(result.outcome, Outcome::Ok(_));
        if ok && result.cost == 0 {
            return;
        }
        self.attempts += 1;
        self.cost = self.cost.saturating_add(result.cost);
        self.punctual_pm += punctual_pm(result.duration_ms, timeout);
        match &result.outcome {
            Outcome::Ok(_) => {
                self.useful_cost = self.useful_cost.saturating_add(result.cost);
                self.judged += u64::from(has_contract);
            }
            Outcome::Failed(failure) => {
                self.failed += 1;
                let broken = u64::from(failure.category == Category::InvalidOutput);
                self.judged += broken;
                self.broken += broken;
            }
        }
    }

    /// Credits that attempts cost so far, all together.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// An attempt that came too late, or after its node was given up: paid for in vain.
    pub fn count_late(&mut self, result: &AttemptResult) {
        self.cost = self.cost.saturating_add(result.cost);
    }

    /// The scores of the run, if it did anything: after so many patches and replans of those it was allowed.
    pub fn scores(&self, revisions: u64, revisions_max: u64) -> Option<Scores> {
        let share = |part: u64, whole: u64| {
            let share = u128::from(part) * u128::from(BEST_PM) / u128::from(whole.max(1));
            share.min(BEST_PM.into()) as u16
        };
        (self.attempts > 0).then(|| Scores {
            quality: None,
            adherence: (self.judged > 0).then(|| share(self.judged - self.broken, self.judged)),
            speed: (self.punctual_pm / self.attempts).min(BEST_PM.into()) as u16,
            cost: if self.cost == 0 { BEST_PM } else { share(self.useful_cost, self.cost) },
            errors: share(self.attempts - self.failed, self.attempts),
            revisions: BEST_PM - share(revisions.min(revisions_max), revisions_max),
        })
    }
}

/// An attempt that takes up to half of its timeout is as quick as it should be; one that takes all of it is not quick
/// at all. How long it waited for a slot does not count: that is for its client's weight to decide, and must not
/// come back to it.
fn punctual_pm(duration_ms: u64, timeout: Ticks) -> u64 {
    let (took, timeout) = (u128::from(duration_ms), timeout.max(1) as u128);
    let best = u128::from(BEST_PM);
    (2 * best).saturating_sub(2 * best * took / timeout).min(best) as u64
}

/// How well a run was done, each in thousandths: the more the better. The six dimensions of the Agent Scheduler paper
/// (definition 13), as far as records tell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// How good what came of it is; `None`: no judge and no person said so.
    pub quality: Option<u16>,
    /// Results that kept their contract, of all that a contract was held against; `None`: there was none.
    pub adherence: Option<u16>,
    /// How far below their timeouts its attempts ended: half is soon enough.
    pub speed: u16,
    /// Credits of attempts that gave what was asked for, of all credits.
    pub cost: u16,
    /// Attempts that did not fail, of all.
    pub errors: u16,
    /// Patches and replans that it did without, of those it was allowed.
    pub revisions: u16,
}

/// How much each dimension counts, in thousandths: quality, adherence, speed, cost, errors, revisions. The paper's default.
const WEIGHTS_PM: [u64; 6] = [250, 200, 150, 150, 150, 100];

impl Scores {
    /// One score for all six, in thousandths. What nobody knows does not count, and the others count for more.
    ///
    /// ```
    /// use ostler_kernel::evaluation::Scores;
    /// let scores = Scores { quality: None, adherence: None, speed: 1_000, cost: 500, errors: 500, revisions: 1_000 };
    /// // (150 * 1,000 + 150 * 500 + 150 * 500 + 100 * 1,000) / 550
    /// assert_eq!(scores.composite(), 727);
    /// ```
    pub fn composite(&self) -> u16 {
        let Scores { quality, adherence, speed, cost, errors, revisions } = *self;
        let known = [quality, adherence, Some(speed), Some(cost), Some(errors), Some(revisions)];
        let known =
            WEIGHTS_PM.iter().zip(known).filter_map(|(weight, score)| Some((weight, u64::from(score?))));
        let (weights, sum) =
            known.fold((0, 0), |(weights, sum), (weight, score)| (weights + weight, sum + weight * score));
        ((sum + weights / 2) / weights.max(1)).min(BEST_PM.into()) as u16
    }
}

/// What scores add up to: an average in which the newest counts for three tenths (definition 15, alpha 0.3).
///
/// After a run of n scores that differ from `s` by e1 (the oldest) to en, the reputation differs from `s` by
/// 0.7^(n-1)·e1 and the sum of 0.3·0.7^(n-k)·ek of the others: theorem 16 of the paper, whose second term proves nothing,
/// put right.
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
    use crate::event::{Failure, Output};
    use crate::id::Digest;

    fn result(category: Option<Category>, duration_ms: u64, cost: u64) -> AttemptResult {
        let outcome = match category {
            None => {
                Outcome::Ok(Output { artifact: Digest([0; 32]), bytes: 0, inline: None, directive: None })
            }
            Some(category) => Outcome::Failed(Failure { category, message: String::new() }),
        };
        AttemptResult { duration_ms, cost, ..AttemptResult::unpaid("n".into(), 1, outcome) }
    }

    #[test]
    fn scores_follow_from_what_attempts_came_to() {
        let check = |results: &[(Option<Category>, u64, u64)], expected: Option<[u16; 5]>| {
            let mut tally = Tally::default();
            for &(category, duration_ms, cost) in results {
                tally.count(&result(category, duration_ms, cost), 1_000, true);
            }
            let scores = tally.scores(1, 4);
            let scores =
                scores.map(|it| [it.adherence.unwrap_or(9_999), it.speed, it.cost, it.errors, it.revisions]);
            assert_eq!(scores, expected, "{results:?}");
        };
        check(&[], None);
        check(&[(None, 0, 0)], None); // a wait
        check(&[(None, 500, 10)], Some([1_000, 1_000, 1_000, 1_000, 750]));
        check(&[(None, 750, 10)], Some([1_000, 500, 1_000, 1_000, 750]));
        check(&[(Some(Category::Timeout), 1_000, 30), (None, 100, 10)], Some([1_000, 500, 250, 500, 750]));
        check(&[(Some(Category::InvalidOutput), 1, 10), (None, 1, 10)], Some([500, 1_000, 500, 500, 750]));
        check(&[(Some(Category::GateDenied), 0, 0)], Some([9_999, 1_000, 1_000, 0, 750]));
    }

    /// The vectors of the paper's section 9, whose composites are these by its default weights; printed are 0.877, 0.837
    /// and 0.851.
    #[test]
    fn composites_are_what_the_weights_make_of_the_vectors() {
        let check = |[quality, adherence, speed, cost, errors, revisions]: [u16; 6], expected: u16| {
            let (quality, adherence) = (Some(quality), Some(adherence));
            let scores = Scores { quality, adherence, speed, cost, errors, revisions };
            assert_eq!(scores.composite(), expected, "{scores:?}");
        };
        check([870, 920, 780, 850, 950, 880], 877);
        check([910, 950, 650, 720, 880, 800], 835);
        check([830, 890, 820, 790, 910, 850], 849); // 0.8485
        check([1; 6], 1);
        check([1_000; 6], 1_000);
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

    proptest! {
        /// The true bound of theorem 16, with what rounding to millionths can add.
        #[test]
        fn a_reputation_is_as_near_as_its_scores(scores in proptest::collection::vec(0u16..=1_000, 1..40), aim in 0u16..=1_000) {
            let reputation = scores.iter().fold(Reputation::default(), |reputation, score| reputation.after(*score));
            let off = |score: u16| (f64::from(score) - f64::from(aim)).abs();
            let last = scores.len() - 1;
            let bound: f64 = scores.iter().enumerate().map(|(at, &score)| {
                let decay = 0.7f64.powi((last - at) as i32);
                off(score) * if at == 0 { decay } else { 0.3 * decay }
            }).sum();
            let found = (reputation.micro as f64 / 1_000.0 - f64::from(aim)).abs();
            prop_assert!(found <= bound + 0.01, "{found} > {bound}");
        }
    }
}
