//! `ostler simulate graph`: runs a plan against a scripted outside in virtual time, with the decisions of real runs.

mod duplicate_keys;
pub(crate) mod script;
mod scripted_outside;
mod simulated_run;

use std::collections::BTreeSet;
use std::fmt;

use ostler_kernel::plan::{Kind, Settings};
use ostler_kernel::run::NodeStatus;
use serde_json::{Map, Value, json};

use script::Case;
use simulated_run::{SimulatedRun, value_of};

/// A line that is not a case.
#[derive(Debug)]
pub struct BadCase {
    /// Id of the case, if the line has one.
    pub id: Option<String>,
    /// The problem.
    pub wrong: CaseError,
}

impl BadCase {
    pub(crate) fn new(line: &str, wrong: CaseError) -> BadCase {
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

/// A problem of a case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The line is not JSON in the form of a case.
    #[error("{0}")]
    Shape(String),
    /// An operator input without a node.
    #[error("operator input: missing `node`")]
    ControlWithoutNode,
    /// An operator input without a delta.
    #[error("operator input: missing `delta`")]
    ControlWithoutDelta,
}

impl CaseError {
    pub(crate) fn shape(error: serde_json::Error) -> CaseError {
        let text = error.to_string();
        // A case is one line. Its line number within the file is known to the reader of the file only.
        CaseError::Shape(match text.rsplit_once(" at line 1 column ") {
            Some((what, column)) => format!("column {column}: {what}"),
            None => text,
        })
    }
}

/// Result of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    /// Id of the case.
    pub id: String,
    /// The course of the run, in the form of `expect`.
    pub actual: Value,
    /// The expected course, if the case has one.
    pub expected: Option<Value>,
    /// Difference after replaying the records; `None`, unless the simulation has a bug.
    pub replay: Option<String>,
}

impl CaseResult {
    /// The first difference to the expected course, or between the run and its replay; `None` if all is as expected.
    pub fn difference(&self) -> Option<String> {
        if let Some(replay) = &self.replay {
            return Some(format!("replay: {replay}"));
        }
        let expected = self.expected.as_ref()?;
        difference("expect", expected, &self.actual)
    }
}

/// Runs one case, a line of a file of cases.
///
/// # Errors
///
/// The line is not a readable case. A readable delta that the plan refuses is no error: the refusal is part of the course.
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
    let mut simulated = SimulatedRun::new(plan, case, &settings);
    simulated.run()?;
    Ok((course(&simulated), simulated.replay_difference()))
}

fn course(simulated: &SimulatedRun<'_>) -> Value {
    let (run, trace) = (&simulated.run, &simulated.trace);
    let last: Map<String, Value> = run
        .instances()
        .map(|(node, instance)| (node.id.to_string(), Value::from(instance.state().as_str())))
        .collect();
    let mut course = json!({
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
        course["inputs"] = json!(trace.inputs);
    }
    if !trace.late.is_empty() {
        course["late"] = json!(trace.late);
    }
    let mut absent: Vec<&str> = run.absent_outputs().map(|node| node.as_str()).collect();
    absent.sort_unstable();
    if !absent.is_empty() {
        course["absent"] = json!(absent);
    }
    if !trace.answers.is_empty() {
        course["answers"] = json!(trace.answers);
    }
    let executed = run
        .instances()
        .filter(|(node, instance)| node.kind == Kind::Collector && instance.status == NodeStatus::Executed);
    let collected: Map<String, Value> =
        executed.map(|(node, _)| (node.id.to_string(), value_of(run, &node.id))).collect();
    if !collected.is_empty() {
        course["collected"] = Value::Object(collected);
    }
    if let Some(report) = run.undo_report() {
        course["undo"] = json!(report);
    }
    debug_assert!(run.instances().all(|(_, instance)| instance.status != NodeStatus::Ready));
    course
}

pub(crate) fn difference(place: &str, expected: &Value, actual: &Value) -> Option<String> {
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
        (Value::Array(expected), Value::Array(actual))
            if expected.len() == actual.len() && expected.iter().all(Value::is_object) =>
        {
            let pairs = expected.iter().zip(actual).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (expected, actual))| difference(&format!("{place}[{at}]"), expected, actual))
        }
        (expected, actual) => {
            (expected != actual).then(|| format!("{place}: expected {expected}, got {actual}"))
        }
    }
}
