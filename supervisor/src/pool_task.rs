//! The task of a pool: handles ends and failed restarts of children.
//!
//! Starts and stops run outside this task, so they are parallel and a slow start hook blocks no other child. The table of children is
//! the single source of truth; a message names slot and incarnation, and is stale if the table holds another incarnation there.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

use crate::child::{KILL_GRACE, Running, gone_within};
use crate::child_slab::Slot;
use crate::child_table::Shared;
use crate::completion::{Completion, Token, wait_handled};
use crate::control::{StopRequest, stop_requested, unless_killed};
use crate::entry::{Entry, State, Stopping};
use crate::intensity::{Charge, Window};
use crate::observer::{ChildEvent, EventSink};
use crate::{Cause, ChildId, Clock, Exit, Intensity, PoolSpec, Shutdown, strategy};

pub(crate) enum PoolMessage {
    /// The child's start `incarnation` has ended.
    Exited { slot: Slot, incarnation: u64 },
    /// Repeat the restart that failed as `incarnation`.
    Retry { slot: Slot, incarnation: u64 },
    /// The child's start `incarnation` was killed and keeps running.
    Unkillable { slot: Slot, incarnation: u64 },
    /// A caller waits until all earlier messages, and these ends, are handled.
    CatchUp { ends: Vec<Arc<Completion>>, reply: oneshot::Sender<()> },
}

pub(crate) struct PoolTask {
    shared: Arc<Shared>,
    window: Window,
    child_intensity: Option<Intensity>,
    stop_request: watch::Receiver<StopRequest>,
    token: Token,
    leaving: Vec<Option<Entry>>,
}

impl PoolTask {
    pub(crate) fn new(
        spec: &PoolSpec,
        shared: Arc<Shared>,
        stop_request: watch::Receiver<StopRequest>,
        token: Token,
    ) -> Self {
        PoolTask {
            shared,
            window: Window::new(spec.intensity),
            child_intensity: spec.child_intensity,
            stop_request,
            token,
            leaving: Vec::new(),
        }
    }

    /// Runs the pool to its end. Every child is gone by then; dropping `self` reports it.
    pub(crate) async fn run(mut self, inbox: UnboundedReceiver<PoolMessage>) {
        let stop_request = self.stop_request.clone();
        let exit = tokio::select! {
            biased;
            () = stop_requested(&stop_request, StopRequest::Kill) => None,
            exit = self.live(inbox) => Some(exit),
        };
        let exit = match exit {
            Some(exit) => exit,
            None => {
                self.end_all(true).await;
                Exit::Killed
            }
        };
        self.token.completion().record(exit);
    }

    async fn live(&mut self, mut inbox: UnboundedReceiver<PoolMessage>) -> Exit {
        let stop_request = self.stop_request.clone();
        let mut stop = std::pin::pin!(stop_requested(&stop_request, StopRequest::Stop));
        let exit = loop {
            let message = tokio::select! {
                biased;
                () = &mut stop => break Exit::Shutdown,
                message = inbox.recv() => message,
            };
            let message = message.expect("the task holds a sender of its own inbox");
            let next = match message {
                PoolMessage::Exited { slot, incarnation } => self.exited(slot, incarnation).await,
                PoolMessage::Retry { slot, incarnation } => self.restart(slot, incarnation),
                PoolMessage::Unkillable { slot, incarnation } => self.unkillable(slot, incarnation),
                PoolMessage::CatchUp { ends, reply } => {
                    self.catch_up(ends, reply);
                    ControlFlow::Continue(())
                }
            };
            if let ControlFlow::Break(exit) = next {
                break exit;
            }
        };
        self.close();
        // Dismisses waiting callers: a child of the pool may be among them.
        drop(inbox);
        unless_killed(&stop_request).await;
        self.end_all(false).await;
        exit
    }

    /// Answers a caller once the pool has handled `ends`.
    fn catch_up(&self, ends: Vec<Arc<Completion>>, reply: oneshot::Sender<()>) {
        if ends.is_empty() {
            // A caller that no longer waits needs no answer.
            let _ = reply.send(());
            return;
        }
        let shared = self.shared.clone();
        tokio::spawn(async move {
            wait_handled(&ends, &*shared.clock).await;
            let _ = shared.parent_link.mailbox.send(PoolMessage::CatchUp { ends: Vec::new(), reply });
        });
    }

    /// Handles the end of a child, unless the message is stale.
    async fn exited(&mut self, slot: Slot, incarnation: u64) -> ControlFlow<Exit> {
        self.record_silent_end(slot, incarnation).await;
        let mut table = self.shared.write();
        let Some(entry) = table.children.get_mut(slot) else { return ControlFlow::Continue(()) };
        match &mut entry.state {
            State::Starting(starting) if starting.incarnation == incarnation => {
                starting.gone = true;
                ControlFlow::Continue(())
            }
            State::Stopping(stopping) if stopping.incarnation == incarnation => {
                let exit = stopping.completion.exit().cloned().unwrap_or(Exit::Killed);
                let wait_handled =
                    stopping.running.is_some().then(|| (entry.spec.id.clone(), entry.generation));
                drop(table);
                if let Some((id, generation)) = wait_handled {
                    self.shared.events.emit(&id, generation, ChildEvent::Exited { exit: &exit, asked: true });
                }
                self.stopped(slot, incarnation);
                ControlFlow::Continue(())
            }
            State::Up(running) if running.incarnation == incarnation => {
                let completion = running.handle.completion.clone();
                let exit = completion.exit().cloned().unwrap_or(Exit::Cancelled);
                let causes = running.causes();
                let (id, generation) = (entry.spec.id.clone(), entry.generation);
                let restarts = strategy::restarts(entry.spec.restart, &exit);
                let stopping = Stopping {
                    incarnation,
                    completion,
                    running: None,
                    waiting: Vec::new(),
                    waiters: Vec::new(),
                };
                let before = std::mem::replace(&mut entry.state, State::Stopping(stopping));
                drop(table);
                drop(before);
                self.shared.events.emit(&id, generation, ChildEvent::Exited { exit: &exit, asked: false });
                if restarts && self.is_to_restart(slot, incarnation, exit, causes) {
                    return self.restart(slot, incarnation);
                }
                self.stopped(slot, incarnation);
                ControlFlow::Continue(())
            }
            State::Starting(_) | State::Stopping(_) | State::Up(_) | State::Restarting { .. } => {
                ControlFlow::Continue(())
            }
        }
    }

    /// Records the exit of a child that reported none.
    async fn record_silent_end(&self, slot: Slot, incarnation: u64) {
        let silent = poll_fn(|context| {
            match self.shared.write().children.get_mut(slot).map(|entry| &mut entry.state) {
                Some(State::Up(running) | State::Stopping(Stopping { running: Some(running), .. }))
                    if running.incarnation == incarnation =>
                {
                    running.poll_silent_end(context)
                }
                _ => Poll::Ready(None),
            }
        });
        if let Some(end) = silent.await {
            end.record();
        }
    }

    /// Restarts the child that ended as `incarnation`, or gives up the child or the pool.
    fn restart(&mut self, slot: Slot, incarnation: u64) -> ControlFlow<Exit> {
        let now = self.shared.clock.now();
        let mut table = self.shared.write();
        let Some(entry) = table.children.get_mut(slot) else { return ControlFlow::Continue(()) };
        let (exit, mut causes) = match &entry.state {
            State::Restarting { incarnation: due, exit, causes } if *due == incarnation => {
                (exit.clone(), causes.clone())
            }
            // The child was terminated meanwhile.
            _ => return ControlFlow::Continue(()),
        };
        let (id, generation) = (entry.spec.id.clone(), entry.generation);
        if let Some(limit) = self.child_intensity {
            let window = entry.window.get_or_insert_with(|| Box::new(Window::new(limit)));
            if window.charge(now) == Charge::Exhausted {
                drop(table);
                self.shared.events.emit(&id, generation, ChildEvent::GivenUp { exit: &exit });
                drop(self.remove(
                    slot,
                    |state| matches!(state, State::Restarting { incarnation: due, .. } if *due == incarnation),
                ));
                return ControlFlow::Continue(());
            }
        }
        drop(table);
        if self.window.charge(now) == Charge::Exhausted {
            self.shared.events.emit(&id, generation, ChildEvent::Escalated { exit: &exit });
            causes.push(Cause { id, exit });
            self.token.completion().record_causes(causes);
            return ControlFlow::Break(Exit::Shutdown);
        }
        if let Some(start_guard) = self.shared.restart(slot, incarnation) {
            tokio::spawn(start_guard.run());
        }
        ControlFlow::Continue(())
    }

    fn unkillable(&mut self, slot: Slot, incarnation: u64) -> ControlFlow<Exit> {
        let wait_handled = self.shared.read().children.get(slot).and_then(|entry| match &entry.state {
            State::Stopping(stopping) if stopping.incarnation == incarnation => {
                Some((entry.spec.id.clone(), entry.generation, stopping.running.is_some()))
            }
            _ => None,
        });
        let Some((id, generation, was_up)) = wait_handled else { return ControlFlow::Continue(()) };
        self.shared.events.emit(&id, generation, ChildEvent::Unkillable);
        if was_up {
            let exit = &Exit::Killed;
            self.shared.events.emit(&id, generation, ChildEvent::Exited { exit, asked: true });
        }
        self.stopped(slot, incarnation);
        ControlFlow::Continue(())
    }

    /// Marks an ended child for a restart; `false` after a termination.
    fn is_to_restart(&self, slot: Slot, incarnation: u64, exit: Exit, causes: Vec<Cause>) -> bool {
        let mut table = self.shared.write();
        let Some(entry) = table.children.get_mut(slot) else { return false };
        if !matches!(&entry.state, State::Stopping(s) if s.incarnation == incarnation && s.waiting.is_empty())
        {
            return false;
        }
        let last = entry.last_exit.replace(Box::new(exit.clone()));
        let before = std::mem::replace(&mut entry.state, State::Restarting { incarnation, exit, causes });
        drop(table);
        drop((last, before));
        true
    }

    /// Removes an ended child after the report of its end: no later child in the same place can be reported before.
    fn stopped(&self, slot: Slot, incarnation: u64) {
        let entry =
            self.remove(slot, |state| matches!(state, State::Stopping(s) if s.incarnation == incarnation));
        let Some(Entry { state: State::Stopping(stopping), .. }) = entry else { return };
        for reply in stopping.waiting {
            // A caller that no longer waits needs no answer.
            let _ = reply.send(Ok(()));
        }
    }

    /// Removes a child in the state. The caller drops the entry, outside the lock.
    fn remove(&self, slot: Slot, is: impl FnOnce(&State) -> bool) -> Option<Entry> {
        let mut table = self.shared.write();
        let does = table.children.get(slot).is_some_and(|entry| is(&entry.state));
        if does { table.children.remove(slot) } else { None }
    }

    fn close(&mut self) {
        let mut table = self.shared.write();
        table.closed = true;
        let entries = table.children.drain();
        drop(table);
        for mut entry in entries {
            entry.dismiss();
            self.leaving.push(Some(entry));
        }
    }

    /// Stops or kills all children in parallel, and waits until they are gone.
    async fn end_all(&mut self, kill: bool) {
        self.close();
        let (clock, events) = (&*self.shared.clock, &self.shared.events);
        let ends = self.leaving.iter_mut().map(|slot| async move {
            if let Some(entry) = slot {
                end(entry, kill, clock, events).await;
            }
            // A kill during the stop must not end this child again.
            *slot = None;
        });
        futures::future::join_all(ends).await;
        self.leaving.clear();
    }
}

/// Ends one child and waits until it is gone.
async fn end(entry: &mut Entry, kill: bool, clock: &dyn Clock, events: &EventSink) {
    let running = match &mut entry.state {
        State::Up(running) => running,
        State::Stopping(Stopping { running: Some(running), .. }) => running,
        State::Stopping(Stopping { completion, .. }) => {
            gone_within(completion, KILL_GRACE, clock).await;
            return;
        }
        State::Starting(starting) => {
            // A start that is over already fails at the closed table.
            starting.abort_start();
            gone_within(&starting.completion, KILL_GRACE, clock).await;
            return;
        }
        State::Restarting { .. } => return,
    };
    let limit = if kill { Shutdown::Brutal } else { entry.spec.shutdown };
    end_running(&entry.spec.id, entry.generation, running, limit, clock, events).await;
}

/// Ends a running child, waits for the end, and reports the exit.
pub(crate) async fn end_running(
    id: &ChildId,
    generation: u64,
    running: &mut Running,
    limit: Shutdown,
    clock: &dyn Clock,
    events: &EventSink,
) {
    let gone = running.handle.clone().stop(limit, clock).await;
    let exit = if gone {
        running.exit().await
    } else {
        events.emit(id, generation, ChildEvent::Unkillable);
        Exit::Killed
    };
    events.emit(id, generation, ChildEvent::Exited { exit: &exit, asked: true });
}

impl Drop for PoolTask {
    fn drop(&mut self) {
        // If the task is dropped early, its handles must not keep the children alive.
        self.close();
        for entry in self.leaving.iter_mut().flatten() {
            if let State::Starting(starting) = &mut entry.state {
                starting.abort_start();
            }
        }
    }
}
