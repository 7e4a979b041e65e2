//! A step of a program: what is done once, and remembered.

use ostler_kernel::event::Failure;
use ostler_kernel::json::{self, Json, JsonError};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::port::{ArtifactError, AttemptLogError};
use ostler_kernel::run::FailureCategory;
use serde::Serialize;

/// A step that is to be taken. Unless it says that it acts, it may be repeated without harm: it is called again if its process
/// dies before its result is written down.
#[derive(Debug, Clone)]
pub struct Step {
    pub(super) id: String,
    pub(super) input: Result<Json, String>,
    pub(super) acting: Option<Idempotency>,
}

impl Step {
    /// A step of this id, of which there is one in the program.
    pub fn new(id: impl Into<String>) -> Step {
        Step { id: id.into(), input: Ok(Json::null()), acting: None }
    }

    /// What it is done with. The same id with another input is an error, not another step: what has many inputs needs many ids.
    pub fn input(self, input: &(impl Serialize + ?Sized)) -> Step {
        let value = serde_json::to_value(input).map_err(|error| error.to_string());
        let input =
            value.and_then(|value| json::canonical(&value).map_err(|error: JsonError| error.to_string()));
        Step { input, ..self }
    }

    /// It does something to the world: that it is about to is written down before it does, and `idem` says what may be done
    /// if its process dies before it has told what came of it. `Natural` and `Keyed`: it is called again, under the same
    /// [idempotency key](super::ProgramContext::idempotency_key). `None`: never; a person is asked.
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

/// Why there is no result of a step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StepError {
    /// It was called and failed; the next attempt calls it again.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// Its input or its result is no JSON, or its result is none of the type that is asked for.
    #[error("step {step:?}: its {what} is not as it must be: {why}")]
    Shape {
        /// Which step.
        step: String,
        /// `input` or `result`.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// It acts, and its program says that it does not.
    #[error(
        "step {0:?} acts on the world, and its program says that it does not: give the program an effect"
    )]
    Undeclared(String),
    /// It was not called, or what came of it is not kept.
    #[error(transparent)]
    Log(#[from] AttemptLogError),
}

impl StepError {
    /// Whether the attempt is over whatever its program makes of it: something was recorded that does not go with what is done
    /// now, or nobody knows what was done. No step begins after it.
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
            StepError::Log(error) => match error {
                AttemptLogError::InDoubt(_) | AttemptLogError::ChangedByPatch(_) => FailureCategory::InDoubt,
                AttemptLogError::Result { failure, .. } => failure.category,
                AttemptLogError::Busy { .. }
                | AttemptLogError::StepMismatch(_)
                | AttemptLogError::StepLimit(_)
                | AttemptLogError::NoLog
                | AttemptLogError::Json(_)
                | AttemptLogError::LargeToken { .. }
                | AttemptLogError::ChildRun { .. }
                | AttemptLogError::Artifact(ArtifactError::Missing(_) | ArtifactError::Damaged { .. }) => {
                    FailureCategory::Structural
                }
                AttemptLogError::TooManyWaiting { .. }
                | AttemptLogError::Artifact(ArtifactError::Io(_) | ArtifactError::Full(_)) => {
                    FailureCategory::Transient
                }
                AttemptLogError::Budget { .. } => FailureCategory::ResourceExhaustion,
                AttemptLogError::AttemptEnded | AttemptLogError::Journal(_) => FailureCategory::Crash,
            },
        };
        Failure { category, message: error.to_string() }
    }
}
