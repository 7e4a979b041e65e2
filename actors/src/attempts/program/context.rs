//! The context of a running program.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ostler_kernel::event::{Failure, StepKey};
use ostler_kernel::gate::CallClass;
use ostler_kernel::id::Digest;
use ostler_kernel::plan::{NodeDraft, Plan};
use ostler_kernel::port::{
    AttemptLog, AttemptLogError, CallContext, ChildRunResult, ChildRunSpec, StepStart,
};
use ostler_kernel::run::RunOutcome;
use ostler_kernel::{json, lineage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::step::{Step, StepError};
use crate::attempts::attempt_journal::AROUND;

/// The context of a running program: steps, progress, workspace. A clone is another handle of the same attempt.
#[derive(Clone)]
pub struct ProgramContext {
    log: Arc<dyn AttemptLog>,
    workspace: Arc<Path>,
    key: Digest,
    stage: Arc<str>,
    /// The step that encloses steps of the handle, in any task.
    around: Option<Arc<str>>,
    version: Arc<str>,
    class: CallClass,
    /// The error that ends the attempt, even if the program returns a result.
    fatal: Arc<OnceLock<StepError>>,
}

impl ProgramContext {
    pub(super) fn new(context: &CallContext, class: CallClass, key: Digest) -> ProgramContext {
        ProgramContext {
            log: Arc::clone(&context.attempt),
            workspace: Arc::clone(&context.workspace),
            key,
            stage: Arc::from(""),
            around: None,
            version: Arc::from(""),
            class,
            fatal: Arc::default(),
        }
    }

    pub(super) fn log(&self) -> &Arc<dyn AttemptLog> {
        &self.log
    }

    pub(super) fn within(&self, stage: Option<&str>, version: &str, class: CallClass) -> ProgramContext {
        let stage = stage.map_or_else(String::new, |stage| format!("{stage}/"));
        ProgramContext { stage: stage.into(), version: version.into(), class, ..self.clone() }
    }

    pub(super) fn called_by(self, step: Option<&str>) -> ProgramContext {
        ProgramContext { around: step.map(Arc::from), ..self }
    }

    pub(super) fn fatal(&self) -> Option<Failure> {
        self.fatal.get().cloned().map(Failure::from)
    }

    /// Runs a step, or returns its recorded result without a call. Results are keyed by step id, program version and
    /// input, and kept as long as the run; `null` is a result. Failures are not kept: the next attempt calls the step
    /// again.
    ///
    /// The result of an acting step, or of an acting program's step, is durable on return. Dropping the future drops
    /// the call; a dropped acting step has an unknown outcome.
    ///
    /// # Errors
    ///
    /// See [`StepError`]. All but [`StepError::Failed`] end the attempt, even if the program continues: the id was
    /// recorded with another input or version, or the result is lost and a second call forbidden. Every later step
    /// returns the same error and calls nothing.
    pub async fn step<T, F, R>(&self, step: impl Into<Step>, call: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, Failure>>,
    {
        if let Some(error) = self.fatal.get() {
            return Err(error.clone());
        }
        let taken = self.take(step.into(), call).await;
        if let Err(error) = &taken
            && error.is_fatal()
        {
            let _ = self.fatal.set(error.clone());
        }
        taken
    }

    async fn take<T, F, R>(&self, step: Step, call: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, Failure>>,
    {
        let Step { id, input, acting } = step;
        let id: Arc<str> = format!("{}{id}", self.stage).into();
        let shape = |what, why| StepError::Shape { step: id.to_string(), what, why };
        let input = lineage::value(&input.map_err(|why| shape("input", why))?);
        if acting.is_some() && !self.class.acts() {
            return Err(StepError::Undeclared(id.to_string()));
        }
        let key = StepKey { version: self.version.to_string(), input };
        let around = AROUND.try_get().ok().flatten().or_else(|| self.around.clone());
        if let StepStart::Done(value) = AROUND.scope(around, self.log.begin(&id, key, acting)).await? {
            return serde_json::from_value(value).map_err(|error| shape("result", error.to_string()));
        }
        let mut open = Open { log: &*self.log, id: Some(&id) };
        let called = AROUND.scope(Some(Arc::clone(&id)), call()).await;
        let kept = match &called {
            // The first call returns the recorded form, as every later attempt gets it.
            Ok(value) => Some(as_recorded::<T>(value).map_err(|why| shape("result", why))?),
            Err(_) => None,
        };
        open.id = None;
        let value = kept.as_ref().map_or(&Value::Null, |(value, _)| value);
        self.log.end(&id, called.as_ref().map(|_| value), self.class.acts()).await?;
        match (called, kept) {
            (Ok(_), Some((_, given))) => Ok(given),
            (called, _) => called.map_err(StepError::Failed),
        }
    }

    /// Idempotency key of a step, the same for every attempt; an acting step keeps its key when the node is patched.
    pub fn idempotency_key(&self, step: &str) -> Digest {
        let step = format!("{}{step}", self.stage);
        // A log that cannot be read lets no step begin.
        let before = self.log.step_key(&step).unwrap_or_default();
        before.unwrap_or_else(|| lineage::step_key(self.key, &step))
    }

    /// Opens a child run as a step, and waits for its end. A repetition finds the same run. The child has at most the
    /// free budget, the common scope and the impact of the attempt, and is cancelled with the node.
    ///
    /// An attempt that only waits for child runs has no slot and costs nothing; the wait is a sign of life and counts
    /// against the node's timeout. Inside a step, await the call in the step's own task: other tasks count as work and
    /// keep the slot. Dropping the future leaves the run unchanged.
    ///
    /// # Errors
    ///
    /// See [`StepError`]. The outcome of the run is no error: see [`ChildRunResult`].
    pub async fn spawn(&self, id: &str, child: ChildRunSpec) -> Result<ChildRunResult, StepError> {
        let ChildRunSpec { plan, goal, budget, scope, intent } = &child;
        let mut input = serde_json::json!({"plan": plan, "budget": budget, "scope": scope, "intent": intent});
        if let Some(goal) = goal {
            input["goal"] = serde_json::to_value(goal).expect("terms have texts and whole numbers");
        }
        let (log, step) = (Arc::clone(&self.log), format!("{}{id}", self.stage));
        self.step(Step::new(id).input(&input), || async move {
            log.spawn(&step, child).await.map_err(|error| StepError::Log(error).into())
        })
        .await
    }

    /// Asks a person amid the work, as a step, and waits: true for a yes, false for a no and for silence until the end of `within`.
    /// The question is a child run of one node, which `ostler approvals` lists. The attempt has no slot meanwhile and costs
    /// nothing; the wait counts against the node's timeout. A repetition finds the same question, and its answer. Dropping the
    /// future leaves the question open.
    ///
    /// # Errors
    ///
    /// See [`ProgramContext::spawn`].
    pub async fn request_approval(
        &self,
        id: &str,
        question: &str,
        within: Duration,
    ) -> Result<bool, StepError> {
        let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        let plan = Plan::builder("question").node(NodeDraft::question("question", question, within_ms));
        let answered = self.spawn(id, ChildRunSpec::plan(plan)).await?;
        Ok(answered.outcome == RunOutcome::Succeeded)
    }

    /// The last token that the attempt or an earlier one reported.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
        self.log.resume_token()
    }

    /// Reports progress: a sign of life, and the token for the next attempt if this one fails. At most 4 KiB.
    ///
    /// # Errors
    ///
    /// The token is too large.
    pub fn progress(&self, token: impl Into<Value>) -> Result<(), AttemptLogError> {
        self.log.progress(token.into())
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        self.log.heartbeat();
    }

    /// The workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }
}

/// Converts a value to its recorded form and back; the error says why that is impossible.
fn as_recorded<T: Serialize + DeserializeOwned>(value: &T) -> Result<(Value, T), String> {
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let value = json::canonical(&value).map_err(|error| error.to_string())?.value();
    let given = T::deserialize(&value).map_err(|error| {
        let why = if value.is_null() { " (NaN and infinite numbers are none in JSON)" } else { "" };
        format!("what is recorded of it cannot be read back: {error}{why}")
    })?;
    Ok((value, given))
}

/// A step during its call; dropping the value removes the step.
struct Open<'a> {
    log: &'a dyn AttemptLog,
    id: Option<&'a str>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.log.abandon(id);
        }
    }
}
