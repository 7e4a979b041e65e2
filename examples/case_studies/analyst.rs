//! Interface between an agent and its reasoning: plain code in these examples, a model in practice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ostler::kernel::event::Failure;
use ostler::kernel::run::FailureCategory;
use ostler::{Program, ProgramContext, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Produces an agent's answers.
pub(crate) trait Analyst: Send + Sync + 'static {
    /// Answers `input`. `instruction` states the task in words, followed by a reviewer's note on the last answer; the note is also
    /// in the input as `feedback`. Code can ignore the instruction, a model needs it.
    fn complete(
        &self,
        instruction: &str,
        input: &Value,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// Parses the input.
pub(crate) fn read<T: DeserializeOwned>(input: &Value) -> Result<T, Failure> {
    T::deserialize(input)
        .map_err(|error| Failure::new(FailureCategory::Structural, format!("its input: {error}")))
}

/// Parses an answer. An invalid answer is not recorded as the step's result, so a retry asks again.
pub(crate) fn answer<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    T::deserialize(answer).map_err(|error| {
        Failure::new(FailureCategory::InvalidOutput, format!("the analyst's answer: {error}"))
    })
}

/// An agent with one durable step: obtain a `T` from an analyst.
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

/// The instruction with the reviewer's note on the last answer.
pub(crate) fn instruction_with(instruction: &str, input: &Value) -> String {
    match input["feedback"].as_str() {
        Some(note) => format!("{instruction}\n\nYour last answer was sent back. The reviewer said: {note}"),
        None => instruction.to_owned(),
    }
}

/// A fault to inject once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// Panics.
    Crash,
    /// Never answers.
    Silence,
    /// Answers with an invalid value.
    Nonsense,
}

/// An analyst with an optional injected fault, to demonstrate recovery.
pub(crate) struct FaultyAnalyst<A> {
    analyst: A,
    fault: Option<InjectedFault>,
    /// Calls before the fault.
    left: AtomicU32,
}

impl<A> FaultyAnalyst<A> {
    /// Injects the fault at call `at`, counted from 0.
    pub(crate) fn at(at: u32, fault: Option<InjectedFault>, analyst: A) -> FaultyAnalyst<A> {
        FaultyAnalyst { analyst, fault, left: AtomicU32::new(at) }
    }
}

impl<A: Analyst> Analyst for FaultyAnalyst<A> {
    async fn complete(&self, instruction: &str, input: &Value) -> Result<Value, Failure> {
        let counted =
            |left: u32| if left == u32::MAX { None } else { Some(left.checked_sub(1).unwrap_or(u32::MAX)) };
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted);
        match self.fault.filter(|_| left == Ok(0)) {
            Some(InjectedFault::Crash) => panic!("the analyst was to crash"),
            Some(InjectedFault::Silence) => std::future::pending().await,
            Some(InjectedFault::Nonsense) => Ok(json!({"poem": "roses are red"})),
            None => self.analyst.complete(instruction, input).await,
        }
    }
}
