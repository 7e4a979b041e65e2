//! A supervisor: start and handle.

use std::fmt;
use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{oneshot, watch};

use crate::child::ChildRef;
use crate::completion::{Completion, ParentLink, Token};
use crate::control::{Control, Published, StopRequest};
use crate::observer::{EventSink, Observer};
use crate::status::grow;
use crate::tree::{Call, Tree, TreeMessage};
use crate::{
    Branch, Cause, ChildId, ChildSpec, ChildStatus, Counts, DeleteChildError, Exit, GetSpecError, Pool,
    RestartChildError, StartChildError, StartError, SupervisorSpec, TerminateChildError,
};

/// Starts supervisors.
#[derive(Debug)]
pub struct Supervisor;

impl Supervisor {
    /// Starts the children of `spec` in order, and keeps them running.
    ///
    /// The tree runs until a stop or a surrender, with or without the reference. Dropping the unfinished future kills
    /// all started children.
    ///
    /// # Errors
    /// [`StartError`]; nothing is running then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(spec: SupervisorSpec) -> Result<SupervisorRef, StartError> {
        Self::start_root(spec, None).await
    }

    /// Like [`Supervisor::start`], with an observer of all events in the tree.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub async fn start_observed(
        spec: SupervisorSpec,
        observer: Arc<dyn Observer>,
    ) -> Result<SupervisorRef, StartError> {
        Self::start_root(spec, Some(observer)).await
    }

    async fn start_root(
        spec: SupervisorSpec,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<SupervisorRef, StartError> {
        let token = Token::root();
        launch(spec, token, EventSink::root(observer)).await
    }
}

/// Starts a supervisor's task and waits until its children run.
pub(crate) async fn launch(
    spec: SupervisorSpec,
    token: Token,
    events: EventSink,
) -> Result<SupervisorRef, StartError> {
    spec.check().map_err(StartError::Invalid)?;
    let (mailbox, inbox) = unbounded_channel();
    let (stop_request, stop_requested) = watch::channel(StopRequest::None);
    let completion = token.completion().clone();
    let published = Arc::new(Published::new(ParentLink::new(mailbox, &token)));
    let control = Arc::new(Control { stop_request, completion: completion.clone() });
    let mut abandoned = Abandoned(Some(control.clone()));
    let (started, mut up) = oneshot::channel();

    let tree = Tree::new(&spec, token, events, stop_requested, published.clone());
    tokio::spawn(tree.run(inbox, spec.children, started));
    let outcome = tokio::select! {
        biased;
        outcome = &mut up => outcome,
        () = completion.when_asked() => {
            control.raise(StopRequest::Stop);
            up.await
        }
    };
    let failed = match outcome {
        Ok(Ok(())) => {
            abandoned.0 = None;
            return Ok(SupervisorRef { control, published });
        }
        Ok(Err(error)) => error,
        Err(_) => StartError::Interrupted,
    };
    completion.gone().await;
    Err(failed)
}

/// Kills a supervisor after an abandoned start: no other handle exists yet.
struct Abandoned(Option<Arc<Control>>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(control) = &self.0 {
            control.raise(StopRequest::Kill);
        }
    }
}

/// A handle of a running supervisor. Cheap to clone; dropping a handle does not stop the supervisor.
///
/// Calls are answered in order, between restarts, and after every visible end: after waiting for a child's stop, a
/// caller finds the child restarted, down or forgotten, according to its restart type. Calls about a child, and lists,
/// wait until the child's state is dropped, for at most [`crate::KILL_GRACE`]. Dropping the future of a call does not
/// undo the call. During the supervisor's end, calls fail with `Ended` and lists are empty, so a child that calls
/// during its stop does not wait.
#[derive(Clone)]
pub struct SupervisorRef {
    control: Arc<Control>,
    published: Arc<Published>,
}

impl SupervisorRef {
    /// Adds a child after the others and starts it.
    ///
    /// # Errors
    /// [`StartChildError`]; a child that fails to start is not kept, and no restart is charged.
    pub async fn start_child(&self, spec: ChildSpec) -> Result<ChildRef, StartChildError> {
        let id = spec.id.clone();
        let started = self.call_of(&id, |reply| Call::StartChild { spec, reply }).await;
        started.unwrap_or(Err(StartChildError::Ended))
    }

    /// Stops a child and waits for the end. The spec is kept as down, except for a temporary child. A pending restart
    /// is cancelled.
    ///
    /// # Errors
    /// [`TerminateChildError`].
    pub async fn terminate_child(&self, id: impl Into<ChildId>) -> Result<(), TerminateChildError> {
        let id = id.into();
        let done = self.call_of(&id.clone(), |reply| Call::Terminate { id, reply }).await;
        done.unwrap_or(Err(TerminateChildError::Ended))
    }

    /// Starts a child that is down, without a charge to the restart window.
    ///
    /// # Errors
    /// [`RestartChildError`].
    pub async fn restart_child(&self, id: impl Into<ChildId>) -> Result<ChildRef, RestartChildError> {
        let id = id.into();
        let done = self.call_of(&id.clone(), |reply| Call::Restart { id, reply }).await;
        done.unwrap_or(Err(RestartChildError::Ended))
    }

    /// Forgets the spec of a child that is down.
    ///
    /// # Errors
    /// [`DeleteChildError`].
    pub async fn delete_child(&self, id: impl Into<ChildId>) -> Result<(), DeleteChildError> {
        let id = id.into();
        let done = self.call_of(&id.clone(), |reply| Call::Delete { id, reply }).await;
        done.unwrap_or(Err(DeleteChildError::Ended))
    }

    /// All children in start order.
    pub async fn which_children(&self) -> Vec<ChildStatus> {
        self.call_of_all(Call::Which).await.unwrap_or_default()
    }

    /// The whole tree in start order, with at most `most` children of each supervisor and pool. Not a snapshot: each
    /// supervisor reports its own state in turn.
    pub async fn tree(&self, most: usize) -> Vec<Branch> {
        let mut children = self.which_children().await;
        children.truncate(most);
        grow(children, most).await
    }

    /// Numbers of children; supervisors and workers count whether they run or not.
    pub async fn count_children(&self) -> Counts {
        self.call_of_all(Call::Count).await.unwrap_or_default()
    }

    /// The spec of a child.
    ///
    /// # Errors
    /// [`GetSpecError`].
    pub async fn get_spec(&self, id: impl Into<ChildId>) -> Result<ChildSpec, GetSpecError> {
        let id = id.into();
        let spec = self.call_of(&id.clone(), |reply| Call::GetSpec { id, reply }).await;
        spec.unwrap_or(Err(GetSpecError::Ended))
    }

    /// The present reference of the worker `id` with the message type of `A`.
    ///
    /// `None` while the worker is down or restarting, or if the child has another type. Does not wait for the
    /// supervisor. Fetch the reference again after every restart, or use [`ChildSpec::on_start`].
    pub fn child<A: Actor>(&self, id: impl AsRef<str>) -> Option<ActorRef<A::Msg>> {
        self.child_ref(id)?.actor::<A>()
    }

    /// The present handle of the supervisor `id`; see [`SupervisorRef::child`].
    pub fn supervisor(&self, id: impl AsRef<str>) -> Option<SupervisorRef> {
        self.child_ref(id)?.supervisor()
    }

    /// The present handle of the pool `id`; see [`SupervisorRef::child`].
    pub fn pool(&self, id: impl AsRef<str>) -> Option<Pool> {
        self.child_ref(id)?.pool()
    }

    /// The present reference of the child `id`; see [`SupervisorRef::child`].
    pub fn child_ref(&self, id: impl AsRef<str>) -> Option<ChildRef> {
        self.published.get(id.as_ref())
    }

    /// Stops the children in reverse order, then the supervisor, and waits until all are gone.
    ///
    /// May be called repeatedly and concurrently; every call waits for the end.
    pub async fn stop(&self) -> Exit {
        self.control.raise(StopRequest::Stop);
        self.control.wait_exit().await
    }

    /// Kills the supervisor and everything below it, and waits until all are gone. No stop hook runs.
    pub async fn kill(&self) -> Exit {
        self.control.raise(StopRequest::Kill);
        self.control.wait_exit().await
    }

    /// Waits until the supervisor and everything below it is gone.
    pub async fn wait_exit(&self) -> Exit {
        self.control.wait_exit().await
    }

    /// The reason why the supervisor gave up: the chain of failures, deepest first. Empty if it was stopped or still runs.
    pub fn causes(&self) -> Vec<Cause> {
        self.control.causes()
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// Sends a call about `id` and waits for the answer; `None` once the supervisor has ended.
    pub(crate) async fn call_of<T>(
        &self,
        id: &ChildId,
        call: impl FnOnce(oneshot::Sender<T>) -> Call,
    ) -> Option<T> {
        self.call(self.published.unhandled_ends(Some(id)), call).await
    }

    /// Sends a call about all children and waits for the answer; `None` once the supervisor has ended.
    async fn call_of_all<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Option<T> {
        self.call(self.published.unhandled_ends(None), call).await
    }

    /// Sends a call that is answered once `ends` are handled.
    async fn call<T>(
        &self,
        ends: Vec<Arc<Completion>>,
        call: impl FnOnce(oneshot::Sender<T>) -> Call,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let call = call(reply);
        let message =
            if ends.is_empty() { TreeMessage::Call(call) } else { TreeMessage::CallAfter { ends, call } };
        self.published.parent_link.mailbox.send(message).ok()?;
        answer.await.ok()
    }
}

impl fmt::Debug for SupervisorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorRef").finish_non_exhaustive()
    }
}
