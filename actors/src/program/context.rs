//! What a program has at hand while it runs.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ostler_kernel::event::{Failure, StepKey};
use ostler_kernel::gate::CallClass;
use ostler_kernel::id::Digest;
use ostler_kernel::lineage;
use ostler_kernel::port::{AttemptLog, Begun, CallContext, Child, ChildEnd, LogError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::step::{Step, StepError};

/// What a program has at hand while it runs: its steps, its signs of life, its workspace. Cloning it gives another handle to the
/// same attempt.
#[derive(Clone)]
pub struct ProgramContext {
    log: Arc<dyn AttemptLog>,
    workspace: Arc<Path>,
    /// What a receiver can recognise a repetition of the attempt's work by.
    key: Digest,
    /// What stands before the ids of its steps.
    stage: Arc<str>,
    version: Arc<str>,
    class: CallClass,
    /// What ends the attempt, whatever the program makes of it.
    fatal: Arc<OnceLock<Failure>>,
}

impl ProgramContext {
    pub(super) fn new(context: &CallContext, class: CallClass, key: Digest) -> ProgramContext {
        ProgramContext {
            log: Arc::clone(&context.attempt),
            workspace: Arc::clone(&context.workspace),
            key,
            stage: Arc::from(""),
            version: Arc::from(""),
            class,
            fatal: Arc::default(),
        }
    }

    /// The same for a piece of the program.
    pub(super) fn within(&self, stage: Option<&str>, version: &str, class: CallClass) -> ProgramContext {
        let stage = stage.map_or_else(String::new, |stage| format!("{stage}/"));
        ProgramContext { stage: stage.into(), version: version.into(), class, ..self.clone() }
    }

    pub(super) fn fatal(&self) -> Option<Failure> {
        self.fatal.get().cloned()
    }

    /// Does a step, or gives what came of it before, without calling it. A result is kept by the id of the step, the version of
    /// the program and the step's input, for as long as the run is; `null` is a result. What fails is not kept: the next attempt
    /// calls it again.
    ///
    /// The result of a step that acts, or of a program that does, is durable when this returns. Dropping the future drops the
    /// call; of a step that acts it is not known then whether it was done.
    ///
    /// # Errors
    ///
    /// See [`StepError`]. All but [`StepError::Failed`] end the attempt, even if the program goes on: a step of the same id
    /// was recorded with another input or by another version, or its result is lost and it may not be called twice.
    pub async fn step<T, F, R>(&self, step: impl Into<Step>, call: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> R,
        R: Future<Output = Result<T, Failure>>,
    {
        let taken = self.take(step.into(), call).await;
        if let Err(error) = &taken
            && error.is_fatal()
        {
            let _ = self.fatal.set(error.clone().into());
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
        let id = format!("{}{id}", self.stage);
        let shape = |what, why| StepError::Shape { step: id.clone(), what, why };
        let input = lineage::value(&input.map_err(|why| shape("input", why))?);
        if acting.is_some() && !self.class.acts() {
            return Err(StepError::Undeclared(id));
        }
        let key = StepKey { version: self.version.to_string(), input };
        if let Begun::Done(value) = self.log.begin(&id, key, acting).await? {
            return serde_json::from_value(value).map_err(|error| shape("result", error.to_string()));
        }
        let mut open = Open { log: &*self.log, id: Some(&id) };
        let called = call().await;
        let value = match &called {
            Ok(value) => serde_json::to_value(value).map_err(|error| shape("result", error.to_string()))?,
            Err(_) => Value::Null,
        };
        open.id = None;
        self.log.end(&id, called.as_ref().map(|_| &value), self.class.acts()).await?;
        called.map_err(StepError::Failed)
    }

    /// What a receiver can recognise a repetition of a step by: the same for every attempt.
    pub fn idempotency_key(&self, step: &str) -> Digest {
        lineage::step_key(self.key, &format!("{}{step}", self.stage))
    }

    /// Opens a run as a step, and waits for its end. Doing it again finds the same run. It has at most the budget that is left
    /// to the run of this attempt, what both scopes allow, and at most the same impact; it is cancelled with this attempt's node.
    ///
    /// While it waits the attempt keeps its slot, and the waiting counts as a sign of life. Dropping the future leaves the run as
    /// it is.
    ///
    /// # Errors
    ///
    /// See [`StepError`]. How the run ended is no error: see [`ChildEnd`].
    pub async fn spawn(&self, id: &str, child: Child) -> Result<ChildEnd, StepError> {
        let Child { plan, budget, scope, intent } = &child;
        let input = json!({"plan": plan, "budget": budget, "scope": scope, "intent": intent});
        let (log, step) = (Arc::clone(&self.log), format!("{}{id}", self.stage));
        self.step(Step::new(id).input(&input), || async move {
            log.spawn(&step, child).await.map_err(|error| StepError::Log(error).into())
        })
        .await
    }

    /// What was reported last, by this attempt or by one before it that failed or died.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn resume_token(&self) -> Result<Option<Value>, LogError> {
        self.log.resume_token()
    }

    /// Reports how far it has come: a sign of life, and what the next attempt is given if this one fails. At most 4 KiB.
    ///
    /// # Errors
    ///
    /// The token is too large.
    pub fn progress(&self, token: impl Into<Value>) -> Result<(), LogError> {
        self.log.progress(token.into())
    }

    /// A sign of life.
    pub fn beat(&self) {
        self.log.beat();
    }

    /// The folder that it may touch.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }
}

/// A step that is being called: if that is given up, nobody is about it any more.
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
