//! Stable references: valid across restarts of the worker behind them.
//!
//! An actor reference is bound to one incarnation. A stable reference is a shared cell that each start of the child overwrites with the
//! new actor reference, and that ends when the last spec of the child is dropped.

use std::fmt;
use std::sync::Arc;

use ractor::{ActorRef, ActorStatus, Message, RpcReplyPort};
use tokio::sync::watch;

/// A reference to a worker that outlives its restarts. Cheap to clone.
///
/// Made before the worker is, and handed to [`crate::ChildSpec::stable_ref`]: from then on it leads to whichever start of
/// the worker runs. What is sent while none does is refused with [`Unreachable::Restarting`], or waits with
/// [`StableRef::up`].
///
/// ```
/// # use ostler_supervisor::{ChildSpec, Exit, StableRef, Strategy, Supervisor, SupervisorSpec, Unreachable};
/// # use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
/// # struct Echo;
/// # impl Actor for Echo {
/// #     type Msg = RpcReplyPort<u8>; type State = (); type Arguments = ();
/// #     async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> { Ok(()) }
/// #     async fn handle(&self, _: ActorRef<Self::Msg>, reply: Self::Msg, _: &mut ()) -> Result<(), ActorProcessingErr> {
/// #         Ok(reply.send(7)?)
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let echo = StableRef::<RpcReplyPort<u8>>::new();
/// assert_eq!(echo.call(|reply| reply).await, Err(Unreachable::Restarting));
///
/// let child = ChildSpec::actor("echo", || Echo, || ()).stable_ref(&echo);
/// let root = Supervisor::start(SupervisorSpec::new(Strategy::OneForOne, vec![child])).await.unwrap();
/// assert_eq!(echo.call(|reply| reply).await, Ok(7));
///
/// assert_eq!(root.stop().await, Exit::Shutdown);
/// assert_eq!(echo.call(|reply| reply).await, Err(Unreachable::Ended));
/// # });
/// ```
pub struct StableRef<M> {
    way: Arc<watch::Sender<Way<M>>>,
}

struct Way<M> {
    now: Now<M>,
    /// Number of kept specs that are not copies of each other.
    specs: usize,
}

enum Now<M> {
    /// Nothing has started yet.
    Down,
    /// The last start, which may have ended since.
    To(ActorRef<M>),
    /// The spec is gone: nothing will start again.
    Ended,
}

/// The reason why a worker could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// The worker is restarting. Nothing was sent; try again, or wait with [`StableRef::up`].
    #[error("the worker is restarting")]
    Restarting,
    /// The worker ended before answering, and may have handled the message.
    #[error("the worker ended before it had answered")]
    Unanswered,
    /// The supervisor has ended for good or has forgotten the worker.
    #[error("the worker has ended for good")]
    Ended,
}

impl<M: Message> StableRef<M> {
    /// A reference without a worker yet.
    pub fn new() -> Self {
        StableRef { way: Arc::new(watch::Sender::new(Way { now: Now::Down, specs: 0 })) }
    }

    /// The present worker, for immediate use: it may be gone at the next restart.
    ///
    /// # Errors
    /// [`Unreachable::Restarting`] and [`Unreachable::Ended`].
    pub fn get(&self) -> Result<ActorRef<M>, Unreachable> {
        self.way.borrow().now.live().cloned()
    }

    /// Sends a message. An accepted message is lost if the worker ends before handling it.
    ///
    /// # Errors
    /// As [`StableRef::get`]; the message is dropped then.
    pub fn send(&self, message: M) -> Result<(), Unreachable> {
        let way = self.way.borrow();
        way.now.live()?.send_message(message).map_err(|_| Unreachable::Restarting)
    }

    /// Sends a message and waits for its answer.
    ///
    /// # Errors
    /// As [`StableRef::send`], and [`Unreachable::Unanswered`].
    pub async fn call<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> M,
    ) -> Result<T, Unreachable> {
        let (reply, answer) = ractor::concurrency::oneshot();
        self.send(message(reply.into()))?;
        answer.await.map_err(|_| Unreachable::Unanswered)
    }

    /// Waits until the worker runs. Without a limit of its own: the wait for a worker that cannot start lasts until its
    /// tree gives up.
    ///
    /// # Errors
    /// [`Unreachable::Ended`].
    pub async fn up(&self) -> Result<ActorRef<M>, Unreachable> {
        let mut changes = self.way.subscribe();
        loop {
            let now = changes.borrow_and_update().now.live().cloned();
            match now {
                Err(Unreachable::Restarting | Unreachable::Unanswered) => {}
                now => return now,
            }
            if changes.changed().await.is_err() {
                return Err(Unreachable::Ended);
            }
        }
    }

    /// Points to `worker` now. For a worker that must be found during its start hook; others are pointed to once they
    /// run.
    pub fn point_to(&self, worker: ActorRef<M>) {
        self.way.send_modify(|way| way.now = Now::To(worker));
    }

    /// Points the reference to every start of a worker while its spec is kept.
    pub(crate) fn pointer(&self) -> Pointer<M> {
        self.way.send_modify(|way| {
            way.specs += 1;
            if way.specs == 1 {
                way.now = Now::Down;
            }
        });
        Pointer(self.clone())
    }
}

impl<M> Now<M> {
    fn live(&self) -> Result<&ActorRef<M>, Unreachable> {
        match self {
            Now::To(worker) if worker.get_status() < ActorStatus::Stopping => Ok(worker),
            Now::To(_) | Now::Down => Err(Unreachable::Restarting),
            Now::Ended => Err(Unreachable::Ended),
        }
    }
}

impl<M> Clone for StableRef<M> {
    fn clone(&self) -> Self {
        StableRef { way: Arc::clone(&self.way) }
    }
}

impl<M: Message> Default for StableRef<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for StableRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leads = match &self.way.borrow().now {
            Now::Down => "down".to_owned(),
            Now::To(worker) => worker.get_id().to_string(),
            Now::Ended => "ended".to_owned(),
        };
        f.debug_tuple("StableRef").field(&leads).finish()
    }
}

/// Held by a spec: dropping the last is the worker's end for good.
pub(crate) struct Pointer<M>(StableRef<M>);

impl<M: Message> Pointer<M> {
    pub(crate) fn point_to(&self, worker: ActorRef<M>) {
        self.0.point_to(worker);
    }
}

impl<M> Drop for Pointer<M> {
    fn drop(&mut self) {
        self.0.way.send_modify(|way| {
            way.specs -= 1;
            if way.specs == 0 {
                way.now = Now::Ended;
            }
        });
    }
}
