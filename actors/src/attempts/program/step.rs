//! Steps of a program: done once, and remembered.

use ostler_kernel::event::Failure;
use ostler_kernel::json::{self, Json, JsonError};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::port::AttemptLogError;
use ostler_kernel::run::FailureCategory;
use serde::Serialize;

/// A step. By default a repetition is harmless, and the step is called again if its process died before the result was
/// recorded.
#[derive(Debug, Clone)]
pub struct Step {
    pub(super) id: String,
    pub(super) input: Result<Json, String>,
    pub(super) acting: Option<Idempotency>,
}

impl Step {
    /// A step with an id that is unique in the program.
    pub fn new(id: impl Into<String>) -> Step {
        Step { id: id.into(), input: Ok(Json::null()), acting: None }
    }

    /// Sets the input. The same id with another input is an error, not another step: many inputs need many ids.
    pub fn input(self, input: &(impl Serialize + ?Sized)) -> Step {
        let value = serde_json::to_value(input).map_err(|error| error.to_string());
        let input =
            value.and_then(|value| json::canonical(&value).map_err(|error: JsonError| error.to_string()));
        Step { input, ..self }
    }

    /// Declares that the step changes the world: the intent is recorded first, and `idem` decides what happens after a
    /// lost result. `Natural` and `Keyed`: another call under the same [idempotency
    /// key](super::ProgramContext::idempotency_key). `None`: no further call; a person settles the attempt.
    pub fn effect(self, idem: Idempotency) -> Step {
        Step { acting: Some(idem), ..self }
    }
}

impl From<&str> for Step {
    fn from(id: &str) -> Step {
        Step::new(id)
    }
}

impl From<String> for Step {
    fn from(id: String) -> Step {
        Step::new(id)
    }
}

/// The reason why a step has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StepError {
    /// The call failed; the next attempt repeats it.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The input or the result is no JSON, or has another type.
    #[error("step {step:?}: its {what} is not as it must be: {why}")]
    Shape {
        /// The step.
        step: String,
        /// `input` or `result`.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The step acts although its program declares no effect.
    #[error(
        "step {0:?} acts on the world, and its program says that it does not: give the program an effect"
    )]
    Undeclared(String),
    /// The log refused the step, or its result could not be recorded.
    #[error(transparent)]
    Log(#[from] AttemptLogError),
}

impl StepError {
    /// True if the error ends the attempt, even if the program returns a result: recorded and present steps disagree,
    /// or an outcome is unknown. No step begins afterwards.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            StepError::Failed(_) => false,
            StepError::Shape { .. } | StepError::Undeclared(_) | StepError::Log(_) => true,
        }
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Failure {
        let category = match &error {
            StepError::Failed(failure) => return failure.clone(),
            StepError::Shape { .. } | StepError::Undeclared(_) => FailureCategory::Structural,
            StepError::Log(error) => error.category(),
        };
        Failure { category, message: error.to_string() }
    }
}
