//! The children of a pool, shared by its handles and its task.
//!
//! A start runs where it was asked for: in the caller's task, or in a task of its own for a restart.
//! It reserves its place in the book first and comes up, or not, in one step afterwards. Nothing of
//! the embedding program (hooks, observers, drops of specs) runs while the book is locked.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Waker;

use tokio::sync::oneshot;

use crate::child::{Attempt, ChildRef, KILL_GRACE, Running, gone_within};
use crate::completion::{Completion, Family, Parent, Token};
use crate::intensity::Window;
use crate::observer::Voice;
use crate::places::{Place, Places};
use crate::pool_task::PoolMessage;
use crate::status::ChildState;
use crate::ticket::Ticket;
use crate::{
    AutoShutdown, Cause, ChildId, ChildSpec, ChildStatus, Clock, Counts, Exit, StartChildError,
    TerminateChildError,
};

/// One child as its pool keeps it.
pub(crate) struct Entry {
    pub(crate) spec: ChildSpec,
    /// Its first birth, and so its place in the order of first starts.
    ordinal: u64,
    pub(crate) generation: u64,
    /// How often it was brought up again.
    pub(crate) restarts: u32,
    /// How it ended last.
    pub(crate) last_exit: Option<Box<Exit>>,
    /// Made at its first crash, if children have windows of their own.
    pub(crate) window: Option<Box<Window>>,
    pub(crate) state: State,
}

/// What a child is doing.
pub(crate) enum State {
    Starting(Starting),
    Up(Running),
    /// It ended this way, because of what is below; the restart of that `birth` is due.
    Restarting {
        birth: u64,
        exit: Exit,
        causes: Vec<Cause>,
    },
    Stopping(Stopping),
}

impl State {
    /// The start `birth`, if this is it.
    pub(crate) fn as_start(&mut self, birth: u64) -> Option<&mut Starting> {
        match self {
            State::Starting(starting) if starting.birth == birth => Some(starting),
            State::Starting(_) | State::Up(_) | State::Restarting { .. } | State::Stopping(_) => None,
        }
    }
}

/// A start under way.
pub(crate) struct Starting {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// Callers that want a child of the same id.
    pub(crate) turns: Vec<Turn>,
    /// Whether this is a restart.
    pub(crate) again: bool,
    /// The child ended before it was noted as up.
    pub(crate) gone: bool,
    pub(crate) progress: Progress,
}

impl Starting {
    /// Breaks the start off. If it is polled at this moment, or over, whoever has the ticket finds out next.
    pub(crate) fn break_off(&mut self) {
        if let Progress::Parked(attempt, waker) = std::mem::take(&mut self.progress) {
            drop(attempt);
            waker.wake();
        }
    }
}

/// How far a start has come.
#[derive(Default)]
pub(crate) enum Progress {
    /// It is still to be polled, or is polled.
    #[default]
    Polled,
    /// It waits for something. Kept here, so that it can be broken off whether or not its caller polls on; in a mutex that is never
    /// locked, because the book is shared and a future is not.
    Parked(Mutex<Attempt>, Waker),
    /// The child is up and is being announced.
    Announced(ChildRef),
}

/// A stop under way.
pub(crate) struct Stopping {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// The child, unless its start was broken off.
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Vec<oneshot::Sender<Result<(), TerminateChildError>>>,
    /// Callers that want a child of the same id.
    turns: Vec<Turn>,
}

/// Of a caller that wants the id of a child whose start or stop is under way: dropped when that is over, so that the caller
/// asks again, and told why it need not if the child is terminated meanwhile.
pub(crate) type Turn = oneshot::Sender<StartChildError>;

/// All children of a pool.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) places: Places,
    /// The pool ends and takes no more children.
    pub(crate) closed: bool,
    births: u64,
}

/// What the handles of a pool share with its task.
pub(crate) struct Shared {
    pub(crate) book: RwLock<Book>,
    pub(crate) voice: Voice,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_children: u32,
    pub(crate) family: Arc<Family<PoolMessage>>,
}

/// What a request for a child comes to at first.
pub(crate) enum Reserved {
    /// The place is reserved; run this.
    Start(Ticket),
    /// Another start or a stop of it is under way: ask again when that is over, unless told why not.
    Wait(ChildSpec, oneshot::Receiver<StartChildError>),
    /// Refused because of a child that may be gone: ask again when the pool has caught up.
    Doubtful(ChildSpec, StartChildError),
}

impl Shared {
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for a new child.
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

    /// Waits until the pool has dealt with every end that could be seen before.
    pub(crate) async fn catch_up(&self) {
        let (reply, done) = oneshot::channel();
        let _ = self.family.mailbox.send(PoolMessage::CatchUp { ends: self.untold(), reply });
        // A pool that ends does not answer, but its book is closed by then.
        let _ = done.await;
    }

    /// The ends that may have been seen and that the pool is still to be told.
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

    /// Makes a ticket for one start, and what the book says of the child from here on; `None` if the pool is gone.
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

    /// Notes that the child that ended as `ended` starts again; `None` if something else has become
    /// of it meanwhile.
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

    /// Begins to stop a child; the answer comes when it is gone.
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
                // It is gone and that news was read, so no other will come.
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

    /// Runs a stop beside the pool; the child's token reports success, this reports failure.
    fn watch_stop(&self, stop: impl Future<Output = bool> + Send + 'static, place: Place, birth: u64) {
        let mailbox = self.family.mailbox.clone();
        tokio::spawn(async move {
            if !stop.await {
                let _ = mailbox.send(PoolMessage::Unkillable { place, birth });
            }
        });
    }

    /// The running child `id`, unless it is dead and that is not noticed yet.
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

impl Entry {
    /// What somebody hears who asks for another child of its id. Copies the spec, which is not to be dropped while the book is
    /// locked.
    fn refuse(&mut self, spec: &ChildSpec) -> Result<Reserved, StartChildError> {
        let id = spec.id.clone();
        match &mut self.state {
            State::Starting(Starting { turns, again: false, .. })
            | State::Stopping(Stopping { turns, .. }) => {
                let (turn, refused) = oneshot::channel();
                turns.push(turn);
                Ok(Reserved::Wait(spec.clone(), refused))
            }
            State::Up(running) => {
                let child = running.leash.child.clone();
                let live = child.is_live();
                let refused = StartChildError::AlreadyStarted { id, child };
                if live { Err(refused) } else { Ok(Reserved::Doubtful(spec.clone(), refused)) }
            }
            State::Starting(_) | State::Restarting { .. } => Err(StartChildError::AlreadyPresent { id }),
        }
    }

    /// Lets those go who wait for its place.
    pub(crate) fn dismiss(&mut self) {
        match &mut self.state {
            State::Starting(Starting { turns, .. }) | State::Stopping(Stopping { turns, .. }) => {
                turns.clear()
            }
            State::Up(_) | State::Restarting { .. } => {}
        }
    }

    fn status(&self) -> ChildStatus {
        let state = match &self.state {
            State::Starting(starting) if !starting.again => ChildState::Starting,
            State::Starting(_) | State::Restarting { .. } => ChildState::Restarting,
            State::Up(running) => ChildState::Running(running.leash.child.clone()),
            State::Stopping(_) => ChildState::Stopping,
        };
        ChildStatus {
            id: self.spec.id.clone(),
            state,
            kind: self.spec.kind,
            restart: self.spec.restart,
            generation: self.generation,
            restarts: self.restarts.into(),
            last_exit: self.last_exit.as_deref().cloned(),
        }
    }
}

pub(crate) fn killed(id: &ChildId) -> StartChildError {
    StartChildError::Failed { id: id.clone(), exit: Exit::Killed }
}

/// The child is terminated, and with it those that were to be started in its place before that.
fn refuse(turns: Vec<Turn>, id: &ChildId) {
    for turn in turns {
        // Whoever no longer waits is not missed.
        let _ = turn.send(killed(id));
    }
}
