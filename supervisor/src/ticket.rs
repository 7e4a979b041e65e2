//! A start of a pool's child, from the reservation of the entry to its completion or removal.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::book::{Book, Shared, killed};
use crate::child::{Attempt, Birth, ChildRef, NotStarted, Outcome, Running, Start};
use crate::completion::Token;
use crate::entry::{Entry, Progress, Starting, State};
use crate::observer::{What, shielded};
use crate::places::Place;
use crate::pool_task::{PoolMessage, end_running};
use crate::spec::{Captured, OnStart};
use crate::{Cause, ChildId, ChildSpec, Exit, Shutdown, StartChildError};

pub(crate) type StartAnswer = Result<ChildRef, StartChildError>;

/// The right to start one child once. Dropped early, it frees the entry, or leaves a restart to be tried again.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    id: ChildId,
    place: Place,
    birth: u64,
    generation: u64,
    again: Option<Exit>,
    start: Captured<dyn Start>,
    on_start: Option<OnStart>,
    token: Option<Token>,
    used: bool,
}

impl Ticket {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        spec: &ChildSpec,
        (place, birth): (Place, u64),
        generation: u64,
        again: Option<Exit>,
        token: Token,
    ) -> Self {
        Ticket {
            shared: shared.clone(),
            id: spec.id.clone(),
            place,
            birth,
            generation,
            again,
            start: spec.start.clone(),
            on_start: spec.on_start.clone(),
            token: Some(token),
            used: false,
        }
    }

    /// Runs the start and records the result. A child with a pending stop does not come up.
    pub(crate) async fn run(mut self) -> StartAnswer {
        let Some(token) = self.token.take() else { return Err(StartChildError::Ended) };
        let completion = token.completion().clone();
        let gift = Birth { token, voice: &self.shared.voice, id: &self.id };
        let mut fresh = Some(Attempt::new(&*self.start, gift));
        let outcome = poll_fn(|context| match fresh.take().or_else(|| self.unpark()) {
            Some(attempt) => self.poll(attempt, context),
            None => Poll::Ready(Err(NotStarted::failed(Exit::Killed))),
        });
        let outcome = outcome.await;
        self.used = true;
        match outcome {
            Ok(begun) => {
                let running = Running::new(self.birth, begun, completion);
                self.came_up(running)
            }
            Err(NotStarted::Ignored) => {
                self.shared.voice.say(&self.id, self.generation, What::Ignored);
                self.gave_up();
                Err(StartChildError::Ignored { id: self.id.clone() })
            }
            Err(NotStarted::Failed { exit, causes }) => {
                self.shared.voice.say(&self.id, self.generation, What::StartFailed { exit: &exit });
                if self.again.is_some() {
                    self.try_again_later(&exit, causes);
                } else {
                    self.gave_up();
                }
                if self.shared.read().closed {
                    return Err(StartChildError::Ended);
                }
                Err(StartChildError::Failed { id: self.id.clone(), exit })
            }
        }
    }

    /// Polls the start. Between polls the table holds the start; a child with a pending stop is broken off here.
    fn poll(&self, mut attempt: Attempt, context: &mut Context<'_>) -> Poll<Outcome> {
        let polled = Pin::new(&mut attempt).poll(context);
        if polled.is_pending() {
            let waker = context.waker().clone();
            let mut book = self.shared.write();
            let Some(starting) = self.find(&mut book) else {
                drop(book);
                drop(attempt);
                return Poll::Ready(Err(NotStarted::failed(Exit::Killed)));
            };
            starting.progress = Progress::Parked(Mutex::new(attempt), waker);
        }
        polled
    }

    /// Takes the start out of the table; `None` if it was broken off.
    fn unpark(&self) -> Option<Attempt> {
        match std::mem::take(&mut self.find(&mut self.shared.write())?.progress) {
            Progress::Parked(attempt, _) => {
                Some(attempt.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            Progress::Polled | Progress::Announced(_) => None,
        }
    }

    /// The start, while the table shows it as under way.
    fn find<'book>(&self, book: &'book mut Book) -> Option<&'book mut Starting> {
        book.places.get_mut(self.place)?.state.as_start(self.birth)
    }

    /// Records the child as running. The start is announced first, so that no observer sees the end before; observers
    /// can find the child.
    fn came_up(&self, running: Running) -> StartAnswer {
        let child = running.leash.child.clone();
        if (self.on_start.is_some() || self.shared.voice.is_heard())
            && let Some(starting) = self.find(&mut self.shared.write())
        {
            starting.progress = Progress::Announced(child.clone());
        }
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
        match book.places.get_mut(self.place) {
            Some(entry) if matches!(&entry.state, State::Starting(start) if start.birth == self.birth) => {
                entry.restarts += u32::from(self.again.is_some());
                let before = std::mem::replace(&mut entry.state, State::Up(running));
                drop(book);
                let State::Starting(starting) = before else { return Ok(child) };
                if starting.gone {
                    let (place, birth) = (self.place, self.birth);
                    let _ = self.shared.family.mailbox.send(PoolMessage::Exited { place, birth });
                }
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

    /// Kills a child that came up after the end of the pool or a termination. The pool is gone only after the report.
    fn end_late(&self, mut running: Running) {
        let (shared, id, generation) = (self.shared.clone(), self.id.clone(), self.generation);
        let token = shared.family.completion.token();
        tokio::spawn(async move {
            end_running(&id, generation, &mut running, Shutdown::Brutal, &*shared.clock, &shared.voice).await;
            drop(token);
        });
    }

    fn gave_up(&self) {
        let mut book = self.shared.write();
        let entry = self.find(&mut book).is_some().then(|| book.places.remove(self.place));
        drop(book);
        drop(entry);
    }

    /// Queues the next attempt in the pool, behind earlier messages.
    fn try_again_later(&self, exit: &Exit, causes: Vec<Cause>) {
        let mut book = self.shared.write();
        if self.find(&mut book).is_none() {
            return;
        }
        let before = book.places.get_mut(self.place).map(|entry| {
            entry.last_exit = Some(Box::new(exit.clone()));
            let due = State::Restarting { birth: self.birth, exit: exit.clone(), causes };
            std::mem::replace(&mut entry.state, due)
        });
        drop(book);
        drop(before);
        let _ = self.shared.family.mailbox.send(PoolMessage::Retry { place: self.place, birth: self.birth });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        match &self.again {
            _ if self.used => {}
            Some(_) => self.try_again_later(&Exit::Cancelled, Vec::new()),
            None => self.gave_up(),
        }
    }
}
