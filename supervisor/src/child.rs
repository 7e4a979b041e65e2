//! A child: start, references and stop.

use std::any::Any;
use std::fmt;
use std::future::{poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorRef, ActorStatus, Message, SpawnErr};
use tokio::task::{JoinError, JoinHandle};

use crate::clock::pass;
use crate::completion::{Completion, Token};
use crate::control::StopRequest;
use crate::exit::{Exit, Ignore, clip};
use crate::observer::{EventSink, shielded};
use crate::supervised::{HookFailure, StartHookFailed, Supervised};
use crate::{
    Cause, ChildId, Clock, Pool, PoolSpec, Shutdown, StartError, SupervisorRef, SupervisorSpec, pool,
    supervisor,
};

/// Time until a supervisor abandons a killed worker that keeps running. Only code without yields to the runtime
/// outlives a kill by so much.
pub const KILL_GRACE: Duration = Duration::from_secs(5);

/// A reference to a running child; stale after the child's next restart.
#[derive(Clone)]
pub enum ChildRef {
    /// A worker; see [`ChildRef::actor`] for the typed reference.
    Actor(ActorCell),
    /// A supervisor.
    Supervisor(SupervisorRef),
    /// A pool.
    Pool(Pool),
}

impl ChildRef {
    /// The typed reference of a worker of type `A`.
    pub fn actor<A: Actor>(&self) -> Option<ActorRef<A::Msg>> {
        self.takes::<A::Msg>()
    }

    /// The typed reference of a worker with the message type.
    pub(crate) fn takes<M: Message>(&self) -> Option<ActorRef<M>> {
        match self {
            ChildRef::Actor(cell) => {
                let takes = cell.is_message_type_of::<M>().unwrap_or(false);
                takes.then(|| cell.clone().into())
            }
            ChildRef::Supervisor(_) | ChildRef::Pool(_) => None,
        }
    }

    /// The handle of a supervisor.
    pub fn supervisor(&self) -> Option<SupervisorRef> {
        match self {
            ChildRef::Supervisor(supervisor) => Some(supervisor.clone()),
            ChildRef::Actor(_) | ChildRef::Pool(_) => None,
        }
    }

    /// The handle of a pool.
    pub fn pool(&self) -> Option<Pool> {
        match self {
            ChildRef::Pool(pool) => Some(pool.clone()),
            ChildRef::Actor(_) | ChildRef::Supervisor(_) => None,
        }
    }

    /// True if the child still accepts messages.
    pub(crate) fn is_live(&self) -> bool {
        match self {
            ChildRef::Actor(cell) => cell.get_status() < ActorStatus::Stopping,
            ChildRef::Supervisor(supervisor) => !supervisor.control().completion.is_gone(),
            ChildRef::Pool(pool) => !pool.control().completion.is_gone(),
        }
    }

    fn ask(&self) {
        match self {
            ChildRef::Actor(cell) => cell.stop(None),
            ChildRef::Supervisor(supervisor) => supervisor.control().raise(StopRequest::Stop),
            ChildRef::Pool(pool) => pool.control().raise(StopRequest::Stop),
        }
    }

    pub(crate) fn kill(&self) {
        match self {
            ChildRef::Actor(cell) => cell.kill(),
            ChildRef::Supervisor(supervisor) => supervisor.control().raise(StopRequest::Kill),
            ChildRef::Pool(pool) => pool.control().raise(StopRequest::Kill),
        }
    }
}

impl fmt::Debug for ChildRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildRef::Actor(cell) => write!(f, "Actor({})", cell.get_id()),
            ChildRef::Supervisor(_) => f.write_str("Supervisor"),
            ChildRef::Pool(_) => f.write_str("Pool"),
        }
    }
}

pub(crate) struct StartContext<'a> {
    pub(crate) token: Token,
    pub(crate) events: &'a EventSink,
    pub(crate) id: &'a ChildId,
}

impl StartContext<'_> {
    /// The event sink for the children of a supervisor or pool started in this context.
    pub(crate) fn inner_events(&self) -> EventSink {
        self.events.child_sink(self.id)
    }
}

pub(crate) struct StartedChild {
    pub(crate) child: ChildRef,
    /// The actor's task; supervisors report their exits themselves.
    pub(crate) task: Option<JoinHandle<()>>,
}

/// A failed start. Everything it had made is dropped by then.
pub(crate) enum NotStarted {
    Ignored,
    /// The exit, and the failures below it, deepest first.
    Failed {
        exit: Exit,
        causes: Vec<Cause>,
    },
}

impl NotStarted {
    pub(crate) fn failed(exit: Exit) -> Self {
        NotStarted::Failed { exit, causes: Vec::new() }
    }
}

pub(crate) type Outcome = Result<StartedChild, NotStarted>;

/// Starts a child, repeatedly. Dropping the future undoes the start.
pub(crate) trait Start: Send + Sync {
    /// Starts the child. Run it as an [`Attempt`]: factories, hooks and drops of the embedding program may panic.
    fn start(&self, context: StartContext<'_>) -> BoxFuture<'static, Outcome>;
}

/// A start under way. A panic is a failed start; a panic while the start is being dropped is logged.
pub(crate) struct Attempt(Option<BoxFuture<'static, Outcome>>);

impl Attempt {
    pub(crate) fn new(start: &dyn Start, context: StartContext<'_>) -> Self {
        let attempt = catch_unwind(AssertUnwindSafe(|| start.start(context)));
        Attempt(Some(attempt.unwrap_or_else(|payload| Box::pin(ready(panicked(payload))))))
    }
}

impl Future for Attempt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let start = self.0.as_mut().expect("it is there until the drop");
        let polled = catch_unwind(AssertUnwindSafe(|| start.as_mut().poll(context)));
        polled.unwrap_or_else(|payload| Poll::Ready(panicked(payload)))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        shielded("start", || drop(self.0.take()));
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Outcome {
    Err(NotStarted::failed(Exit::of_panic(payload)))
}

pub(crate) struct ActorStart<F, G> {
    pub(crate) actor: F,
    pub(crate) args: G,
}

impl<A, F, G> Start for ActorStart<F, G>
where
    A: Actor,
    F: Fn() -> A + Send + Sync,
    G: Fn() -> A::Arguments + Send + Sync,
{
    fn start(&self, context: StartContext<'_>) -> BoxFuture<'static, Outcome> {
        let (actor, args) = ((self.actor)(), (self.args)());
        let spawned = Actor::spawn(None, Supervised::new(actor, context.token), args);
        Box::pin(spawned.map(|spawned| match spawned {
            Ok((actor, task)) => Ok(StartedChild { child: ChildRef::Actor(actor.into()), task: Some(task) }),
            Err(error) => Err(not_started(error)),
        }))
    }
}

fn not_started(error: SpawnErr) -> NotStarted {
    let SpawnErr::StartupFailed(error) = error else {
        return NotStarted::failed(Exit::StartFailed(error.to_string()));
    };
    match error.downcast::<StartHookFailed>().map(|failed| failed.0) {
        Ok(HookFailure::Error(error)) if error.is::<Ignore>() => NotStarted::Ignored,
        Ok(HookFailure::Error(error)) => NotStarted::failed(Exit::StartFailed(clip(error.to_string()))),
        Ok(HookFailure::Exit(exit)) => NotStarted::failed(exit),
        // The start hook did not finish.
        Err(_) => NotStarted::failed(Exit::Killed),
    }
}

pub(crate) struct TreeStart<F> {
    pub(crate) init: F,
}

impl<F: Fn() -> Option<SupervisorSpec> + Send + Sync> Start for TreeStart<F> {
    fn start(&self, context: StartContext<'_>) -> BoxFuture<'static, Outcome> {
        let (spec, events, token) = ((self.init)(), context.inner_events(), context.token);
        Box::pin(async move {
            let spec = spec.ok_or(NotStarted::Ignored)?;
            let completion = token.completion().clone();
            match supervisor::launch(spec, token, events).await {
                Ok(supervisor) => Ok(StartedChild { child: ChildRef::Supervisor(supervisor), task: None }),
                Err(error) => Err(branch_failed(&error, completion.causes().to_vec())),
            }
        })
    }
}

pub(crate) struct PoolStart {
    pub(crate) spec: PoolSpec,
}

impl Start for PoolStart {
    fn start(&self, context: StartContext<'_>) -> BoxFuture<'static, Outcome> {
        let (spec, events, token) = (self.spec.clone(), context.inner_events(), context.token);
        Box::pin(async move {
            match pool::launch(spec, token, events) {
                Ok(pool) => Ok(StartedChild { child: ChildRef::Pool(pool), task: None }),
                Err(error) => Err(branch_failed(&error, Vec::new())),
            }
        })
    }
}

fn branch_failed(error: &StartError, causes: Vec<Cause>) -> NotStarted {
    NotStarted::Failed { exit: Exit::StartFailed(clip(error.to_string())), causes }
}

/// Stops a child: the reference and the signal of the end.
#[derive(Clone)]
pub(crate) struct ChildHandle {
    pub(crate) child: ChildRef,
    pub(crate) completion: Arc<Completion>,
}

impl ChildHandle {
    /// The child's completion, if the end may be visible and the supervisor has not handled it. A branch is gone only
    /// once its end is handled.
    pub(crate) fn unhandled_end(&self) -> Option<Arc<Completion>> {
        let seen = match &self.child {
            ChildRef::Actor(cell) => self.completion.is_ending() || cell.get_status() == ActorStatus::Stopped,
            ChildRef::Supervisor(_) | ChildRef::Pool(_) => false,
        };
        (seen && !self.completion.is_gone()).then(|| self.completion.clone())
    }

    /// Stops the child as `shutdown` says, and waits for the end.
    ///
    /// Returns true if the child is gone; a killed child without yields is abandoned after [`KILL_GRACE`].
    pub(crate) async fn stop(&self, shutdown: Shutdown, clock: &dyn Clock) -> bool {
        if shutdown == Shutdown::Brutal {
            return self.kill(clock).await;
        }
        self.completion.ask();
        self.child.ask();
        let in_time = tokio::select! {
            biased;
            () = self.completion.gone() => true,
            () = pass(clock, shutdown.patience()) => false,
        };
        in_time || self.kill(clock).await
    }

    /// Kills the child and waits; returns true if the child is gone.
    pub(crate) async fn kill(&self, clock: &dyn Clock) -> bool {
        self.child.kill();
        let grace = match &self.child {
            ChildRef::Actor(_) => KILL_GRACE,
            // A supervisor abandons its own children, so it always ends.
            ChildRef::Supervisor(_) | ChildRef::Pool(_) => Duration::MAX,
        };
        gone_within(&self.completion, grace, clock).await
    }
}

/// Waits for the end of a child, and abandons the child after `grace`; returns true if the child is gone.
pub(crate) async fn gone_within(completion: &Completion, grace: Duration, clock: &dyn Clock) -> bool {
    tokio::select! {
        biased;
        () = completion.gone() => true,
        () = pass(clock, grace) => {
            completion.abandon();
            false
        }
    }
}

/// A running child in the hands of its supervisor; killed on drop.
pub(crate) struct Running {
    pub(crate) incarnation: u64,
    pub(crate) handle: ChildHandle,
    task: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(incarnation: u64, started: StartedChild, completion: Arc<Completion>) -> Self {
        let handle = ChildHandle { child: started.child, completion };
        Running { incarnation, handle, task: started.task }
    }

    /// The child's exit; call it once the child is gone. Dropping the future loses nothing.
    pub(crate) async fn exit(&mut self) -> Exit {
        if let Some(end) = poll_fn(|context| self.poll_silent_end(context)).await {
            end.record();
        }
        self.handle.completion.exit().cloned().unwrap_or(Exit::Cancelled)
    }

    /// The end of a child without a reported exit; `None` if the child reported one. The task is about to finish.
    pub(crate) fn poll_silent_end(&mut self, context: &mut Context<'_>) -> Poll<Option<SilentEnd>> {
        let completion = &self.handle.completion;
        if completion.exit().is_some() {
            return Poll::Ready(None);
        }
        let task = match &mut self.task {
            None => None,
            Some(task) => Some(task::ready!(Pin::new(task).poll(context))),
        };
        self.task = None;
        Poll::Ready(Some(SilentEnd { task, completion: completion.clone() }))
    }

    pub(crate) fn causes(&self) -> Vec<Cause> {
        self.handle.completion.causes().to_vec()
    }

    /// Aborts the child's task, like a runtime that shuts down; returns true if a task exists.
    pub(crate) fn abort(&self) -> bool {
        self.task.as_ref().map(JoinHandle::abort).is_some()
    }
}

/// The end of a child without a reported exit, after a kill or the drop of the task.
pub(crate) struct SilentEnd {
    task: Option<Result<(), JoinError>>,
    completion: Arc<Completion>,
}

impl SilentEnd {
    pub(crate) fn record(self) {
        let exit = match self.task {
            Some(Ok(())) => Exit::Killed,
            Some(Err(error)) if error.is_panic() => Exit::of_panic(error.into_panic()),
            Some(Err(_)) | None => Exit::Cancelled,
        };
        self.completion.record(exit);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.handle.completion.is_gone() {
            self.handle.child.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    struct Idle;

    impl Actor for Idle {
        type Msg = ();
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ractor::ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_killed_child_is_told_to_be_killed_though_who_asked_first_no_longer_waits() {
        let (actor, _) = Idle::spawn(None, Idle, ()).await.unwrap();
        let (finish, finished) = oneshot::channel::<()>();
        let task = tokio::spawn(finished.map(drop));
        let token = Token::root();
        let started = StartedChild { child: ChildRef::Actor(actor.get_cell()), task: Some(task) };
        let mut running = Running::new(1, started, token.completion().clone());
        actor.kill();
        drop(token);
        assert!(running.exit().now_or_never().is_none(), "its task has not finished");
        finish.send(()).unwrap();
        assert_eq!(running.exit().await, Exit::Killed);
    }
}
