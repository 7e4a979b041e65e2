//! The seam between an agent and whoever thinks for it: plain code in these examples, a model elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use ostler::{Program, ProgramContext, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Who thinks for an agent.
pub(crate) trait Analyst: Send + Sync + 'static {
    /// What `input` comes to. The instruction says in words what is wanted; what a person said of the last answer stands at
    /// its end, and in the input as `feedback`. Code knows what is wanted; a model has to be told.
    fn complete(
        &self,
        instruction: &str,
        input: &Value,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// The input as an analyst reads it.
pub(crate) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, Failure> {
    T::deserialize(input).map_err(|error| Failure::new(FailureCategory::Structural, format!("its input: {error}")))
}

/// The answer as what it should be. One that is none is not kept as the result of a step: it is asked for again.
pub(crate) fn answer<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    T::deserialize(answer)
        .map_err(|error| Failure::new(FailureCategory::InvalidOutput, format!("the analyst's answer: {error}")))
}

/// An agent who has one thing to do: asks an analyst for a `T`, as a step that is done once.
pub(crate) fn agent<T>(name: &str, instruction: &'static str, analyst: impl Analyst) -> Program
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let analyst = Arc::new(analyst);
    Program::new(name, "1", move |agent: ProgramContext, input: Value| {
        let analyst = Arc::clone(&analyst);
        async move {
            let instruction = instruction_with(instruction, &input);
            let ask = || async { answer(analyst.complete(&instruction, &input).await?) };
            let step = Step::new("answer").input(&input);
            Ok::<T, Failure>(agent.step(step, ask).await?)
        }
    })
    .description(instruction)
}

/// The instruction, and what a person said of the last answer to it.
pub(crate) fn instruction_with(instruction: &str, input: &Value) -> String {
    match input["feedback"].as_str() {
        Some(note) => format!("{instruction}\n\nYour last answer was sent back. The reviewer said: {note}"),
        None => instruction.to_owned(),
    }
}

/// What goes wrong with an analyst, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It panics.
    Crash,
    /// It never answers.
    Silence,
    /// It gives something else than it should.
    Nonsense,
}

/// An analyst whom something goes wrong with, if that is asked for: to see what is done about it.
pub(crate) struct Troubled<A> {
    analyst: A,
    trouble: Option<Trouble>,
    /// Calls until then.
    left: AtomicU32,
}

impl<A> Troubled<A> {
    /// Has the trouble at its call number `at`, from 0, and at no other.
    pub(crate) fn at(at: u32, trouble: Option<Trouble>, analyst: A) -> Troubled<A> {
        Troubled { analyst, trouble, left: AtomicU32::new(at) }
    }
}

impl<A: Analyst> Analyst for Troubled<A> {
    async fn complete(&self, instruction: &str, input: &Value) -> Result<Value, Failure> {
        let counted =
            |left: u32| if left == u32::MAX { None } else { Some(left.checked_sub(1).unwrap_or(u32::MAX)) };
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted);
        match self.trouble.filter(|_| left == Ok(0)) {
            Some(Trouble::Crash) => panic!("the analyst was to crash"),
            Some(Trouble::Silence) => std::future::pending().await,
            Some(Trouble::Nonsense) => Ok(json!({"poem": "roses are red"})),
            None => self.analyst.complete(instruction, input).await,
        }
    }
}
