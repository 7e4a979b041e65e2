//! The experiment of the modes: all of them on the same goals, with models and tools of fixed latency and size.
//!
//! Counted tokens are compared with the closed forms of the KAIJU paper's complexity analysis, as corrected: a form holds exactly
//! or the experiment has failed. What it shows is the mechanism; the scripted models are always right, so it says nothing about
//! which mode answers better.

mod closed_form;
mod goal;
mod power_law;
mod sweep;
mod trial;

use serde::Serialize;

pub use closed_form::{Waves, closed_form, waves};
pub use goal::{Costs, GoalShape, Strategy};
pub use power_law::exponent;
pub use sweep::{Crossover, Family, Line, Point, Sweep, crossovers, sweep};
pub use trial::{Measured, MeasuredCall, Trial, TrialError, measure};

use ostler_kernel::policy::{Aggregator, ContextForm};

/// Largest number of tools whose tokens are compared with the closed forms.
const COMPARED_TOOLS: u32 = 16;

/// Counted tokens of one mode on one goal, and what the closed form says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The mode.
    pub strategy: Strategy,
    /// The goal.
    #[serde(flatten)]
    pub goal: GoalShape,
    /// How earlier results were repeated.
    pub context: ContextForm,
    /// Calls of models.
    pub calls: usize,
    /// Input tokens of all calls, as counted.
    pub counted: u64,
    /// Input tokens by the closed form.
    pub form: u64,
    /// Latency as measured.
    pub waves: Waves,
    /// Latency by the closed form.
    pub waves_form: Waves,
}

impl Comparison {
    /// True if tokens and latency are those of the closed forms.
    pub fn agrees(&self) -> bool {
        self.counted == self.form && self.waves == self.waves_form
    }
}

/// How the tokens of results grow with the number of tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slope {
    /// The mode, and what is held fixed.
    pub what: String,
    /// How earlier results were repeated.
    pub context: ContextForm,
    /// Fitted exponent.
    pub fitted: f64,
    /// Exponent of the closed form's highest term.
    pub expected: f64,
}

impl Slope {
    /// True if the fitted exponent is the expected one, up to the lower terms that a finite number of tools leaves.
    pub fn agrees(&self) -> bool {
        (self.fitted - self.expected).abs() <= SLOPE_TOLERANCE
    }
}

/// Largest difference between a fitted exponent over 8 to 16 tools and its limit: n(n+1) has 1.92 there.
const SLOPE_TOLERANCE: f64 = 0.15;

/// Compares every mode on every goal with the closed forms.
///
/// # Errors
///
/// A simulated run did not succeed.
pub fn compare(costs: &Costs) -> Result<Vec<Comparison>, TrialError> {
    // A reflection of nreflect has to end before the next results, or it covers more than N of them: tools take longer.
    let costs = Costs { model_ms: 1, tool_ms: TOOL_OF_WAVES_MS, ..*costs };
    let mut compared = Vec::new();
    for goal in (0..=COMPARED_TOOLS).flat_map(GoalShape::all_of) {
        for strategy in Strategy::all_on(goal) {
            for context in [ContextForm::Cumulative, ContextForm::Bounded] {
                let trial = Trial { strategy, goal, context, aggregator: Aggregator::Off, costs };
                let measured = measure(&trial)?;
                compared.push(Comparison {
                    strategy,
                    goal,
                    context,
                    calls: measured.calls.len(),
                    counted: measured.input_tokens,
                    form: closed_form(strategy, goal, context, &costs),
                    waves: Waves {
                        tools: measured.makespan_ms / TOOL_OF_WAVES_MS,
                        calls: measured.makespan_ms % TOOL_OF_WAVES_MS,
                    },
                    waves_form: waves(strategy, goal),
                });
            }
        }
    }
    Ok(compared)
}

/// Duration of a tool where a call of a model takes 1 ms: the makespan is then read as waves of tools and calls of models.
const TOOL_OF_WAVES_MS: i64 = 10_000;

/// Fits exponents to the tokens of results over 8 to 16 tools; what every call has in its context is left out.
pub fn slopes(compared: &[Comparison], costs: &Costs) -> Vec<Slope> {
    use ContextForm::{Bounded, Cumulative};
    let fit = |what: &str, context, expected, takes: &dyn Fn(&Comparison) -> bool| {
        let points =
            compared.iter().filter(|row| row.context == context && row.goal.tools >= 8 && takes(row));
        let points: Vec<(f64, f64)> = points
            .map(|row| {
                let base = row.calls as u64 * costs.base_tokens;
                (f64::from(row.goal.tools), row.counted.saturating_sub(base) as f64)
            })
            .collect();
        Slope { what: what.to_owned(), context, fitted: exponent(&points), expected }
    };
    let levels = |strategy: Strategy, levels: u32| {
        move |row: &Comparison| row.strategy == strategy && row.goal.levels == levels
    };
    let every = |batch: u32| {
        move |row: &Comparison| {
            row.strategy == Strategy::NReflect(batch) && row.goal.levels == row.goal.tools / batch
        }
    };
    let proportional =
        |row: &Comparison| row.strategy == Strategy::NReflect(row.goal.tools / 4) && row.goal.levels == 4;
    vec![
        fit("react", Cumulative, 2.0, &levels(Strategy::React, 1)),
        fit("reflect, 4 levels", Cumulative, 1.0, &levels(Strategy::Reflect, 4)),
        fit("reflect, 4 levels", Bounded, 1.0, &levels(Strategy::Reflect, 4)),
        fit("nreflect:1", Cumulative, 2.0, &every(1)),
        fit("nreflect:N, N = n/4", Cumulative, 1.0, &proportional),
        fit("orchestrator", Cumulative, 1.0, &levels(Strategy::Orchestrator, 1)),
        fit("orchestrator", Bounded, 1.0, &levels(Strategy::Orchestrator, 1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_tokens_and_waves_equal_the_closed_forms_and_grow_with_their_exponents() {
        let costs = Costs { base_tokens: 211, result_tokens: 97, digest_tokens: 32, ..Costs::default() };
        let compared = compare(&costs).unwrap();
        assert!(compared.len() > 500, "{} comparisons", compared.len());
        let differing: Vec<&Comparison> = compared.iter().filter(|row| !row.agrees()).collect();
        assert!(differing.is_empty(), "{differing:#?}");
        let slopes = slopes(&compared, &costs);
        assert!(slopes.iter().all(Slope::agrees), "{slopes:#?}");
    }

    #[test]
    fn react_is_not_beaten_on_one_tool_and_nreflect_beats_it_from_the_third_on() {
        for family in Family::ALL {
            let swept = sweep(family, Aggregator::Executor, &Costs::default()).unwrap();
            for crossover in crossovers(&swept) {
                assert!(crossover.leaves_one_tool_to_react(), "{crossover:?}");
                if crossover.strategy.mode().to_string().starts_with("nreflect") {
                    assert!(crossover.time_from.is_some_and(|from| from <= 3), "{crossover:?}");
                }
            }
        }
    }
}
