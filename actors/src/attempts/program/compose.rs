//! Composition of programs. Stages are a flat list, so grouping changes neither results nor the names of steps.

use std::fmt;
use std::sync::Arc;

use ostler_kernel::gate::CallClass;
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{ToolResult, ToolSpec};
use serde_json::{Value, json};

use super::context::ProgramContext;
use super::routine::{Routine, Shape};
use super::step::Step;
use crate::base::attempt_end::structural;

#[derive(Clone)]
pub(super) enum Stage {
    /// Code.
    Routine(Routine),
    /// Maps one stage's output to the next one's input.
    Mapping(Mapping),
    /// A declaration about the whole program.
    Whole(Whole),
}

/// A declaration about a composed program, beside the ones of its stages.
#[derive(Clone)]
pub(super) enum Whole {
    /// Schema of the value before it; of the input, if it comes first.
    Input(Shape),
    /// Schema of the output.
    Output(Shape),
    /// Least class of effects.
    Class(CallClass),
}

/// A map of values; the error names the problem of the input.
type Map = dyn Fn(Value) -> Result<Value, String> + Send + Sync;

/// Maps the output of one program to the input of the next. Pure: each attempt calls it again.
#[derive(Clone)]
pub struct Mapping {
    pub(super) name: String,
    /// `None`: the identity.
    pub(super) map: Option<Arc<Map>>,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({})", self.name)
    }
}

impl Mapping {
    /// A map with a name for people; its error says what is wrong with the value.
    pub fn new(
        name: impl Into<String>,
        map: impl Fn(Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Mapping {
        Mapping { name: name.into(), map: Some(Arc::new(map)) }
    }

    /// The identity.
    pub fn none() -> Mapping {
        Mapping { name: String::new(), map: None }
    }
}

fn routines(stages: &[Stage]) -> impl DoubleEndedIterator<Item = &Routine> {
    stages.iter().filter_map(|stage| match stage {
        Stage::Routine(routine) => Some(routine),
        Stage::Mapping(_) | Stage::Whole(_) => None,
    })
}

fn joined(stages: &[Stage], part: impl Fn(&Routine) -> &str) -> String {
    routines(stages).map(part).collect::<Vec<_>>().join("-")
}

pub(super) fn spec(stages: &[Stage]) -> ToolSpec {
    let any = || json!({"type": "object", "additionalProperties": true});
    let named = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
    ToolSpec {
        name: named(joined(stages, |routine| &routine.name), "identity"),
        version: named(joined(stages, |routine| &routine.version), "1"),
        description: routines(stages)
            .map(|routine| &*routine.description)
            .collect::<Vec<_>>()
            .join(" Then: "),
        params: match stages.iter().find(|stage| !matches!(stage, Stage::Whole(Whole::Class(_)))) {
            Some(Stage::Routine(Routine { input: shape, .. }) | Stage::Whole(Whole::Input(shape))) => {
                shape.schema.clone()
            }
            Some(Stage::Mapping(_) | Stage::Whole(_)) | None => any(),
        },
        result: match stages.iter().rfind(|stage| !matches!(stage, Stage::Whole(Whole::Class(_)))) {
            Some(Stage::Routine(Routine { output: shape, .. }) | Stage::Whole(Whole::Output(shape))) => {
                shape.schema.clone()
            }
            Some(Stage::Mapping(_) | Stage::Whole(_)) | None => json!({}),
        },
    }
}

pub(super) fn class(stages: &[Stage]) -> CallClass {
    let none = CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural };
    stages.iter().fold(none, |all, stage| match stage {
        Stage::Routine(routine) => all.and(routine.class),
        Stage::Whole(Whole::Class(class)) => all.and(*class),
        Stage::Whole(Whole::Input(_) | Whole::Output(_)) | Stage::Mapping(_) => all,
    })
}

/// Runs the stages in order.
pub(super) async fn run(stages: &[Stage], agent: &ProgramContext, input: Value) -> ToolResult {
    let count = routines(stages).count();
    let mut value = input;
    let mut number = 0;
    for stage in stages {
        value = match stage {
            Stage::Mapping(Mapping { name, map }) => match map {
                Some(map) => map(value).map_err(|what| {
                    structural(format!("map {name:?}, before stage {}: {what}", number + 1))
                })?,
                None => value,
            },
            Stage::Whole(Whole::Class(_)) => value,
            Stage::Whole(whole @ (Whole::Input(shape) | Whole::Output(shape))) => {
                let what = if matches!(whole, Whole::Input(_)) { "input" } else { "output" };
                let wrong = |why| structural(format!("the {what} of the whole is not as it must be: {why}"));
                shape.judge(&value).map_err(wrong)?;
                value
            }
            Stage::Routine(routine) => {
                number += 1;
                let at = (count > 1).then_some(number);
                piece(routine, agent, value, at, number == count).await?
            }
        };
    }
    Ok(value)
}

/// Runs one stage; `at`: its number, if there are several. The last stage gives the result of the attempt.
async fn piece(
    routine: &Routine,
    agent: &ProgramContext,
    input: Value,
    at: Option<usize>,
    is_last: bool,
) -> ToolResult {
    let who = || at.map_or_else(|| routine.name.clone(), |at| format!("stage {at}, {}", routine.name));
    let wrong =
        |what: &str, why: String| structural(format!("{}: its {what} is not as it must be: {why}", who()));
    routine.input.judge(&input).map_err(|why| wrong("input", why))?;
    let stage = at.map(|at| format!("{at}.{}", routine.name));
    let inside = agent.within(stage.as_deref(), &routine.version, routine.class);
    let step = stage.filter(|_| !is_last);
    let inside = inside.called_by(step.as_deref());
    let run = async {
        let output = (routine.code)(inside, input.clone()).await;
        // A fatal step error counts whatever the code returns: neither this stage nor a later one is recorded.
        if let Some(failure) = agent.fatal() {
            return Err(failure);
        }
        let output = output?;
        routine.output.judge(&output).map_err(|why| wrong("output", why))?;
        Ok(output)
    };
    match step {
        None => run.await,
        Some(step) => {
            let step = Step::new(step).input(&input);
            Ok(agent.within(None, &routine.version, routine.class).step(step, || run).await?)
        }
    }
}
