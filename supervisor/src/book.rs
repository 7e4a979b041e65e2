//! The children of a pool, shared by its handles and its task.
//!
//! A start runs in the task of the caller, or in a task of its own for a restart. The entry is reserved first, and
//! completed or removed in one step afterwards. No code of the embedding program (hooks, observers, drops of specs)
//! runs under the lock of the table.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::oneshot;

use crate::child::{ChildRef, KILL_GRACE, gone_within};
use crate::completion::{Completion, Family, Parent, Token};
use crate::entry::{Entry, Progress, Starting, State, Stopping, Turn};
use crate::observer::Voice;
use crate::places::{Place, Places};
use crate::pool_task::PoolMessage;
use crate::ticket::Ticket;
use crate::{
    AutoShutdown, ChildId, ChildSpec, ChildStatus, Clock, Counts, Exit, StartChildError, TerminateChildError,
};

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) places: Places,
    /// The pool is ending and takes no more children.
    pub(crate) closed: bool,
    births: u64,
}

/// State shared by a pool's handles and its task.
pub(crate) struct Shared {
    pub(crate) book: RwLock<Book>,
    pub(crate) voice: Voice,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_children: u32,
    pub(crate) family: Arc<Family<PoolMessage>>,
}

pub(crate) enum Reserved {
    /// The entry is reserved; run the start.
    Start(Ticket),
    /// A start or stop of the child is under way: repeat the request afterwards, unless told why not.
    Wait(ChildSpec, oneshot::Receiver<StartChildError>),
    /// Refused because of a child that may have ended: repeat the request once the pool has caught up.
    Doubtful(ChildSpec, StartChildError),
}

impl Shared {
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reserve(self: &Arc<Self>, spec: ChildSpec) -> Result<Reserved, StartChildError> {
        let faults = spec.faults(AutoShutdown::Never);
        if !faults.is_empty() {
            return Err(StartChildError::Invalid(faults));
        }
        let id = spec.id.clone();
        let Book { places, closed, births } = &mut *self.write();
        if *closed {
            return Err(StartChildError::Ended);
        }
        let count = places.len() as u64;
        let vacancy = match places.find(id) {
            Err(vacancy) => vacancy,
            Ok(entry) => return entry.refuse(&spec),
        };
        if count >= u64::from(self.max_children) {
            let refused = StartChildError::MaxChildren { max: self.max_children };
            return Ok(Reserved::Doubtful(spec, refused));
        }
        let Some((ticket, state)) = self.ticket(vacancy.place(), births, &spec, 1, None) else {
            return Err(StartChildError::Ended);
        };
        let ordinal = *births;
        let (restarts, last_exit, window) = (0, None, None);
        vacancy.fill(Entry { spec, ordinal, generation: 1, restarts, last_exit, window, state });
        Ok(Reserved::Start(ticket))
    }

    /// Waits until the pool has handled every end that was visible before.
    pub(crate) async fn catch_up(&self) {
        let (reply, done) = oneshot::channel();
        let _ = self.family.mailbox.send(PoolMessage::CatchUp { ends: self.untold(), reply });
        // A pool that is ending does not answer, but its table is closed by then.
        let _ = done.await;
    }

    /// Possibly visible ends that the pool has not handled.
    fn untold(&self) -> Vec<Arc<Completion>> {
        if !self.family.doubts.any() {
            return Vec::new();
        }
        let end = |entry: &Entry| match &entry.state {
            State::Up(running) | State::Stopping(Stopping { running: Some(running), .. }) => {
                running.leash.untold()
            }
            State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => None,
        };
        self.read().places.iter().filter_map(end).collect()
    }

    /// Creates the guard of one start and updates the entry; `None` if the pool is gone.
    fn ticket(
        self: &Arc<Self>,
        place: Place,
        births: &mut u64,
        spec: &ChildSpec,
        generation: u64,
        again: Option<Exit>,
    ) -> Option<(Ticket, State)> {
        *births += 1;
        let birth = *births;
        let token = Token::child(Parent::Pool(self.family.clone(), place), birth)?;
        let state = State::Starting(Starting {
            birth,
            completion: token.completion().clone(),
            turns: Vec::new(),
            again: again.is_some(),
            gone: false,
            progress: Progress::default(),
        });
        let ticket = Ticket::new(self, spec, (place, birth), generation, again, token);
        Some((ticket, state))
    }

    /// Marks the child that ended as `ended` for a restart; `None` if the entry has changed since.
    pub(crate) fn restart(self: &Arc<Self>, place: Place, ended: u64) -> Option<Ticket> {
        let Book { places, births, .. } = &mut *self.write();
        let entry = places.get_mut(place)?;
        let exit = match &entry.state {
            State::Restarting { birth, exit, .. } if *birth == ended => exit.clone(),
            _ => return None,
        };
        entry.generation += 1;
        let (ticket, state) = self.ticket(place, births, &entry.spec, entry.generation, Some(exit))?;
        entry.state = state;
        Some(ticket)
    }

    /// Begins to stop a child; the reply is sent when it is gone.
    pub(crate) fn terminate(
        self: &Arc<Self>,
        id: ChildId,
    ) -> Result<oneshot::Receiver<Result<(), TerminateChildError>>, TerminateChildError> {
        let (reply, answer) = oneshot::channel();
        let mut book = self.write();
        if book.closed {
            return Err(TerminateChildError::Ended);
        }
        let place = book.places.of(id.as_str());
        let Some((place, mut entry)) = place.and_then(|place| Some((place, book.places.remove(place)?)))
        else {
            return Err(TerminateChildError::NotFound { id });
        };
        let limit = entry.spec.shutdown;
        let stopping = match entry.state {
            State::Up(running) => {
                let (shared, leash, birth) = (self.clone(), running.leash.clone(), running.birth);
                let completion = leash.completion.clone();
                let stop = async move { leash.stop(limit, &*shared.clock).await };
                self.watch_stop(stop, place, birth);
                Stopping {
                    birth,
                    completion,
                    running: Some(running),
                    waiting: vec![reply],
                    turns: Vec::new(),
                }
            }
            State::Starting(mut starting) if !starting.gone => {
                let (birth, completion) = (starting.birth, starting.completion.clone());
                refuse(std::mem::take(&mut starting.turns), &id);
                let shared = self.clone();
                let stop = async move {
                    starting.break_off();
                    gone_within(&starting.completion, KILL_GRACE, &*shared.clock).await
                };
                self.watch_stop(stop, place, birth);
                Stopping { birth, completion, running: None, waiting: vec![reply], turns: Vec::new() }
            }
            State::Starting(mut starting) => {
                // The child is gone and its event was read: no other will come.
                drop(book);
                refuse(std::mem::take(&mut starting.turns), &id);
                starting.break_off();
                let _ = reply.send(Ok(()));
                return Ok(answer);
            }
            State::Restarting { .. } => {
                drop(book);
                let _ = reply.send(Ok(()));
                return Ok(answer);
            }
            State::Stopping(mut stopping) => {
                stopping.waiting.push(reply);
                refuse(std::mem::take(&mut stopping.turns), &id);
                stopping
            }
        };
        entry.state = State::Stopping(stopping);
        book.places.put_back(entry);
        Ok(answer)
    }

    /// Runs a stop beside the pool. The child's token reports success, this reports failure.
    fn watch_stop(&self, stop: impl Future<Output = bool> + Send + 'static, place: Place, birth: u64) {
        let mailbox = self.family.mailbox.clone();
        tokio::spawn(async move {
            if !stop.await {
                let _ = mailbox.send(PoolMessage::Unkillable { place, birth });
            }
        });
    }

    /// The running child `id`, unless it has ended unnoticed.
    pub(crate) fn get(&self, id: &str) -> Option<ChildRef> {
        let book = self.read();
        let child = match &book.places.get(book.places.of(id)?)?.state {
            State::Up(running) => &running.leash.child,
            State::Starting(Starting { progress: Progress::Announced(child), .. }) => child,
            State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => return None,
        };
        child.is_live().then(|| child.clone())
    }

    /// All children in the order of their first starts.
    pub(crate) fn list(&self) -> Vec<ChildStatus> {
        let book = self.read();
        let mut entries: Vec<_> = book.places.iter().collect();
        entries.sort_unstable_by_key(|entry| entry.ordinal);
        entries.into_iter().map(Entry::status).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.read().places.iter() {
            counts.add(entry.spec.kind, matches!(entry.state, State::Up(_)));
        }
        counts
    }
}

pub(crate) fn killed(id: &ChildId) -> StartChildError {
    StartChildError::Failed { id: id.clone(), exit: Exit::Killed }
}

/// Refuses the callers that wait for a terminated child's id.
fn refuse(turns: Vec<Turn>, id: &ChildId) {
    for turn in turns {
        // A caller that no longer waits needs no answer.
        let _ = turn.send(killed(id));
    }
}
