//! The six dimensions of an evaluation.

use serde::{Deserialize, Serialize};

use super::{BEST_PM, Weights};

/// A dimension of the evaluation space (Agent Scheduler paper, definition 13). Higher is better in every dimension: errors
/// and revisions count inversely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Quality of the result.
    Quality,
    /// Conformance to contracts.
    Adherence,
    /// Duration against the target.
    Speed,
    /// Cost against the target.
    Cost,
    /// Share of attempts without a failure.
    Errors,
    /// Share of unused plan changes.
    Revisions,
}

impl Dimension {
    /// All dimensions in the order of the paper's vectors.
    pub const ALL: [Dimension; 6] = [
        Dimension::Quality,
        Dimension::Adherence,
        Dimension::Speed,
        Dimension::Cost,
        Dimension::Errors,
        Dimension::Revisions,
    ];

    /// Name in records and API.
    pub fn as_str(self) -> &'static str {
        match self {
            Dimension::Quality => "quality",
            Dimension::Adherence => "adherence",
            Dimension::Speed => "speed",
            Dimension::Cost => "cost",
            Dimension::Errors => "errors",
            Dimension::Revisions => "revisions",
        }
    }
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Scores of a run in thousandths, higher is better (Agent Scheduler paper, definition 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// Quality of the result; `None` without a judge's or a person's verdict.
    pub quality: Option<u16>,
    /// Share of checked results that kept their contract; `None` if no contract applied.
    pub adherence: Option<u16>,
    /// Duration against the target. Without a target: duration of the attempts against half of their timeouts.
    pub speed: u16,
    /// Cost against the target. Without a target: share of the credits spent on successful attempts.
    pub cost: u16,
    /// Share of attempts that did not fail.
    pub errors: u16,
    /// Share of the permitted patches and replans that the run did not use.
    pub revisions: u16,
}

/// A score out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{dimension} {value} is not within 0 and 1")]
pub struct ScoreError {
    /// Dimension of the score.
    pub dimension: Dimension,
    /// Rejected value.
    pub value: f64,
}

impl Scores {
    /// The six scores in the order of [`Dimension::ALL`]; `None` for unknown ones.
    pub fn known(&self) -> [Option<u16>; 6] {
        let Scores { quality, adherence, speed, cost, errors, revisions } = *self;
        [quality, adherence, Some(speed), Some(cost), Some(errors), Some(revisions)]
    }

    /// Composite score in thousandths by the default weights. Unknown dimensions do not count; the weights of the others are
    /// rescaled.
    ///  
    /// ```
    /// use ostler_kernel::evaluation::Scores;
    /// let scores = Scores { quality: None, adherence: None, speed: 1_000, cost: 500, errors: 500, revisions: 1_000 };
    /// // (150 * 1,000 + 150 * 500 + 150 * 500 + 100 * 1,000) / 550
    /// assert_eq!(scores.composite(), 727);
    /// ```
    pub fn composite(&self) -> u16 {
        Weights::DEFAULT.composite(self).map_or(0, super::Composite::pm)
    }

    /// Replaces quality and adherence where a verdict gives them.
    #[must_use]
    pub fn with_judgement(self, quality: Option<u16>, adherence: Option<u16>) -> Scores {
        Scores { quality: quality.or(self.quality), adherence: adherence.or(self.adherence), ..self }
    }
}

/// Converts a score from 0 to 1 into thousandths.
///  
/// # Errors
///  
/// The value is out of range or NaN.
pub fn score_pm(dimension: Dimension, value: f64) -> Result<u16, ScoreError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(ScoreError { dimension, value });
    }
    Ok((value * f64::from(BEST_PM)).round() as u16)
}

/// Checks a score in thousandths.
///  
/// # Errors
///  
/// The score exceeds [`BEST_PM`].
pub fn check_pm(dimension: Dimension, pm: u16) -> Result<u16, ScoreError> {
    let value = f64::from(pm) / f64::from(BEST_PM);
    if pm > BEST_PM { Err(ScoreError { dimension, value }) } else { Ok(pm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_within_zero_and_one() {
        let check = |value: f64, expected: Option<u16>| {
            assert_eq!(score_pm(Dimension::Quality, value).ok(), expected, "{value}");
        };
        check(0.0, Some(0));
        check(1.0, Some(1_000));
        check(0.8725, Some(873));
        check(0.9, Some(900));
        check(-0.001, None);
        check(1.001, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        let told = score_pm(Dimension::Adherence, 1.5).unwrap_err().to_string();
        assert_eq!(told, "adherence 1.5 is not within 0 and 1");
        assert!(check_pm(Dimension::Quality, 1_000).is_ok() && check_pm(Dimension::Quality, 1_001).is_err());
    }
}
