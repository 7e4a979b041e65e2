//! The code of a stage: handles events and publishes others.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use ostler_kernel::event::Published;
use ostler_kernel::id::{EventType, StageId, Ticks};
use ostler_kernel::json::{Json, JsonError, to_canonical};
use ostler_kernel::pipeline::{Output, STATE_BYTES_MAX, Topology};
use ostler_kernel::port::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::lock::lock;
use crate::base::panic_message::panic_message;
use crate::pipelines::error::PublishError;

/// An event, as a stage receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineEvent {
    /// Number in the log, from 1.
    pub seq: u64,
    /// Publishing time in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// The publishing stage.
    pub stage: StageId,
    /// The type.
    pub kind: EventType,
    /// The data.
    pub data: Json,
}

impl PipelineEvent {
    /// The data as a value.
    pub fn value(&self) -> Value {
        self.data.value()
    }

    /// The data as `T`.
    ///
    /// # Errors
    ///
    /// The data has another form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.as_str())
    }
}

/// Events that were removed before a stage received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// The reason why a stage failed at an event. Any error converts with `?`.
#[derive(Clone, PartialEq, Eq)]
pub struct StageError(String);

impl StageError {
    /// An error with the text.
    pub fn new(what: impl Into<String>) -> StageError {
        StageError(what.into())
    }
}

impl<E: std::error::Error> From<E> for StageError {
    fn from(error: E) -> StageError {
        StageError(error.to_string())
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The code of a stage, which receives one event at a time in the order of the log.
///
/// Publications and state are recorded together with the acknowledgement, all or nothing, so effects on the pipeline
/// happen once. Effects on the rest of the world may repeat: an unacknowledged event is received again after a crash,
/// under the same number.
///
/// After a failure or panic the code is recreated with the last recorded state and receives the event again; after
/// three failures the event is dead-lettered.
pub trait Stage: Send + 'static {
    /// Handles an event. A stopped stage drops the future, and the event is received again.
    fn handle(
        &mut self,
        event: Arc<PipelineEvent>,
        out: Outbox,
    ) -> impl Future<Output = Result<(), StageError>> + Send;

    /// Learns of removed events for any stage: the stage was farther behind than the pipeline keeps.
    fn lagged(&mut self, _gap: Gap, _out: Outbox) -> impl Future<Output = Result<(), StageError>> + Send {
        async { Ok(()) }
    }

    /// Learns that all earlier stages have ended. Publications now are the last.
    fn ended(&mut self, _out: Outbox) -> impl Future<Output = Result<(), StageError>> + Send {
        async { Ok(()) }
    }
}

impl<F, Doing> Stage for F
where
    F: FnMut(Arc<PipelineEvent>, Outbox) -> Doing + Send + 'static,
    Doing: Future<Output = Result<(), StageError>> + Send,
{
    fn handle(
        &mut self,
        event: Arc<PipelineEvent>,
        out: Outbox,
    ) -> impl Future<Output = Result<(), StageError>> + Send {
        self(event, out)
    }
}

/// A call of the code. It returns the code, unless that panicked, and the error.
pub(crate) type Doing = BoxFuture<'static, (Option<Box<dyn AnyStage>>, Result<(), String>)>;

/// A stage of any type. Calls own the stage, because they may move between threads.
pub(crate) trait AnyStage: Send {
    fn handle(self: Box<Self>, event: Arc<PipelineEvent>, out: Outbox) -> Doing;
    fn lagged(self: Box<Self>, gap: Gap, out: Outbox) -> Doing;
    fn ended(self: Box<Self>, out: Outbox) -> Doing;
}

impl<S: Stage> AnyStage for S {
    fn handle(mut self: Box<Self>, event: Arc<PipelineEvent>, out: Outbox) -> Doing {
        Box::pin(async move {
            let result = caught(async { Stage::handle(&mut *self, event, out).await }).await;
            given_back(self, result)
        })
    }

    fn lagged(mut self: Box<Self>, gap: Gap, out: Outbox) -> Doing {
        Box::pin(async move {
            let result = caught(async { Stage::lagged(&mut *self, gap, out).await }).await;
            given_back(self, result)
        })
    }

    fn ended(mut self: Box<Self>, out: Outbox) -> Doing {
        Box::pin(async move {
            let result = caught(async { Stage::ended(&mut *self, out).await }).await;
            given_back(self, result)
        })
    }
}

async fn caught(
    doing: impl Future<Output = Result<(), StageError>>,
) -> Result<Result<(), StageError>, Box<dyn Any + Send>> {
    AssertUnwindSafe(doing).catch_unwind().await
}

fn given_back<S: Stage>(
    code: Box<S>,
    result: Result<Result<(), StageError>, Box<dyn Any + Send>>,
) -> (Option<Box<dyn AnyStage>>, Result<(), String>) {
    match result {
        Ok(result) => (Some(code), result.map_err(|error| error.to_string())),
        Err(panic) => (None, Err(format!("it panicked: {}", panic_message(&*panic)))),
    }
}

/// Recreates the code of a stage from a kept state.
pub(crate) type Handler = Arc<dyn Fn(Option<Value>) -> Box<dyn AnyStage> + Send + Sync>;

pub(crate) fn made(handler: &Handler, kept: Option<Json>) -> Result<Box<dyn AnyStage>, String> {
    let make = AssertUnwindSafe(|| handler(kept.as_ref().map(Json::value)));
    std::panic::catch_unwind(make)
        .map_err(|panic| format!("it panicked when it was made: {}", panic_message(&*panic)))
}

/// A call of code that could not be recreated.
pub(crate) fn was_not_made(reason: String) -> Doing {
    Box::pin(std::future::ready((None, Err(reason))))
}

/// Collects publications and the state while a stage handles an event. Cheap to clone; refused once the stage has
/// finished the event.
#[derive(Clone)]
pub struct Outbox(Arc<Mutex<Out>>);

struct Out {
    topology: Arc<Topology>,
    stage: usize,
    events: Vec<Published>,
    output: Output,
    state: Option<Json>,
    open: bool,
}

impl Outbox {
    pub(crate) fn new(topology: Arc<Topology>, stage: usize) -> Outbox {
        let (events, output) = (Vec::new(), Output::default());
        Outbox(Arc::new(Mutex::new(Out { topology, stage, events, output, state: None, open: true })))
    }

    /// Publishes an event once the stage has finished the present one.
    ///
    /// # Errors
    ///
    /// The stage does not declare the type; the data is too large, together with earlier publications, or no JSON; or
    /// the stage has finished the event.
    pub fn publish<T: Serialize + ?Sized>(&self, kind: &str, data: &T) -> Result<(), PublishError> {
        let data = to_canonical(data)?;
        let mut out = self.open()?;
        let kind = out.topology.check_publish(out.stage, kind, &data)?;
        let stage = out.topology.name(out.stage).clone();
        let event = Published { stage, kind, data };
        out.output.add(&event)?;
        out.events.push(event);
        Ok(())
    }

    /// Keeps a state for the next start, in place of the last one.
    ///
    /// # Errors
    ///
    /// The state is too large or no JSON, or the stage has finished the event.
    pub fn keep<T: Serialize + ?Sized>(&self, state: &T) -> Result<(), PublishError> {
        let state = check_state(to_canonical(state)?)?;
        self.open()?.state = Some(state);
        Ok(())
    }

    fn open(&self) -> Result<std::sync::MutexGuard<'_, Out>, PublishError> {
        let out = lock(&self.0);
        if out.open { Ok(out) } else { Err(PublishError::TooLate) }
    }

    /// Takes the collected output, and returns the outbox for the next event.
    pub(crate) fn take(self) -> (Vec<Published>, Option<Json>, Outbox) {
        let mut out = lock(&self.0);
        let (events, state) = (std::mem::take(&mut out.events), out.state.take());
        out.output = Output::default();
        // The kept clone is closed; the next event gets a new outbox.
        let kept = Arc::strong_count(&self.0) > 1;
        out.open = !kept;
        let (topology, stage) = (Arc::clone(&out.topology), out.stage);
        drop(out);
        let next = if kept { Outbox::new(topology, stage) } else { self };
        (events, state, next)
    }
}

pub(crate) fn check_state(state: Json) -> Result<Json, PublishError> {
    let bytes = state.as_str().len();
    if bytes > STATE_BYTES_MAX { Err(PublishError::StateTooLarge { bytes }) } else { Ok(state) }
}

impl From<JsonError> for PublishError {
    fn from(error: JsonError) -> PublishError {
        PublishError::Data(error)
    }
}
