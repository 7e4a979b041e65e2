//! A dynamic pool: start and handle.

use std::fmt;
use std::sync::{Arc, RwLock};

use ractor::{Actor, ActorRef};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use crate::child::ChildRef;
use crate::child_table::{Reserved, Shared};
use crate::completion::{ParentLink, Token};
use crate::control::{Control, StopRequest};
use crate::observer::{EventSink, Observer};
use crate::pool_task::PoolTask;
use crate::{
    Cause, ChildId, ChildSpec, ChildStatus, Counts, Exit, PoolSpec, StartChildError, StartError,
    TerminateChildError,
};

/// A handle of a pool of dynamic children. Cheap to clone; dropping a handle does not stop the pool.
///
/// Children are independent: each is restarted alone, starts and stops run in parallel, and a child leaves the pool
/// when it ends for good. Lists, and starts in conflict with an ending child, wait until the pool has handled every
/// visible end, for at most [`crate::KILL_GRACE`]. After the pool has ended, calls fail with `Ended` and lists are
/// empty.
#[derive(Clone)]
pub struct Pool {
    control: Arc<Control>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Starts an empty pool, which runs until a stop or a surrender.
    ///
    /// # Errors
    /// [`StartError::Invalid`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(spec: PoolSpec) -> Result<Pool, StartError> {
        let token = Token::root();
        launch(spec, token, EventSink::root(None))
    }

    /// Like [`Pool::start`], with an observer of all events.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub async fn start_observed(spec: PoolSpec, observer: Arc<dyn Observer>) -> Result<Pool, StartError> {
        let token = Token::root();
        launch(spec, token, EventSink::root(Some(observer)))
    }

    /// Starts a child and waits until it runs. Different children start in parallel, each in its caller's task: the
    /// start pauses while the future is not polled, and dropping the future breaks the start off.
    ///
    /// # Errors
    /// [`StartChildError`]; a child that fails to start or declines is not kept. A call during another start of the
    /// same id waits, and then returns `AlreadyStarted` or starts the child. A call during the termination of the id
    /// waits for the end. Calls that wait when a child is terminated are refused.
    pub async fn start_child(&self, mut spec: ChildSpec) -> Result<ChildRef, StartChildError> {
        let mut caught_up = false;
        loop {
            spec = match self.shared.reserve(spec)? {
                Reserved::Start(start_guard) => return start_guard.run().await,
                Reserved::Wait(spec, waiter) => {
                    if let Ok(refused) = waiter.await {
                        return Err(refused);
                    }
                    caught_up = false;
                    spec
                }
                Reserved::MaybeStale(_, refused) if caught_up => return Err(refused),
                Reserved::MaybeStale(spec, _) => {
                    self.shared.catch_up().await;
                    caught_up = true;
                    spec
                }
            };
        }
    }

    /// Stops a child within its shutdown limit, waits for the end, and forgets the child; a start or restart under way
    /// is broken off. Dropping the future does not undo the stop.
    ///
    /// # Errors
    /// [`TerminateChildError`].
    pub async fn terminate_child(&self, id: impl Into<ChildId>) -> Result<(), TerminateChildError> {
        let done = self.shared.terminate(id.into())?;
        // The pool is ending with all its children, this one included.
        done.await.unwrap_or(Err(TerminateChildError::Ended))
    }

    /// All children in the order of their first starts.
    pub async fn which_children(&self) -> Vec<ChildStatus> {
        self.shared.catch_up().await;
        self.shared.list()
    }

    /// Numbers of children.
    pub async fn count_children(&self) -> Counts {
        self.shared.catch_up().await;
        self.shared.counts()
    }

    /// The present reference of the worker `id` with the message type of `A`.
    ///
    /// `None` during a start or restart, or if the child has another type. Does not wait for the pool.
    pub fn child<A: Actor>(&self, id: impl AsRef<str>) -> Option<ActorRef<A::Msg>> {
        self.child_ref(id)?.actor::<A>()
    }

    /// The present reference of the child `id`; see [`Pool::child`].
    pub fn child_ref(&self, id: impl AsRef<str>) -> Option<ChildRef> {
        self.shared.get(id.as_ref())
    }

    /// Stops all children in parallel, then the pool, and waits until all are gone. Starts and restarts under way are
    /// broken off at once, regardless of the child's shutdown limit.
    ///
    /// May be called repeatedly and concurrently; every call waits for the end.
    pub async fn stop(&self) -> Exit {
        self.control.raise(StopRequest::Stop);
        self.control.wait_exit().await
    }

    /// Kills the pool and everything below it, and waits until all are gone. No stop hook runs.
    pub async fn kill(&self) -> Exit {
        self.control.raise(StopRequest::Kill);
        self.control.wait_exit().await
    }

    /// Waits until the pool and everything below it is gone.
    pub async fn wait_exit(&self) -> Exit {
        self.control.wait_exit().await
    }

    /// The reason why the pool gave up: the chain of failures, deepest first. Empty if it was stopped or still runs.
    pub fn causes(&self) -> Vec<Cause> {
        self.control.causes()
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

pub(crate) fn launch(spec: PoolSpec, token: Token, events: EventSink) -> Result<Pool, StartError> {
    spec.check().map_err(StartError::Invalid)?;
    let (mailbox, inbox) = unbounded_channel();
    let (stop_request, stop_requested) = watch::channel(StopRequest::None);
    let control = Arc::new(Control { stop_request, completion: token.completion().clone() });
    let shared = Arc::new(Shared {
        table: RwLock::default(),
        events,
        clock: spec.clock.clone(),
        max_children: spec.max_children,
        parent_link: ParentLink::new(mailbox, &token),
    });
    tokio::spawn(PoolTask::new(&spec, shared.clone(), stop_requested, token).run(inbox));
    Ok(Pool { control, shared })
}
