//! `ostler simulate graph`: cases of a plan and a scripted world, lived through in virtual time by the same
//! decisions that real runs make.

mod script;
mod world;

use std::collections::BTreeSet;

use ostler_kernel::plan::{PlanDraft, Settings};
use ostler_kernel::run::Standing;
use serde_json::{Map, Value, json};

use script::Case;
use world::World;

/// Why a line is no case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is not the JSON that cases are.
    #[error("not a case: {0}")]
    Shape(String),
    /// An operator's input that names no node.
    #[error("an operation of the operator names no node")]
    ControlWithoutNode,
    /// An operator's delta that is none.
    #[error("a delta of the operator cannot be read")]
    ControlWithoutDelta,
}

impl CaseError {
    fn shape(error: serde_json::Error) -> CaseError {
        CaseError::Shape(error.to_string())
    }
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Lived {
    /// Its name.
    pub id: String,
    /// What happened, in the form of `expect`.
    pub actual: Value,
    /// What the case expects, if it says.
    pub expected: Option<Value>,
    /// What differs if its records are applied again; nothing ever should.
    pub replay: Option<String>,
}

impl Lived {
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
pub fn live(line: &str) -> Result<Lived, CaseError> {
    let case: Case = serde_json::from_str(line).map_err(CaseError::shape)?;
    let id = case.id.clone();
    let expected = case.expect.clone();
    let (actual, replay) = expect(case)?;
    Ok(Lived { id, actual, expected, replay })
}

fn expect(case: Case) -> Result<(Value, Option<String>), CaseError> {
    let draft: PlanDraft = serde_json::from_value(case.plan.clone()).map_err(CaseError::shape)?;
    let overrides = match &case.policy {
        Some(policy) => serde_json::from_value(policy.clone()).map_err(CaseError::shape)?,
        None => Default::default(),
    };
    let tools: Option<BTreeSet<String>> = case.tools.clone().map(|tools| tools.into_iter().collect());
    let settings = Settings::simulation(overrides, tools.as_ref().map(|tools| tools as _));
    let plan = match draft.validate(&settings) {
        Ok(plan) => plan,
        Err(faults) => {
            let mut errors: Vec<[String; 2]> =
                faults.iter().map(|fault| [fault.code.to_string(), fault.node.to_string()]).collect();
            errors.dedup(); // a case names each pair once
            return Ok((json!({"valid": false, "errors": errors}), None));
        }
    };
    let mut world = World::new(plan, case, &settings);
    world.run()?;
    Ok((told(&world), world.replay_difference()))
}

/// The form of `expect`.
fn told(world: &World<'_>) -> Value {
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
    debug_assert!(run.instances().all(|(_, instance)| instance.standing != Standing::Ready));
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
