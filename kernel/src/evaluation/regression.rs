//! Detects a decline of an agent's work.

use super::{Dimension, Scores, Weights, distance};

/// Minimum distance between an agent's newest scores and its average, in millionths.
pub const REGRESSION_MICRO: u32 = 200_000;

/// Minimum evaluations before the newest one.
pub const REGRESSION_AFTER: usize = 3;

/// Evaluations that form the average: the newest ones before the last.
pub const HISTORY_MAX: usize = 32;

/// A drop of the newest scores below the agent's average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regression {
    /// Distance from the average in millionths, above [`REGRESSION_MICRO`].
    pub distance_micro: u32,
    /// The dimension with the largest weighted drop.
    pub dimension: Dimension,
    /// Average of the dimension, in thousandths.
    pub from_pm: u16,
    /// Newest score of the dimension, in thousandths.
    pub to_pm: u16,
}

/// Average per dimension over the known scores; `None` for an empty list.
pub fn mean(all: &[Scores]) -> Option<Scores> {
    let mean_of = |at: usize| {
        let known = all.iter().filter_map(|scores| scores.known()[at]);
        let (sum, count) =
            known.fold((0u64, 0u64), |(sum, count), score| (sum + u64::from(score), count + 1));
        (count > 0).then(|| ((sum + count / 2) / count) as u16)
    };
    Some(Scores {
        quality: mean_of(0),
        adherence: mean_of(1),
        speed: mean_of(2)?,
        cost: mean_of(3)?,
        errors: mean_of(4)?,
        revisions: mean_of(5)?,
    })
}

/// Compares the newest evaluation (the last) with the average of up to [`HISTORY_MAX`] evaluations before it.
///  
/// A regression needs three conditions: at least [`REGRESSION_AFTER`] earlier evaluations, a [`distance`] of more than
/// [`REGRESSION_MICRO`], and a lower composite. The distance alone has no direction, so without the third condition a large
/// improvement would raise an alarm. The window lets the average follow slow changes.
pub fn detect_regression(history: &[Scores], weights: &Weights) -> Option<Regression> {
    let (newest, before) = history.split_last()?;
    if before.len() < REGRESSION_AFTER {
        return None;
    }
    let usual = mean(&before[before.len().saturating_sub(HISTORY_MAX)..])?;
    let distance_micro = distance(newest, &usual, weights)?;
    // A large improvement is no regression.
    let is_worse = weights.composite(newest)? < weights.composite(&usual)?;
    if distance_micro <= REGRESSION_MICRO || !is_worse {
        return None;
    }
    let fell = Dimension::ALL.into_iter().zip(usual.known()).zip(newest.known()).zip(weights.pm());
    let fell = fell.filter_map(|(((dimension, from), to), weight)| {
        let (from, to) = (from?, to?);
        Some((u32::from(from.checked_sub(to)?) * u32::from(weight), dimension, from, to))
    });
    let (_, dimension, from_pm, to_pm) =
        fell.max_by_key(|(fell, dimension, ..)| (*fell, std::cmp::Reverse(*dimension)))?;
    Some(Regression { distance_micro, dimension, from_pm, to_pm })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(score: u16) -> Scores {
        Scores { quality: None, adherence: None, speed: score, cost: score, errors: score, revisions: score }
    }

    #[test]
    fn an_agent_that_falls_far_below_its_average_raises_an_alarm() {
        let check = |history: &[Scores], expected: Option<(Dimension, u16, u16)>| {
            let found = detect_regression(history, &Weights::DEFAULT);
            assert_eq!(found.map(|it| (it.dimension, it.from_pm, it.to_pm)), expected, "{history:?}");
        };
        check(&[], None);
        check(&[all(900), all(900), all(0)], None); // too few evaluations
        check(&[all(900), all(900), all(900), all(900)], None);
        check(&[all(900), all(900), all(900), all(700)], None); // at the limit
        check(&[all(900), all(900), all(900), all(699)], Some((Dimension::Speed, 900, 699)));
        check(&[all(100), all(100), all(100), all(900)], None); // far, and better
        let failing = Scores { errors: 0, ..all(900) };
        check(&[all(900), all(900), all(900), failing], Some((Dimension::Errors, 900, 0)));
        check(&[all(900), all(900), all(900), failing, all(900)], None); // recovered
    }

    #[test]
    fn an_average_looks_back_only_so_far() {
        let mut history = vec![all(1_000); 500];
        history.extend(vec![all(300); HISTORY_MAX]);
        history.push(all(290));
        assert_eq!(detect_regression(&history, &Weights::DEFAULT), None);
    }

    #[test]
    fn an_average_counts_what_is_known() {
        let known = Scores { quality: Some(800), ..all(600) };
        assert_eq!(mean(&[all(400), known]), Some(Scores { quality: Some(800), ..all(500) }));
        assert_eq!(mean(&[]), None);
    }
}
