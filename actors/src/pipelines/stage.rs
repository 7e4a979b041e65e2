//! What a stage is made of: code that hears events and publishes others.

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
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::base::lock::lock;
use crate::base::panic_message::panic_message;
use crate::pipelines::error::PublishError;

/// An event as a stage hears it.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineEvent {
    /// Its number in the log of its pipeline: 1 for the first.
    pub seq: u64,
    /// When it was published, in milliseconds since the Unix epoch.
    pub at_ms: Ticks,
    /// By which stage.
    pub stage: StageId,
    /// What kind of event.
    pub kind: EventType,
    /// What it says.
    pub data: Json,
}

impl PipelineEvent {
    /// What it says, as a value.
    pub fn value(&self) -> Value {
        self.data.value()
    }

    /// What it says, as something of the caller's.
    ///
    /// # Errors
    ///
    /// It does not have that form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.as_str())
    }
}

/// Events that were gone before a stage had come to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// Why a stage could not deal with an event, in words. Any error becomes one with `?`.
#[derive(Clone, PartialEq, Eq)]
pub struct StageError(String);

impl StageError {
    /// With these words.
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

/// The code of a stage. It hears one event at a time, in the order of the log.
///
/// What it publishes and the state it keeps are recorded together with the fact that it has dealt with the event: all of it or
/// nothing. So its own effects on the pipeline happen once. What it does to the rest of the world may happen again: an event
/// that was not recorded as dealt with is heard again after a crash, under the same number.
///
/// If it fails or panics, it is made anew with the state that was recorded last, and hears the event again; after three failures
/// the event is parked.
pub trait Stage: Send + 'static {
    /// Deals with an event. The future may be dropped when the stage is stopped; then the event is heard again.
    fn handle(
        &mut self,
        event: Arc<PipelineEvent>,
        out: Outbox,
    ) -> impl Future<Output = Result<(), StageError>> + Send;

    /// Hears that events are gone: the stage was farther behind than the pipeline keeps. They are counted whoever they were
    /// for.
    fn lagged(&mut self, _gap: Gap, _out: Outbox) -> impl Future<Output = Result<(), StageError>> + Send {
        async { Ok(()) }
    }

    /// Hears that all stages before it have ended, and nothing more comes. What it publishes now is the last.
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

/// What the code of a stage does. In the end it gives the code back, unless that panicked, and says why it failed, if it did.
pub(crate) type Doing = BoxFuture<'static, (Option<Box<dyn AnyStage>>, Result<(), String>)>;

/// A stage of any type. Whatever it does may be taken elsewhere while it waits, so it goes with it.
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

/// Makes the code of a stage anew, with the state that it kept.
pub(crate) type Handler = Arc<dyn Fn(Option<Value>) -> Box<dyn AnyStage> + Send + Sync>;

/// The code, made anew.
pub(crate) fn made(handler: &Handler, kept: Option<Json>) -> Result<Box<dyn AnyStage>, String> {
    let make = AssertUnwindSafe(|| handler(kept.as_ref().map(Json::value)));
    std::panic::catch_unwind(make)
        .map_err(|panic| format!("it panicked when it was made: {}", panic_message(&*panic)))
}

/// What there is instead of what code does that could not be made.
pub(crate) fn was_not_made(reason: String) -> Doing {
    Box::pin(std::future::ready((None, Err(reason))))
}

/// Where a stage puts what it publishes and the state it keeps, while it deals with an event. Cheap to clone; what is put there
/// after the stage is through with the event is refused.
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

    /// Publishes an event once the stage is through with the one at hand. Others hear of it then.
    ///
    /// # Errors
    ///
    /// The stage does not declare the type, the data is too large or no JSON, it is too much with what was published before, or
    /// the stage is through already.
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

    /// Keeps a state: the stage is given it when it starts again. It replaces the one before.
    ///
    /// # Errors
    ///
    /// It is too large or no JSON, or the stage is through already.
    pub fn keep<T: Serialize + ?Sized>(&self, state: &T) -> Result<(), PublishError> {
        let state = check_state(to_canonical(state)?)?;
        self.open()?.state = Some(state);
        Ok(())
    }

    fn open(&self) -> Result<std::sync::MutexGuard<'_, Out>, PublishError> {
        let out = lock(&self.0);
        if out.open { Ok(out) } else { Err(PublishError::TooLate) }
    }

    /// What was put there, and the outbox for the next event.
    pub(crate) fn take(self) -> (Vec<Published>, Option<Json>, Outbox) {
        let mut out = lock(&self.0);
        let (events, state) = (std::mem::take(&mut out.events), out.state.take());
        out.output = Output::default();
        // Somebody kept a clone: it is closed, and the next event gets one of its own.
        let kept = Arc::strong_count(&self.0) > 1;
        out.open = !kept;
        let (topology, stage) = (Arc::clone(&out.topology), out.stage);
        drop(out);
        let next = if kept { Outbox::new(topology, stage) } else { self };
        (events, state, next)
    }
}

/// A state that is not too large.
pub(crate) fn check_state(state: Json) -> Result<Json, PublishError> {
    let bytes = state.as_str().len();
    if bytes > STATE_BYTES_MAX { Err(PublishError::StateTooLarge { bytes }) } else { Ok(state) }
}

impl From<JsonError> for PublishError {
    fn from(error: JsonError) -> PublishError {
        PublishError::Data(error)
    }
}
