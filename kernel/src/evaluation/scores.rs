//! Six dimensions of how well a run was done.

use serde::{Deserialize, Serialize};

use super::{BEST_PM, Weights};

/// A dimension of the evaluation space of the Agent Scheduler paper (definition 13). Of each, more is better: what counts
/// against an agent (errors, revisions) is turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// How good what came of it is.
    Quality,
    /// Whether it is what was asked for.
    Adherence,
    /// How soon it was there, against its target.
    Speed,
    /// What it cost, against its budget.
    Cost,
    /// How seldom it failed.
    Errors,
    /// How seldom it had to be changed.
    Revisions,
}

impl Dimension {
    /// All of them, in the order of the paper's vectors.
    pub const ALL: [Dimension; 6] = [
        Dimension::Quality,
        Dimension::Adherence,
        Dimension::Speed,
        Dimension::Cost,
        Dimension::Errors,
        Dimension::Revisions,
    ];

    /// The word that stands for it.
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

/// How well a run was done, each in thousandths: the more the better. The six dimensions of the Agent Scheduler paper
/// (definition 13), as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// How good what came of it is; `None`: no judge and no person said so.
    pub quality: Option<u16>,
    /// Results that kept their contract, of all that a contract was held against; `None`: there was none.
    pub adherence: Option<u16>,
    /// How far below its target, else below their timeouts, its attempts ended: half of a timeout is soon enough.
    pub speed: u16,
    /// What it cost against its budget, else the credits of attempts that gave what was asked for, of all credits.
    pub cost: u16,
    /// Attempts that did not fail, of all.
    pub errors: u16,
    /// Patches and replans that it did without, of those it was allowed.
    pub revisions: u16,
}

/// A score that is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{dimension} {value} is not within 0 and 1")]
pub struct ScoreError {
    /// Of what.
    pub dimension: Dimension,
    /// What was given.
    pub value: f64,
}

impl Scores {
    /// The six dimensions in the order of [`Dimension::ALL`]; `None`: not known.
    pub fn known(&self) -> [Option<u16>; 6] {
        let Scores { quality, adherence, speed, cost, errors, revisions } = *self;
        [quality, adherence, Some(speed), Some(cost), Some(errors), Some(revisions)]
    }

    /// One score for all six, in thousandths, by the default weights. What nobody knows does not count, and the others count
    /// for more.
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

    /// The same, with what somebody said of it in place of what was known.
    #[must_use]
    pub fn with_judgement(self, quality: Option<u16>, adherence: Option<u16>) -> Scores {
        Scores { quality: quality.or(self.quality), adherence: adherence.or(self.adherence), ..self }
    }
}

/// A score as people give it, 0 to 1, in thousandths.
///
/// # Errors
///
/// It is outside of that, or no number.
pub fn score_pm(dimension: Dimension, value: f64) -> Result<u16, ScoreError> {
    if !(0.0..=1.0).contains(&value) {
        return Err(ScoreError { dimension, value });
    }
    Ok((value * f64::from(BEST_PM)).round() as u16)
}

/// A score in thousandths that came from elsewhere.
///
/// # Errors
///
/// It is over [`BEST_PM`].
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
