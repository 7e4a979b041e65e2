//! Computes a run's scores from the results of its attempts.

use serde::{Deserialize, Serialize};

use super::{BEST_PM, Scores};
use crate::event::{AttemptResult, Outcome};
use crate::id::Ticks;
use crate::run::FailureCategory;

/// Running totals of a run's attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    attempts: u64,
    failed: u64,
    checked: u64,
    broken: u64,
    cost: u64,
    /// Credits of successful attempts.
    useful_cost: u64,
    /// Sum of the attempts' punctuality, in thousandths each.
    punctual_pm: u64,
    took_ms: u64,
}

/// Targets of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Sum of the attempts' durations, without waiting times.
    pub time_ms: Option<u64>,
    /// Credits of all attempts.
    pub credits: Option<u64>,
}

impl Tally {
    /// Counts a finished attempt. Free successful attempts are waits and do not count.
    pub fn count(&mut self, result: &AttemptResult, timeout: Ticks, has_contract: bool) {
        let ok = matches!(result.outcome, Outcome::Ok(_));
        if ok && result.cost == 0 {
            return;
        }
        self.attempts += 1;
        self.cost = self.cost.saturating_add(result.cost);
        self.punctual_pm += punctual_pm(result.duration_ms, timeout);
        self.took_ms = self.took_ms.saturating_add(result.duration_ms);
        match &result.outcome {
            Outcome::Ok(_) => {
                self.useful_cost = self.useful_cost.saturating_add(result.cost);
                self.checked += u64::from(has_contract);
            }
            Outcome::Failed(failure) => {
                self.failed += 1;
                let broken = u64::from(failure.category == FailureCategory::InvalidOutput);
                self.checked += broken;
                self.broken += broken;
            }
        }
    }

    /// Counts the check of the run's result against the plan's contract.
    pub fn count_contract(&mut self, holds: bool) {
        self.checked += 1;
        self.broken += u64::from(!holds);
    }

    /// Counts a result that a person rejected: its attempt failed after all.
    pub fn count_rejected(&mut self) {
        self.failed += 1;
    }

    /// Counts the cost of a result that arrived too late to be used.
    pub fn count_late(&mut self, result: &AttemptResult) {
        self.cost = self.cost.saturating_add(result.cost);
    }

    /// Credits of all attempts, late ones included.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The scores after `revisions` of at most `revisions_max` patches and replans. `None` if no attempt counted.
    pub fn scores(&self, revisions: u64, revisions_max: u64, target: &Target) -> Option<Scores> {
        let share = |part: u64, whole: u64| {
            let share = u128::from(part) * u128::from(BEST_PM) / u128::from(whole.max(1));
            share.min(BEST_PM.into()) as u16
        };
        (self.attempts > 0).then(|| Scores {
            quality: None,
            adherence: (self.checked > 0).then(|| share(self.checked - self.broken, self.checked)),
            speed: match target.time_ms {
                Some(target) => within_pm(self.took_ms, target),
                None => (self.punctual_pm / self.attempts).min(BEST_PM.into()) as u16,
            },
            cost: match target.credits {
                Some(target) => within_pm(self.cost, target),
                None if self.cost == 0 => BEST_PM,
                None => share(self.useful_cost, self.cost),
            },
            errors: share(self.attempts.saturating_sub(self.failed), self.attempts),
            revisions: BEST_PM - share(revisions.min(revisions_max), revisions_max),
        })
    }
}

/// Punctuality of an attempt: 1,000 up to half of the timeout, then linear down to 0 at the timeout. Waiting for a slot does
/// not count, since the client's weight decides that wait and the score in turn changes the weight.
fn punctual_pm(duration_ms: u64, timeout: Ticks) -> u64 {
    let (took, timeout) = (u128::from(duration_ms), timeout.max(1) as u128);
    let best = u128::from(BEST_PM);
    (2 * best).saturating_sub(2 * best * took / timeout).min(best) as u64
}

/// Score against a target: 1,000 up to the target, then linear down to 0 at twice the target.
fn within_pm(used: u64, target: u64) -> u16 {
    let (used, target, best) = (u128::from(used), u128::from(target.max(1)), u128::from(BEST_PM));
    (2 * best).saturating_sub((best * used).div_ceil(target)).min(best) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Failure, Output};
    use crate::id::Digest;

    fn result(category: Option<FailureCategory>, duration_ms: u64, cost: u64) -> AttemptResult {
        let outcome = match category {
            None => {
                Outcome::Ok(Output { artifact: Digest([0; 32]), bytes: 0, inline: None, directive: None })
            }
            Some(category) => Outcome::Failed(Failure { category, message: String::new() }),
        };
        AttemptResult { duration_ms, cost, ..AttemptResult::without_cost("n".into(), 1, outcome) }
    }

    #[test]
    fn scores_follow_from_what_attempts_came_to() {
        let check = |results: &[(Option<FailureCategory>, u64, u64)], expected: Option<[u16; 5]>| {
            let mut tally = Tally::default();
            for &(category, duration_ms, cost) in results {
                tally.count(&result(category, duration_ms, cost), 1_000, true);
            }
            let scores = tally.scores(1, 4, &Target::default());
            let scores =
                scores.map(|it| [it.adherence.unwrap_or(9_999), it.speed, it.cost, it.errors, it.revisions]);
            assert_eq!(scores, expected, "{results:?}");
        };
        check(&[], None);
        check(&[(None, 0, 0)], None); // a wait
        check(&[(None, 500, 10)], Some([1_000, 1_000, 1_000, 1_000, 750]));
        check(&[(None, 750, 10)], Some([1_000, 500, 1_000, 1_000, 750]));
        check(
            &[(Some(FailureCategory::Timeout), 1_000, 30), (None, 100, 10)],
            Some([1_000, 500, 250, 500, 750]),
        );
        check(
            &[(Some(FailureCategory::InvalidOutput), 1, 10), (None, 1, 10)],
            Some([500, 1_000, 500, 500, 750]),
        );
        check(&[(Some(FailureCategory::GateDenied), 0, 0)], Some([9_999, 1_000, 1_000, 0, 750]));
    }

    #[test]
    fn speed_and_cost_count_against_the_target_where_there_is_one() {
        let check = |time_ms: Option<u64>, credits: Option<u64>, expected: (u16, u16)| {
            let mut tally = Tally::default();
            tally.count(&result(Some(FailureCategory::Timeout), 1_000, 30), 1_000, true);
            tally.count(&result(None, 200, 10), 1_000, true);
            let scores = tally.scores(0, 0, &Target { time_ms, credits }).unwrap();
            assert_eq!((scores.speed, scores.cost), expected, "{time_ms:?} {credits:?}");
        };
        check(None, None, (500, 250));
        check(Some(1_200), Some(40), (1_000, 1_000)); // at the target
        check(Some(5_000), Some(400), (1_000, 1_000));
        check(Some(800), Some(32), (500, 750));
        check(Some(600), Some(20), (0, 0)); // twice
        check(Some(0), Some(0), (0, 0));
        check(Some(u64::MAX), Some(1), (1_000, 0));
    }
}
