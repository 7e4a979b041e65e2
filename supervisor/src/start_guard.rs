//! A start of a pool's child, from the reservation of the entry to its completion or removal.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::yield_now;

use crate::child::{Attempt, ChildRef, NotStarted, Outcome, Running, Start, StartContext};
use crate::child_slab::Slot;
use crate::child_table::{ChildTable, Shared, killed};
use crate::completion::Token;
use crate::entry::{Entry, Progress, Starting, State};
use crate::observer::{ChildEvent, shielded};
use crate::pool_task::{PoolMessage, end_running};
use crate::spec::{Captured, OnStart};
use crate::{Cause, ChildId, ChildSpec, Exit, Shutdown, StartChildError};

pub(crate) type StartAnswer = Result<ChildRef, StartChildError>;

/// Guard of one start of a child. The guard owns the reservation of the table entry: dropped before the start is over, for instance
/// because the caller dropped the future, a first start frees the entry and a restart is queued again.
pub(crate) struct StartGuard {
    shared: Arc<Shared>,
    id: ChildId,
    slot: Slot,
    incarnation: u64,
    generation: u64,
    restart_cause: Option<Exit>,
    start: Captured<dyn Start>,
    on_start: Option<OnStart>,
    token: Option<Token>,
    used: bool,
}

impl StartGuard {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        spec: &ChildSpec,
        (slot, incarnation): (Slot, u64),
        generation: u64,
        restart_cause: Option<Exit>,
        token: Token,
    ) -> Self {
        StartGuard {
            shared: shared.clone(),
            id: spec.id.clone(),
            slot,
            incarnation,
            generation,
            restart_cause,
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
        let start_context = StartContext { token, events: &self.shared.events, id: &self.id };
        let mut fresh = Some(Attempt::new(&*self.start, start_context));
        let outcome = poll_fn(|context| match fresh.take().or_else(|| self.unpark()) {
            Some(attempt) => self.poll(attempt, context),
            None => Poll::Ready(Err(NotStarted::failed(Exit::Killed))),
        });
        let outcome = outcome.await;
        self.used = true;
        match outcome {
            Ok(started) => {
                let running = Running::new(self.incarnation, started, completion);
                self.record_running(running)
            }
            Err(NotStarted::Ignored) => {
                self.shared.events.emit(&self.id, self.generation, ChildEvent::Ignored);
                self.release_entry();
                Err(StartChildError::Ignored { id: self.id.clone() })
            }
            Err(NotStarted::Failed { exit, causes }) => {
                self.shared.events.emit(&self.id, self.generation, ChildEvent::StartFailed { exit: &exit });
                if self.restart_cause.is_some() {
                    self.schedule_retry(&exit, causes);
                } else {
                    self.release_entry();
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
            let mut table = self.shared.write();
            let Some(starting) = self.find(&mut table) else {
                drop(table);
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
    fn find<'table>(&self, table: &'table mut ChildTable) -> Option<&'table mut Starting> {
        table.children.get_mut(self.slot)?.state.as_start(self.incarnation)
    }

    /// Records the child as running. The start is announced first, so that no observer sees the end before; observers
    /// can find the child.
    fn record_running(&self, running: Running) -> StartAnswer {
        let child = running.handle.child.clone();
        if (self.on_start.is_some() || self.shared.events.has_observer())
            && let Some(starting) = self.find(&mut self.shared.write())
        {
            starting.progress = Progress::Announced(child.clone());
        }
        if let Some(hook) = &self.on_start {
            shielded("on_start", || hook(&child));
        }
        match &self.restart_cause {
            None => self.shared.events.emit(&self.id, self.generation, ChildEvent::Started { child: &child }),
            Some(exit) => {
                let cause = Cause { id: self.id.clone(), exit: exit.clone() };
                self.shared.events.emit_restarted(&self.id, self.generation, &child, &cause);
            }
        }

        let mut table = self.shared.write();
        match table.children.get_mut(self.slot) {
            Some(entry) if matches!(&entry.state, State::Starting(start) if start.incarnation == self.incarnation) =>
            {
                entry.restarts += u32::from(self.restart_cause.is_some());
                let before = std::mem::replace(&mut entry.state, State::Up(running));
                drop(table);
                let State::Starting(starting) = before else { return Ok(child) };
                if starting.gone {
                    let (slot, incarnation) = (self.slot, self.incarnation);
                    let _ = self.shared.parent_link.mailbox.send(PoolMessage::Exited { slot, incarnation });
                }
                Ok(child)
            }
            Some(Entry { state: State::Stopping(stopping), .. })
                if stopping.incarnation == self.incarnation =>
            {
                child.kill();
                stopping.running = Some(running);
                Err(killed(&self.id))
            }
            _ => {
                drop(table);
                self.kill_late(running);
                Err(StartChildError::Ended)
            }
        }
    }

    /// Kills a child that came up after the end of the pool or a termination. The pool is gone only after the report.
    fn kill_late(&self, mut running: Running) {
        let (shared, id, generation) = (self.shared.clone(), self.id.clone(), self.generation);
        let token = shared.parent_link.completion.token();
        tokio::spawn(async move {
            end_running(&id, generation, &mut running, Shutdown::Brutal, &*shared.clock, &shared.events)
                .await;
            drop(token);
        });
    }

    fn release_entry(&self) {
        let mut table = self.shared.write();
        let entry = self.find(&mut table).is_some().then(|| table.children.remove(self.slot));
        drop(table);
        drop(entry);
    }

    /// Queues the next attempt in the pool, behind earlier messages.
    fn schedule_retry(&self, exit: &Exit, causes: Vec<Cause>) {
        let mut table = self.shared.write();
        if self.find(&mut table).is_none() {
            return;
        }
        let before = table.children.get_mut(self.slot).map(|entry| {
            entry.last_exit = Some(Box::new(exit.clone()));
            let due = State::Restarting { incarnation: self.incarnation, exit: exit.clone(), causes };
            std::mem::replace(&mut entry.state, due)
        });
        drop(table);
        drop(before);
        let mailbox = self.shared.parent_link.mailbox.clone();
        let retry = PoolMessage::Retry { slot: self.slot, incarnation: self.incarnation };
        match Handle::try_current() {
            // In a task of its own, which nothing wakes early: every other future runs in between.
            Ok(runtime) => drop(runtime.spawn(async move {
                yield_now().await;
                let _ = mailbox.send(retry);
            })),
            // The runtime is shutting down.
            Err(_) => drop(mailbox.send(retry)),
        }
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        match &self.restart_cause {
            _ if self.used => {}
            Some(_) => self.schedule_retry(&Exit::Cancelled, Vec::new()),
            None => self.release_entry(),
        }
    }
}
