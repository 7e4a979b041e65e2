//! `ostler simulate modes`: runs a goal with scripted models and tools in virtual time, with the decisions of real runs.

mod case;
pub mod experiment;
mod models;
mod outside;
mod replay;
mod simulated_goal;
mod trace;

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::policy::View;
use serde_json::Value;

use crate::graph::{BadCase, CaseError, CaseResult};
use case::Case;
use outside::Toolbox;
use simulated_goal::{SimulatedGoal, settings};

/// Runs one case, a line of a file of mode cases.
///
/// # Errors
///
/// The line is not a readable case. A faulty answer of a model is no error: its faults are part of the course.
pub fn run_case(line: &str) -> Result<CaseResult, BadCase> {
    let bad = |wrong| BadCase::new(line, wrong);
    let mut case = Case::read(line).map_err(bad)?;
    let (id, expected) = (case.id.clone(), case.expect.take());
    let (actual, replay) = simulate(case, replay::difference).map_err(bad)?;
    Ok(CaseResult { id, actual, expected, replay })
}

/// The course of a case, and what `look` says of the simulation when it has ended.
fn simulate<T>(mut case: Case, look: impl FnOnce(&SimulatedGoal<'_>) -> T) -> Result<(Value, T), CaseError> {
    let tools = Arc::new(Toolbox::new(std::mem::take(&mut case.outside.tools)));
    let names: BTreeSet<String> = tools.names().cloned().collect();
    let settings = settings(&names);
    let mut simulated = SimulatedGoal::new(case, tools, &settings);
    simulated.run()?;
    let view = View::of(&simulated.run, simulated.now).expect("the run has a goal");
    let course = simulated.trace.course(&simulated.run, view);
    Ok((course, look(&simulated)))
}
