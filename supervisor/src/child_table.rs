//! The children of a pool, shared by its handles and its task.
//!
//! A start runs in the task of the caller, or in a task of its own for a restart. The entry is reserved first, and
//! completed or removed in one step afterwards. No code of the embedding program (hooks, observers, drops of specs)
//! runs under the lock of the table.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::oneshot;

use crate::child::{ChildRef, KILL_GRACE, gone_within};
use crate::child_slab::{ChildSlab, Slot};
use crate::completion::{Completion, Parent, ParentLink, Token};
use crate::entry::{Entry, Progress, Starting, State, Stopping, Waiter};
use crate::observer::EventSink;
use crate::pool_task::PoolMessage;
use crate::start_guard::StartGuard;
use crate::{
    AutoShutdown, ChildId, ChildSpec, ChildStatus, Clock, Counts, Exit, StartChildError, TerminateChildError,
};

#[derive(Default)]
pub(crate) struct ChildTable {
    pub(crate) children: ChildSlab,
    /// The pool is ending and takes no more children.
    pub(crate) closed: bool,
    incarnations: u64,
}

/// State shared by a pool's handles and its task.
pub(crate) struct Shared {
    pub(crate) table: RwLock<ChildTable>,
    pub(crate) events: EventSink,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_children: u32,
    pub(crate) parent_link: Arc<ParentLink<PoolMessage>>,
}

pub(crate) enum Reserved {
    /// The entry is reserved; run the start.
    Start(StartGuard),
    /// A start or stop of the child is under way: repeat the request afterwards, unless an error arrives.
    Wait(ChildSpec, oneshot::Receiver<StartChildError>),
    /// Refused because of a child that may have ended: repeat the request once the pool has caught up.
    MaybeStale(ChildSpec, StartChildError),
}

impl Shared {
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, ChildTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ChildTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reserve(self: &Arc<Self>, spec: ChildSpec) -> Result<Reserved, StartChildError> {
        let faults = spec.faults(AutoShutdown::Never);
        if !faults.is_empty() {
            return Err(StartChildError::Invalid(faults));
        }
        let id = spec.id.clone();
        let ChildTable { children, closed, incarnations } = &mut *self.write();
        if *closed {
            return Err(StartChildError::Ended);
        }
        let count = children.len() as u64;
        let vacancy = match children.find(id) {
            Err(vacancy) => vacancy,
            Ok(entry) => return entry.refuse(&spec),
        };
        if count >= u64::from(self.max_children) {
            let refused = StartChildError::MaxChildren { max: self.max_children };
            return Ok(Reserved::MaybeStale(spec, refused));
        }
        let Some((start_guard, state)) = self.start_guard(vacancy.slot(), incarnations, &spec, 1, None)
        else {
            return Err(StartChildError::Ended);
        };
        let ordinal = *incarnations;
        let (restarts, last_exit, window) = (0, None, None);
        vacancy.fill(Entry { spec, ordinal, generation: 1, restarts, last_exit, window, state });
        Ok(Reserved::Start(start_guard))
    }

    /// Waits until the pool has handled every end that was visible before.
    pub(crate) async fn catch_up(&self) {
        let (reply, done) = oneshot::channel();
        let _ = self.parent_link.mailbox.send(PoolMessage::CatchUp { ends: self.unhandled_ends(), reply });
        // A pool that is ending does not answer, but its table is closed by then.
        let _ = done.await;
    }

    /// Possibly visible ends that the pool has not handled.
    fn unhandled_ends(&self) -> Vec<Arc<Completion>> {
        if !self.parent_link.unnoticed_ends.any() {
            return Vec::new();
        }
        let end = |entry: &Entry| match &entry.state {
            State::Up(running) | State::Stopping(Stopping { running: Some(running), .. }) => {
                running.handle.unhandled_end()
            }
            State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => None,
        };
        self.read().children.iter().filter_map(end).collect()
    }

    /// Creates the guard of one start and updates the entry; `None` if the pool is gone.
    fn start_guard(
        self: &Arc<Self>,
        slot: Slot,
        incarnations: &mut u64,
        spec: &ChildSpec,
        generation: u64,
        restart_cause: Option<Exit>,
    ) -> Option<(StartGuard, State)> {
        *incarnations += 1;
        let incarnation = *incarnations;
        let token = Token::child(Parent::Pool(self.parent_link.clone(), slot), incarnation)?;
        let state = State::Starting(Starting {
            incarnation,
            completion: token.completion().clone(),
            waiters: Vec::new(),
            is_restart: restart_cause.is_some(),
            gone: false,
            progress: Progress::default(),
        });
        let start_guard = StartGuard::new(self, spec, (slot, incarnation), generation, restart_cause, token);
        Some((start_guard, state))
    }

    /// Marks the child that ended as `ended` for a restart; `None` if the entry has changed since.
    pub(crate) fn restart(self: &Arc<Self>, slot: Slot, ended: u64) -> Option<StartGuard> {
        let ChildTable { children, incarnations, .. } = &mut *self.write();
        let entry = children.get_mut(slot)?;
        let exit = match &entry.state {
            State::Restarting { incarnation, exit, .. } if *incarnation == ended => exit.clone(),
            _ => return None,
        };
        entry.generation += 1;
        let (start_guard, state) =
            self.start_guard(slot, incarnations, &entry.spec, entry.generation, Some(exit))?;
        entry.state = state;
        Some(start_guard)
    }

    /// Begins to stop a child; the reply is sent when it is gone.
    pub(crate) fn terminate(
        self: &Arc<Self>,
        id: ChildId,
    ) -> Result<oneshot::Receiver<Result<(), TerminateChildError>>, TerminateChildError> {
        let (reply, answer) = oneshot::channel();
        let mut table = self.write();
        if table.closed {
            return Err(TerminateChildError::Ended);
        }
        let slot = table.children.of(id.as_str());
        let Some((slot, mut entry)) = slot.and_then(|slot| Some((slot, table.children.remove(slot)?))) else {
            return Err(TerminateChildError::NotFound { id });
        };
        let limit = entry.spec.shutdown;
        let stopping = match entry.state {
            State::Up(running) => {
                let (shared, handle, incarnation) =
                    (self.clone(), running.handle.clone(), running.incarnation);
                let completion = handle.completion.clone();
                let stop = async move { handle.stop(limit, &*shared.clock).await };
                self.watch_stop(stop, slot, incarnation);
                Stopping {
                    incarnation,
                    completion,
                    running: Some(running),
                    waiting: vec![reply],
                    waiters: Vec::new(),
                }
            }
            State::Starting(mut starting) if !starting.gone => {
                let (incarnation, completion) = (starting.incarnation, starting.completion.clone());
                refuse(std::mem::take(&mut starting.waiters), &id);
                let shared = self.clone();
                let stop = async move {
                    starting.abort_start();
                    gone_within(&starting.completion, KILL_GRACE, &*shared.clock).await
                };
                self.watch_stop(stop, slot, incarnation);
                Stopping { incarnation, completion, running: None, waiting: vec![reply], waiters: Vec::new() }
            }
            State::Starting(mut starting) => {
                // The child is gone and its event was read: no other will come.
                drop(table);
                refuse(std::mem::take(&mut starting.waiters), &id);
                starting.abort_start();
                let _ = reply.send(Ok(()));
                return Ok(answer);
            }
            State::Restarting { .. } => {
                drop(table);
                let _ = reply.send(Ok(()));
                return Ok(answer);
            }
            State::Stopping(mut stopping) => {
                stopping.waiting.push(reply);
                refuse(std::mem::take(&mut stopping.waiters), &id);
                stopping
            }
        };
        entry.state = State::Stopping(stopping);
        table.children.put_back(entry);
        Ok(answer)
    }

    /// Runs a stop beside the pool. The child's token reports success, this reports failure.
    fn watch_stop(&self, stop: impl Future<Output = bool> + Send + 'static, slot: Slot, incarnation: u64) {
        let mailbox = self.parent_link.mailbox.clone();
        tokio::spawn(async move {
            if !stop.await {
                let _ = mailbox.send(PoolMessage::Unkillable { slot, incarnation });
            }
        });
    }

    /// The running child `id`, unless it has ended unnoticed.
    pub(crate) fn get(&self, id: &str) -> Option<ChildRef> {
        let table = self.read();
        let child = match &table.children.get(table.children.of(id)?)?.state {
            State::Up(running) => &running.handle.child,
            State::Starting(Starting { progress: Progress::Announced(child), .. }) => child,
            State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => return None,
        };
        child.is_live().then(|| child.clone())
    }

    /// All children in the order of their first starts.
    pub(crate) fn list(&self) -> Vec<ChildStatus> {
        let table = self.read();
        let mut entries: Vec<_> = table.children.iter().collect();
        entries.sort_unstable_by_key(|entry| entry.ordinal);
        entries.into_iter().map(Entry::status).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.read().children.iter() {
            counts.add(entry.spec.kind, matches!(entry.state, State::Up(_)));
        }
        counts
    }
}

pub(crate) fn killed(id: &ChildId) -> StartChildError {
    StartChildError::Failed { id: id.clone(), exit: Exit::Killed }
}

/// Refuses the callers that wait for a terminated child's id.
fn refuse(waiters: Vec<Waiter>, id: &ChildId) {
    for waiter in waiters {
        // A caller that no longer waits needs no answer.
        let _ = waiter.send(killed(id));
    }
}
