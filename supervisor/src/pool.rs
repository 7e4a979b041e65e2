//! A dynamic pool as others see it: how to start one, and the handle to talk to it.

use std::fmt;
use std::sync::{Arc, RwLock};

use ractor::{Actor, ActorRef};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use crate::book::{Reserved, Shared};
use crate::child::ChildRef;
use crate::completion::{Family, Token};
use crate::control::{Control, Demand};
use crate::observer::{Observer, Voice};
use crate::pool_task::PoolTask;
use crate::{
    Cause, ChildId, ChildSpec, ChildStatus, Counts, Exit, PoolSpec, StartChildError, StartError,
    TerminateChildError,
};

/// A handle to a pool of children that come and go. Cheap to clone; dropping it does not stop the
/// pool.
///
/// Children are independent of each other: each is restarted alone, they start and stop in
/// parallel, and a child that ends for good leaves the pool. Lists, and starts that stand against a child
/// that ends, wait until the pool has heard of every end that could be seen before, though no longer than
/// [`crate::KILL_GRACE`]. After the pool has ended, calls fail with `Ended` and lists are empty.
#[derive(Clone)]
pub struct Pool {
    control: Arc<Control>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Starts an empty pool, which runs until it is stopped or gives up.
    ///
    /// # Errors
    /// [`StartError::Invalid`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(spec: PoolSpec) -> Result<Pool, StartError> {
        let token = Token::root();
        launch(spec, token, Voice::root(None))
    }

    /// As [`Pool::start`]; `observer` hears everything that happens in the pool.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub async fn start_observed(spec: PoolSpec, observer: Arc<dyn Observer>) -> Result<Pool, StartError> {
        let token = Token::root();
        launch(spec, token, Voice::root(Some(observer)))
    }

    /// Starts a child and waits until it is up. Starts of different children run in parallel, each in
    /// its caller's task: it stands still while this future is not polled, and dropping it breaks the start off.
    ///
    /// # Errors
    /// [`StartChildError`]; a child that fails to start or declines is not kept. While another start of the same id is under
    /// way, this waits for it: if that comes up, it says `AlreadyStarted`, if not, the child is started. While a child of
    /// that id is terminated, this waits until it is gone. Whatever waits when a child is terminated ends as that does.
    pub async fn start_child(&self, mut spec: ChildSpec) -> Result<ChildRef, StartChildError> {
        let mut caught_up = false;
        loop {
            spec = match self.shared.reserve(spec)? {
                Reserved::Start(ticket) => return ticket.run().await,
                Reserved::Wait(spec, turn) => {
                    if let Ok(refused) = turn.await {
                        return Err(refused);
                    }
                    caught_up = false;
                    spec
                }
                Reserved::Doubtful(_, refused) if caught_up => return Err(refused),
                Reserved::Doubtful(spec, _) => {
                    self.shared.catch_up().await;
                    caught_up = true;
                    spec
                }
            };
        }
    }

    /// Stops a child, waits until it is gone, and forgets it. Its shutdown limit holds; a start or
    /// restart under way is broken off. Dropping this future does not undo the stop.
    ///
    /// # Errors
    /// [`TerminateChildError`].
    pub async fn terminate_child(&self, id: impl Into<ChildId>) -> Result<(), TerminateChildError> {
        let done = self.shared.terminate(id.into())?;
        // The pool ends with all its children, so this one is stopped as well.
        done.await.unwrap_or(Err(TerminateChildError::Ended))
    }

    /// All children, in the order in which they were first started.
    pub async fn which_children(&self) -> Vec<ChildStatus> {
        self.shared.catch_up().await;
        self.shared.list()
    }

    /// How many children there are.
    pub async fn count_children(&self) -> Counts {
        self.shared.catch_up().await;
        self.shared.counts()
    }

    /// The present reference to the worker `id`, which takes the messages of `A`.
    ///
    /// `None` while it is being started or restarted, or if it is no such worker. Does not wait for
    /// the pool.
    pub fn child<A: Actor>(&self, id: impl AsRef<str>) -> Option<ActorRef<A::Msg>> {
        self.child_ref(id)?.actor::<A>()
    }

    /// The present reference to the child `id`, whatever it is; see [`Pool::child`].
    pub fn child_ref(&self, id: impl AsRef<str>) -> Option<ChildRef> {
        self.shared.get(id.as_ref())
    }

    /// Stops all children in parallel, then the pool, and waits until all are gone. Starts and restarts
    /// under way are broken off at once, whatever the shutdown limit of the child.
    ///
    /// May be called more than once and at the same time; every call waits for the end.
    pub async fn stop(&self) -> Exit {
        self.control.raise(Demand::Stop);
        self.control.wait_exit().await
    }

    /// Kills the pool and everything below it, and waits until all are gone. No stop hook runs.
    pub async fn kill(&self) -> Exit {
        self.control.raise(Demand::Kill);
        self.control.wait_exit().await
    }

    /// Waits until the pool and everything below it is gone.
    pub async fn wait_exit(&self) -> Exit {
        self.control.wait_exit().await
    }

    /// Why the pool gave up: the chain of failures, deepest first. Empty if it was stopped or still
    /// runs.
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

/// Starts a pool's task.
pub(crate) fn launch(spec: PoolSpec, token: Token, voice: Voice) -> Result<Pool, StartError> {
    spec.check().map_err(StartError::Invalid)?;
    let (mailbox, inbox) = unbounded_channel();
    let (demand, demanded) = watch::channel(Demand::Run);
    let control = Arc::new(Control { demand, completion: token.completion().clone() });
    let shared = Arc::new(Shared {
        book: RwLock::default(),
        voice,
        clock: spec.clock.clone(),
        max_children: spec.max_children,
        family: Family::new(mailbox, &token),
    });
    tokio::spawn(PoolTask::new(&spec, shared.clone(), demanded, token).run(inbox));
    Ok(Pool { control, shared })
}
