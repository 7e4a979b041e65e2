//! `ostler simulate modes`: runs a goal with scripted models and tools in virtual time, with the decisions of real runs.

mod case;
mod models;
mod outside;
mod replay;
mod simulated_goal;
mod trace;

use std::collections::BTreeSet;
use std::sync::Arc;

use ostler_kernel::policy::View;

use crate::graph::{BadCase, CaseResult};
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
    let tools = Arc::new(Toolbox::new(std::mem::take(&mut case.outside.tools)));
    let names: BTreeSet<String> = tools.names().cloned().collect();
    let settings = settings(&names);
    let mut simulated = SimulatedGoal::new(case, tools, &settings);
    simulated.run().map_err(bad)?;
    let view = View::of(&simulated.run, simulated.now).expect("the run has a goal");
    let actual = simulated.trace.course(&simulated.run, view);
    Ok(CaseResult { id, actual, expected, replay: replay::difference(&simulated) })
}
