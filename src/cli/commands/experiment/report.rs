//! The figures of the experiment, and what has to hold of them.

use ostler_kernel::policy::Aggregator;
use ostler_sim::modes::experiment::{
    Comparison, Costs, Crossover, Family, Slope, Sweep, TrialError, compare, crossovers, slopes, sweep,
};
use serde::Serialize;

use super::document::Check;
use super::engine::EngineTrial;

/// All figures.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(rename = "type")]
    kind: &'static str,
    pub(super) costs: Costs,
    pub(super) checks: Vec<Check>,
    pub(super) crossovers: Vec<Crossover>,
    pub(super) slopes: Vec<Slope>,
    pub(super) engine: Vec<EngineTrial>,
    pub(super) sweeps: Vec<Sweep>,
    pub(super) comparisons: Vec<Comparison>,
}

/// Who writes the answers of swept goals: texts that exist anyway, or a model.
pub(super) const AGGREGATORS: [Aggregator; 2] = [Aggregator::Off, Aggregator::Executor];

impl Report {
    /// Simulates all modes; `engine` are the trials that the engine itself made.
    ///
    /// # Errors
    ///
    /// A simulated run did not succeed.
    pub(super) fn of(costs: Costs, engine: Vec<EngineTrial>) -> Result<Report, TrialError> {
        let comparisons = compare(&costs)?;
        let slopes = slopes(&comparisons, &costs);
        let mut sweeps = Vec::new();
        for family in Family::ALL {
            for aggregator in AGGREGATORS {
                sweeps.push(sweep(family, aggregator, &costs)?);
            }
        }
        let crossovers: Vec<Crossover> = sweeps.iter().flat_map(crossovers).collect();
        let checks = vec![
            counts(&comparisons),
            latency(&comparisons),
            exponents(&slopes),
            one_tool(&crossovers),
            agreement(&engine),
        ];
        let kind = "experiment";
        Ok(Report { kind, costs, checks, crossovers, slopes, engine, sweeps, comparisons })
    }
}

fn counts(comparisons: &[Comparison]) -> Check {
    let wrong = comparisons.iter().find(|row| row.counted != row.form);
    let detail = match wrong {
        None => format!("{0} of {0} runs", comparisons.len()),
        Some(row) => format!("{}: {} tokens, not {}", named(row), row.counted, row.form),
    };
    Check { what: "counted tokens equal the closed forms".to_owned(), holds: wrong.is_none(), detail }
}

fn latency(comparisons: &[Comparison]) -> Check {
    let wrong = comparisons.iter().find(|row| row.waves != row.waves_form);
    let detail = match wrong {
        None => format!("{0} of {0} runs", comparisons.len()),
        Some(row) => format!("{}: {:?}, not {:?}", named(row), row.waves, row.waves_form),
    };
    Check { what: "latency in waves equals the closed forms".to_owned(), holds: wrong.is_none(), detail }
}

fn named(row: &Comparison) -> String {
    format!("{}, {} tools in {} levels, {:?}", row.strategy, row.goal.tools, row.goal.levels, row.context)
}

fn exponents(slopes: &[Slope]) -> Check {
    let wrong = slopes.iter().find(|slope| !slope.agrees());
    let detail = match wrong {
        None => format!("{0} of {0} fits", slopes.len()),
        Some(slope) => format!("{}: {:.2}, not {}", slope.what, slope.fitted, slope.expected),
    };
    Check {
        what: "tokens of results grow with the exponents of the closed forms".to_owned(),
        holds: wrong.is_none(),
        detail,
    }
}

/// Only where a model writes every answer do all modes end with the same thing: a text about the results.
fn one_tool(crossovers: &[Crossover]) -> Check {
    let mut answering = crossovers.iter().filter(|row| row.aggregator == Aggregator::Executor);
    let wrong = answering.find(|row| !row.leaves_one_tool_to_react());
    let detail = match wrong {
        None => "in tokens and in time, where a model writes the answer".to_owned(),
        Some(row) => format!("{} takes less on {:?} goals", row.strategy, row.family),
    };
    Check {
        what: "no mode takes less than react for one tool or none".to_owned(),
        holds: wrong.is_none(),
        detail,
    }
}

fn agreement(engine: &[EngineTrial]) -> Check {
    let wrong = engine.iter().find_map(|trial| Some((trial, trial.difference.as_ref()?)));
    let detail = match wrong {
        None => format!("{0} of {0} goals, call by call", engine.len()),
        Some((trial, difference)) => {
            format!("{}, {} tools: {difference}", trial.strategy, trial.goal.tools)
        }
    };
    Check {
        what: "the engine makes the simulated calls with the simulated tokens".to_owned(),
        holds: wrong.is_none(),
        detail,
    }
}
