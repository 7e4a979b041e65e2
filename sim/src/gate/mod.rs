//! `ostler simulate gate`: verdicts on calls in a scripted world, by the functions that real calls pass.

mod case;
mod outcome;
mod passage;
mod policy;
mod resolve;
mod step;
mod tool;
mod world;

use serde_json::Value;

use crate::graph::{BadCase, CaseError, CaseResult};
use case::Case;
use step::Taken;
use world::World;

/// Runs one case, a line of a file of gate cases.
///
/// # Errors
///
/// The line is not a readable case, or begins with an invalid policy.
pub fn run_case(line: &str) -> Result<CaseResult, BadCase> {
    let bad = |wrong| BadCase::new(line, wrong);
    let mut case = Case::read(line).map_err(bad)?;
    let (id, expected) = (case.id.clone(), case.expected());
    let outcomes = outcomes(&mut case).map_err(bad)?;
    Ok(CaseResult { id, actual: case.as_written(outcomes), expected, replay: None })
}

fn outcomes(case: &mut Case) -> Result<Vec<Value>, CaseError> {
    let mut world = World::new(case)?;
    let mut taken: Vec<Taken> = Vec::new();
    for step in &case.steps {
        let next = step::take(&mut world, &taken, step)?;
        taken.push(next);
    }
    Ok(taken.iter().map(|taken| taken.outcome.to_json()).collect())
}
