//! `ostler simulate graph`: cases of a plan and a scripted world, lived through in virtual time by the same
//! decisions that real runs make.

mod duplicate_keys;
mod script;
mod simulated_run;

use std::collections::BTreeSet;
use std::fmt;

use ostler_kernel::plan::Settings;
use ostler_kernel::run::NodeStatus;
use serde_json::{Map, Value, json};

use script::Case;
use simulated_run::SimulatedRun;

/// A line that is no case.
#[derive(Debug)]
pub struct BadCase {
    /// The name of the case that it would be, if it says one.
    pub id: Option<String>,
    /// What is wrong with it.
    pub wrong: CaseError,
}

impl BadCase {
    fn new(line: &str, wrong: CaseError) -> BadCase {
        let case: Value = serde_json::from_str(line).unwrap_or_default();
        BadCase { id: case["id"].as_str().map(str::to_owned), wrong }
    }
}

impl fmt::Display for BadCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "case {id:?}: {}", self.wrong),
            None => write!(f, "not a case: {}", self.wrong),
        }
    }
}

impl std::error::Error for BadCase {}

/// Why a line is no case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is not the JSON that cases are.
    #[error("{0}")]
    Shape(String),
    /// An operator's input that names no node.
    #[error("an operation of the operator names no node: give it a `node`")]
    ControlWithoutNode,
    /// An operator's delta that is not there.
    #[error("a delta of the operator is not there: give the operation a `delta`")]
    ControlWithoutDelta,
}

impl CaseError {
    fn shape(error: serde_json::Error) -> CaseError {
        let told = error.to_string();
        // A case is one line; which one of its file, only the reader of the file knows.
        CaseError::Shape(match told.rsplit_once(" at line 1 column ") {
            Some((what, column)) => format!("column {column}: {what}"),
            None => told,
        })
    }
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// Its name.
    pub id: String,
    /// What happened, in the form of `expect`.
    pub actual: Value,
    /// What the case expects, if it says.
    pub expected: Option<Value>,
    /// What differs if its records are applied again; nothing ever should.
    pub replay: Option<String>,
}

impl CaseResult {
    /// The first place where what happened is not what was expected, or is not what its records tell; `None` if
    /// all is as expected.
    pub fn difference(&self) -> Option<String> {
        if let Some(replay) = &self.replay {
            return Some(format!("replay: {replay}"));
        }
        let expected = self.expected.as_ref()?;
        difference("expect", expected, &self.actual)
    }
}

/// Lives through one case, a line of a file of cases.
///
/// # Errors
///
/// It is no case: something in it cannot be read. A delta that can be read and that the plan does not take is none of that: it
/// is refused, as the case may expect.
pub fn run_case(line: &str) -> Result<CaseResult, BadCase> {
    let bad = |wrong| BadCase::new(line, wrong);
    let case = Case::read(line).map_err(bad)?;
    let id = case.id.clone();
    let expected = case.expect.clone();
    let (actual, replay) = expect(case).map_err(bad)?;
    Ok(CaseResult { id, actual, expected, replay })
}

fn expect(case: Case) -> Result<(Value, Option<String>), CaseError> {
    let overrides = case.policy.clone().unwrap_or_default();
    let tools: Option<BTreeSet<String>> = case.tools.clone().map(|tools| tools.into_iter().collect());
    let settings = Settings::simulation(overrides, tools.as_ref().map(|tools| tools as _));
    let plan = match case.plan.clone().validate(&settings) {
        Ok(plan) => plan,
        Err(faults) => {
            let mut errors: Vec<[String; 2]> =
                faults.iter().map(|fault| [fault.code.to_string(), fault.node.to_string()]).collect();
            errors.dedup(); // a case names each pair once
            return Ok((json!({"valid": false, "errors": errors}), None));
        }
    };
    let mut world = SimulatedRun::new(plan, case, &settings);
    world.run()?;
    Ok((told(&world), world.replay_difference()))
}

/// The form of `expect`.
fn told(world: &SimulatedRun<'_>) -> Value {
    let (run, trace) = (&world.run, &world.trace);
    let last: Map<String, Value> = run
        .instances()
        .map(|(node, instance)| (node.id.to_string(), Value::from(instance.state().as_str())))
        .collect();
    let mut told = json!({
        "valid": true,
        "outcome": run.outcome().as_str(),
        "version": run.plan().version,
        "dispatches": trace.dispatches,
        "rounds": trace.rounds,
        "makespan": trace.events.last().map_or(0, |event| event.0),
        "final": last,
        "events": trace.events,
    });
    if !trace.inputs.is_empty() {
        told["inputs"] = json!(trace.inputs);
    }
    if !trace.late.is_empty() {
        told["late"] = json!(trace.late);
    }
    debug_assert!(run.instances().all(|(_, instance)| instance.status != NodeStatus::Ready));
    told
}

fn difference(place: &str, expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let keys: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
            let absent = Value::Null;
            keys.into_iter().find_map(|key| {
                let (expected, actual) = (expected.get(key), actual.get(key));
                if expected.is_none() != actual.is_none() {
                    let say = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
                    return Some(format!("{place}.{key}: expected {}, got {}", say(expected), say(actual)));
                }
                let place = format!("{place}.{key}");
                difference(&place, expected.unwrap_or(&absent), actual.unwrap_or(&absent))
            })
        }
        (Value::Array(expected), Value::Array(actual)) if !expected.is_empty() && expected[0].is_array() => {
            let longest = expected.len().max(actual.len());
            (0..longest).find_map(|at| {
                let (expected, actual) = (expected.get(at), actual.get(at));
                let say = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
                (expected != actual)
                    .then(|| format!("{place}[{at}]: expected {}, got {}", say(expected), say(actual)))
            })
        }
        (expected, actual) => {
            (expected != actual).then(|| format!("{place}: expected {expected}, got {actual}"))
        }
    }
}
