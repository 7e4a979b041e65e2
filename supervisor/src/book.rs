//! The children of a pool, shared by its handles and its task.
//!
//! A start runs where it was asked for: in the caller's task, or in a task of its own for a restart.
//! It reserves its place in the book first and comes up, or not, in one step afterwards. Nothing of
//! the embedding program (hooks, observers, drops of specs) runs while the book is locked.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::child::{Attempt, Birth, ChildRef, KILL_GRACE, NotStarted, Running, Start, gone_within};
use crate::completion::{Completion, Report, Token};
use crate::intensity::Window;
use crate::observer::{Voice, What, shielded};
use crate::pool_task::{PoolMessage, end_running};
use crate::spec::OnStart;
use crate::status::ChildState;
use crate::{
    AutoShutdown, Cause, ChildId, ChildSpec, ChildStatus, Clock, Counts, Exit, Shutdown, StartChildError,
    TerminateChildError,
};

pub(crate) type StartAnswer = Result<ChildRef, StartChildError>;

/// One child as its pool keeps it.
pub(crate) struct Entry {
    pub(crate) spec: ChildSpec,
    /// Its place in the order of first starts.
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
    /// Whether this is the start `birth`.
    fn is_start(&self, birth: u64) -> bool {
        matches!(self, State::Starting(starting) if starting.birth == birth)
    }
}

/// A start under way.
pub(crate) struct Starting {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// Callers that want the same child.
    waiting: Vec<oneshot::Sender<StartAnswer>>,
    /// Whether this is a restart.
    again: bool,
    /// The child ended before it was noted as up.
    pub(crate) gone: bool,
}

/// A stop under way.
pub(crate) struct Stopping {
    pub(crate) birth: u64,
    pub(crate) completion: Arc<Completion>,
    /// The child, unless its start was broken off.
    pub(crate) running: Option<Running>,
    pub(crate) waiting: Vec<oneshot::Sender<Result<(), TerminateChildError>>>,
}

/// All children of a pool.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) entries: HashMap<ChildId, Entry>,
    /// The pool ends and takes no more children.
    pub(crate) closed: bool,
    next_birth: u64,
    next_ordinal: u64,
}

/// What the handles of a pool share with its task.
pub(crate) struct Shared {
    pub(crate) book: RwLock<Book>,
    pub(crate) voice: Voice,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) mailbox: UnboundedSender<PoolMessage>,
    pub(crate) max_children: u32,
    /// The pool's own end; not a token, so that a handle does not keep the pool from being gone.
    pub(crate) completion: Arc<Completion>,
}

/// What a request for a child comes to at first.
pub(crate) enum Reserved {
    /// The place is reserved; run this.
    Start(Ticket),
    /// Somebody else is starting it.
    Wait(oneshot::Receiver<StartAnswer>),
    /// Refused because of a child that may be gone: ask again when the pool has caught up.
    Doubtful(ChildSpec, StartChildError),
}

impl Shared {
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for a new child.
    pub(crate) fn reserve(self: &Arc<Self>, spec: ChildSpec) -> Result<Reserved, StartChildError> {
        let faults = spec.faults(AutoShutdown::Never);
        if !faults.is_empty() {
            return Err(StartChildError::Invalid(faults));
        }
        let id = spec.id.clone();
        let mut book = self.write();
        if book.closed {
            return Err(StartChildError::Ended);
        }
        if let Some(entry) = book.entries.get_mut(&id) {
            return match &mut entry.state {
                State::Starting(starting) if !starting.again => {
                    let (reply, answer) = oneshot::channel();
                    starting.waiting.push(reply);
                    Ok(Reserved::Wait(answer))
                }
                State::Up(running) => {
                    let child = running.leash.child.clone();
                    let live = child.is_live();
                    let refused = StartChildError::AlreadyStarted { id, child };
                    if live { Err(refused) } else { Ok(Reserved::Doubtful(spec, refused)) }
                }
                State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => {
                    Err(StartChildError::AlreadyPresent { id })
                }
            };
        }
        if book.entries.len() as u64 >= u64::from(self.max_children) {
            let refused = StartChildError::MaxChildren { max: self.max_children };
            return Ok(Reserved::Doubtful(spec, refused));
        }
        let Some(ticket) = self.ticket(&mut book, &spec, 1, None) else {
            return Err(StartChildError::Ended);
        };
        let ordinal = book.next_ordinal;
        book.next_ordinal += 1;
        let state = ticket.starting();
        let (restarts, last_exit, window) = (0, None, None);
        book.entries.insert(id, Entry { spec, ordinal, generation: 1, restarts, last_exit, window, state });
        Ok(Reserved::Start(ticket))
    }

    /// Waits until the pool has dealt with every end that it was told of before.
    pub(crate) async fn catch_up(&self) {
        let (reply, done) = oneshot::channel();
        let _ = self.mailbox.send(PoolMessage::CatchUp(reply));
        // A pool that ends does not answer, but its book is closed by then.
        let _ = done.await;
    }

    /// Makes a ticket for one start; `None` if the pool is gone.
    fn ticket(
        self: &Arc<Self>,
        book: &mut Book,
        spec: &ChildSpec,
        generation: u64,
        again: Option<Exit>,
    ) -> Option<Ticket> {
        let parent = self.completion.token()?;
        book.next_birth += 1;
        let birth = book.next_birth;
        let report = Report::Pool { to: self.mailbox.clone(), id: spec.id.clone(), birth };
        let token = Token::new(report, Some(parent));
        let completion = token.completion().clone();
        Some(Ticket {
            shared: self.clone(),
            id: spec.id.clone(),
            birth,
            generation,
            again,
            start: spec.start.clone(),
            on_start: spec.on_start.clone(),
            token: Some(token),
            completion,
            used: false,
        })
    }

    /// Notes that the child that ended as `ended` starts again; `None` if something else has become
    /// of it meanwhile.
    pub(crate) fn restart(self: &Arc<Self>, id: &ChildId, ended: u64) -> Option<Ticket> {
        let mut book = self.write();
        let entry = book.entries.get_mut(id)?;
        let exit = match &entry.state {
            State::Restarting { birth, exit, .. } if *birth == ended => exit.clone(),
            _ => return None,
        };
        entry.generation += 1;
        let (spec, generation) = (entry.spec.clone(), entry.generation);
        let ticket = self.ticket(&mut book, &spec, generation, Some(exit))?;
        if let Some(entry) = book.entries.get_mut(id) {
            entry.state = ticket.starting();
        }
        drop(book);
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
        let Some(mut entry) = book.entries.remove(&id) else {
            return Err(TerminateChildError::NotFound { id });
        };
        let limit = entry.spec.shutdown;
        let stopping = match entry.state {
            State::Up(running) => {
                let (shared, leash, birth) = (self.clone(), running.leash.clone(), running.birth);
                let completion = leash.completion.clone();
                let stop = async move { leash.stop(limit, &*shared.clock).await };
                self.watch_stop(stop, &id, birth);
                Stopping { birth, completion, running: Some(running), waiting: vec![reply] }
            }
            State::Starting(starting) if !starting.gone => {
                let (birth, completion) = (starting.birth, starting.completion);
                completion.ask();
                answer_all(starting.waiting, || Err(killed(&id)));
                let (shared, end) = (self.clone(), completion.clone());
                let stop = async move { gone_within(&end, KILL_GRACE, &*shared.clock).await };
                self.watch_stop(stop, &id, birth);
                Stopping { birth, completion, running: None, waiting: vec![reply] }
            }
            State::Starting(Starting { waiting, .. }) => {
                // It is gone and that news was read, so no other will come.
                drop(book);
                answer_all(waiting, || Err(killed(&id)));
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
                stopping
            }
        };
        entry.state = State::Stopping(stopping);
        book.entries.insert(id, entry);
        Ok(answer)
    }

    /// Runs a stop beside the pool; the child's token reports success, this reports failure.
    fn watch_stop(&self, stop: impl Future<Output = bool> + Send + 'static, id: &ChildId, birth: u64) {
        let (mailbox, id) = (self.mailbox.clone(), id.clone());
        tokio::spawn(async move {
            if !stop.await {
                let _ = mailbox.send(PoolMessage::Unkillable { id, birth });
            }
        });
    }

    /// The running child `id`, unless it is dead and that is not noticed yet.
    pub(crate) fn get(&self, id: &str) -> Option<ChildRef> {
        match &self.read().entries.get(id)?.state {
            State::Up(running) if running.leash.child.is_live() => Some(running.leash.child.clone()),
            State::Up(_) | State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => None,
        }
    }

    /// All children in the order of their first starts.
    pub(crate) fn list(&self) -> Vec<ChildStatus> {
        let book = self.read();
        let mut entries: Vec<_> = book.entries.values().collect();
        entries.sort_unstable_by_key(|entry| entry.ordinal);
        entries.into_iter().map(Entry::status).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.read().entries.values() {
            counts.add(entry.spec.kind, matches!(entry.state, State::Up(_)));
        }
        counts
    }
}

impl Entry {
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

/// The right to start one child once. Dropped before it has run to its end, it gives the place back, or leaves a restart to be
/// tried again.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    id: ChildId,
    birth: u64,
    generation: u64,
    /// How it ended before, if this is a restart.
    again: Option<Exit>,
    start: Arc<dyn Start>,
    on_start: Option<OnStart>,
    token: Option<Token>,
    completion: Arc<Completion>,
    used: bool,
}

impl Ticket {
    fn starting(&self) -> State {
        let (birth, completion, again) = (self.birth, self.completion.clone(), self.again.is_some());
        State::Starting(Starting { birth, completion, waiting: Vec::new(), again, gone: false })
    }

    /// Starts the child and notes what came of it. A child that is to stop meanwhile does not come up.
    pub(crate) async fn run(mut self) -> StartAnswer {
        let Some(token) = self.token.take() else { return Err(StartChildError::Ended) };
        let gift = Birth { token, voice: self.shared.voice.clone(), id: Some(self.id.clone()) };
        let outcome = tokio::select! {
            biased;
            outcome = Attempt::new(&*self.start, gift) => outcome,
            () = self.completion.when_asked() => Err(NotStarted::failed(Exit::Killed)),
        };
        self.used = true;
        match outcome {
            Ok(begun) => {
                let running = Running::new(self.birth, begun, self.completion.clone());
                self.came_up(running)
            }
            Err(NotStarted::Ignored) => {
                self.shared.voice.say(&self.id, self.generation, What::Ignored);
                self.gave_up(|id| StartChildError::Ignored { id });
                Err(StartChildError::Ignored { id: self.id.clone() })
            }
            Err(NotStarted::Failed { exit, causes }) => {
                self.shared.voice.say(&self.id, self.generation, What::StartFailed { exit: &exit });
                if self.again.is_some() {
                    self.try_again_later(&exit, causes);
                } else {
                    self.gave_up(|id| StartChildError::Failed { id, exit: exit.clone() });
                }
                if self.shared.read().closed {
                    return Err(StartChildError::Ended);
                }
                Err(StartChildError::Failed { id: self.id.clone(), exit })
            }
        }
    }

    /// Notes the child as up. It is announced before, so that nobody hears of its end first.
    fn came_up(&self, running: Running) -> StartAnswer {
        let child = running.leash.child.clone();
        if let Some(hook) = &self.on_start {
            shielded("on_start", || hook(&child));
        }
        match &self.again {
            None => self.shared.voice.say(&self.id, self.generation, What::Started { child: &child }),
            Some(exit) => {
                let cause = Cause { id: self.id.clone(), exit: exit.clone() };
                self.shared.voice.say_restarted(&self.id, self.generation, &child, &cause);
            }
        }

        let mut book = self.shared.write();
        match book.entries.get_mut(&self.id) {
            Some(entry) if entry.state.is_start(self.birth) => {
                entry.restarts += u32::from(self.again.is_some());
                let before = std::mem::replace(&mut entry.state, State::Up(running));
                drop(book);
                let State::Starting(starting) = before else { return Ok(child) };
                if starting.gone {
                    let (id, birth) = (self.id.clone(), self.birth);
                    let _ = self.shared.mailbox.send(PoolMessage::Exited { id, birth });
                }
                let already =
                    || StartChildError::AlreadyStarted { id: self.id.clone(), child: child.clone() };
                answer_all(starting.waiting, || Err(already()));
                Ok(child)
            }
            Some(Entry { state: State::Stopping(stopping), .. }) if stopping.birth == self.birth => {
                child.kill();
                stopping.running = Some(running);
                Err(killed(&self.id))
            }
            _ => {
                drop(book);
                self.end_late(running);
                Err(StartChildError::Ended)
            }
        }
    }

    /// Kills a child that came up when its pool had ended or it was terminated. The pool is not gone before that is told.
    fn end_late(&self, mut running: Running) {
        let (shared, id, generation) = (self.shared.clone(), self.id.clone(), self.generation);
        let token = shared.completion.token();
        tokio::spawn(async move {
            end_running(&id, generation, &mut running, Shutdown::Brutal, &*shared.clock, &shared.voice).await;
            drop(token);
        });
    }

    /// Whether the book still shows this start as under way.
    fn is_current(&self, book: &Book) -> bool {
        book.entries.get(&self.id).is_some_and(|entry| entry.state.is_start(self.birth))
    }

    /// Removes the child and tells those who waited for it.
    fn gave_up(&self, error: impl Fn(ChildId) -> StartChildError) {
        let mut book = self.shared.write();
        let entry = if self.is_current(&book) { book.entries.remove(&self.id) } else { None };
        drop(book);
        if let Some(Entry { state: State::Starting(starting), .. }) = entry {
            answer_all(starting.waiting, || Err(error(self.id.clone())));
        }
    }

    /// Leaves the next attempt to the pool, behind what is already queued there.
    fn try_again_later(&self, exit: &Exit, causes: Vec<Cause>) {
        let mut book = self.shared.write();
        if !self.is_current(&book) {
            return;
        }
        if let Some(entry) = book.entries.get_mut(&self.id) {
            entry.last_exit = Some(Box::new(exit.clone()));
            entry.state = State::Restarting { birth: self.birth, exit: exit.clone(), causes };
        }
        drop(book);
        let _ = self.shared.mailbox.send(PoolMessage::Retry { id: self.id.clone(), birth: self.birth });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        match &self.again {
            _ if self.used => {}
            Some(_) => self.try_again_later(&Exit::Cancelled, Vec::new()),
            None => self.gave_up(|id| killed(&id)),
        }
    }
}

fn killed(id: &ChildId) -> StartChildError {
    StartChildError::Failed { id: id.clone(), exit: Exit::Killed }
}

fn answer_all(waiting: Vec<oneshot::Sender<StartAnswer>>, answer: impl Fn() -> StartAnswer) {
    for reply in waiting {
        // Whoever no longer waits is not missed.
        let _ = reply.send(answer());
    }
}
