//! The task of a pool: handles ends and failed restarts of children.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

use crate::book::Shared;
use crate::child::{KILL_GRACE, Running, gone_within};
use crate::completion::{Completion, Token, told};
use crate::control::{Demand, demanded, unless_killed};
use crate::entry::{Entry, State, Stopping};
use crate::intensity::{Charge, Window};
use crate::observer::{Voice, What};
use crate::places::Place;
use crate::{Cause, ChildId, Clock, Exit, Intensity, PoolSpec, Shutdown, strategy};

pub(crate) enum PoolMessage {
    /// The child's start `birth` has ended.
    Exited { place: Place, birth: u64 },
    /// Repeat the restart that failed as `birth`.
    Retry { place: Place, birth: u64 },
    /// The child's start `birth` was killed and keeps running.
    Unkillable { place: Place, birth: u64 },
    /// A caller waits until all earlier messages, and these ends, are handled.
    CatchUp { ends: Vec<Arc<Completion>>, reply: oneshot::Sender<()> },
}

pub(crate) struct PoolTask {
    shared: Arc<Shared>,
    window: Window,
    child_intensity: Option<Intensity>,
    demand: watch::Receiver<Demand>,
    token: Token,
    leaving: Vec<Option<Entry>>,
}

impl PoolTask {
    pub(crate) fn new(
        spec: &PoolSpec,
        shared: Arc<Shared>,
        demand: watch::Receiver<Demand>,
        token: Token,
    ) -> Self {
        PoolTask {
            shared,
            window: Window::new(spec.intensity),
            child_intensity: spec.child_intensity,
            demand,
            token,
            leaving: Vec::new(),
        }
    }

    /// Runs the pool to its end. Every child is gone by then; dropping `self` reports it.
    pub(crate) async fn run(mut self, inbox: UnboundedReceiver<PoolMessage>) {
        let demand = self.demand.clone();
        let exit = tokio::select! {
            biased;
            () = demanded(&demand, Demand::Kill) => None,
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
        let demand = self.demand.clone();
        let mut stop = std::pin::pin!(demanded(&demand, Demand::Stop));
        let exit = loop {
            let message = tokio::select! {
                biased;
                () = &mut stop => break Exit::Shutdown,
                message = inbox.recv() => message,
            };
            let message = message.expect("the task holds a sender of its own inbox");
            let next = match message {
                PoolMessage::Exited { place, birth } => self.exited(place, birth).await,
                PoolMessage::Retry { place, birth } => self.restart(place, birth),
                PoolMessage::Unkillable { place, birth } => self.unkillable(place, birth),
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
        unless_killed(&demand).await;
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
            told(&ends, &*shared.clock).await;
            let _ = shared.family.mailbox.send(PoolMessage::CatchUp { ends: Vec::new(), reply });
        });
    }

    /// Handles the end of a child, unless the message is stale.
    async fn exited(&mut self, place: Place, birth: u64) -> ControlFlow<Exit> {
        self.record_silent_end(place, birth).await;
        let mut book = self.shared.write();
        let Some(entry) = book.places.get_mut(place) else { return ControlFlow::Continue(()) };
        match &mut entry.state {
            State::Starting(starting) if starting.birth == birth => {
                starting.gone = true;
                ControlFlow::Continue(())
            }
            State::Stopping(stopping) if stopping.birth == birth => {
                let exit = stopping.completion.exit().cloned().unwrap_or(Exit::Killed);
                let told = stopping.running.is_some().then(|| (entry.spec.id.clone(), entry.generation));
                drop(book);
                if let Some((id, generation)) = told {
                    self.shared.voice.say(&id, generation, What::Exited { exit: &exit, asked: true });
                }
                self.stopped(place, birth);
                ControlFlow::Continue(())
            }
            State::Up(running) if running.birth == birth => {
                let completion = running.leash.completion.clone();
                let exit = completion.exit().cloned().unwrap_or(Exit::Cancelled);
                let causes = running.causes();
                let (id, generation) = (entry.spec.id.clone(), entry.generation);
                let again = strategy::restarts(entry.spec.restart, &exit);
                let stopping =
                    Stopping { birth, completion, running: None, waiting: Vec::new(), turns: Vec::new() };
                let before = std::mem::replace(&mut entry.state, State::Stopping(stopping));
                drop(book);
                drop(before);
                self.shared.voice.say(&id, generation, What::Exited { exit: &exit, asked: false });
                if again && self.is_to_restart(place, birth, exit, causes) {
                    return self.restart(place, birth);
                }
                self.stopped(place, birth);
                ControlFlow::Continue(())
            }
            State::Starting(_) | State::Stopping(_) | State::Up(_) | State::Restarting { .. } => {
                ControlFlow::Continue(())
            }
        }
    }

    /// Records the exit of a child that reported none.
    async fn record_silent_end(&self, place: Place, birth: u64) {
        let silent = poll_fn(|context| {
            match self.shared.write().places.get_mut(place).map(|entry| &mut entry.state) {
                Some(State::Up(running) | State::Stopping(Stopping { running: Some(running), .. }))
                    if running.birth == birth =>
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

    /// Restarts the child that ended as `birth`, or gives up the child or the pool.
    fn restart(&mut self, place: Place, birth: u64) -> ControlFlow<Exit> {
        let now = self.shared.clock.now();
        let mut book = self.shared.write();
        let Some(entry) = book.places.get_mut(place) else { return ControlFlow::Continue(()) };
        let (exit, mut causes) = match &entry.state {
            State::Restarting { birth: due, exit, causes } if *due == birth => (exit.clone(), causes.clone()),
            // The child was terminated meanwhile.
            _ => return ControlFlow::Continue(()),
        };
        let (id, generation) = (entry.spec.id.clone(), entry.generation);
        if let Some(limit) = self.child_intensity {
            let window = entry.window.get_or_insert_with(|| Box::new(Window::new(limit)));
            if window.charge(now) == Charge::Exhausted {
                drop(book);
                self.shared.voice.say(&id, generation, What::GivenUp { exit: &exit });
                drop(self.remove(
                    place,
                    |state| matches!(state, State::Restarting { birth: due, .. } if *due == birth),
                ));
                return ControlFlow::Continue(());
            }
        }
        drop(book);
        if self.window.charge(now) == Charge::Exhausted {
            self.shared.voice.say(&id, generation, What::Escalated { exit: &exit });
            causes.push(Cause { id, exit });
            self.token.completion().record_causes(causes);
            return ControlFlow::Break(Exit::Shutdown);
        }
        if let Some(ticket) = self.shared.restart(place, birth) {
            tokio::spawn(ticket.run());
        }
        ControlFlow::Continue(())
    }

    fn unkillable(&mut self, place: Place, birth: u64) -> ControlFlow<Exit> {
        let told = self.shared.read().places.get(place).and_then(|entry| match &entry.state {
            State::Stopping(stopping) if stopping.birth == birth => {
                Some((entry.spec.id.clone(), entry.generation, stopping.running.is_some()))
            }
            _ => None,
        });
        let Some((id, generation, was_up)) = told else { return ControlFlow::Continue(()) };
        self.shared.voice.say(&id, generation, What::Unkillable);
        if was_up {
            let exit = &Exit::Killed;
            self.shared.voice.say(&id, generation, What::Exited { exit, asked: true });
        }
        self.stopped(place, birth);
        ControlFlow::Continue(())
    }

    /// Marks an ended child for a restart; `false` after a termination.
    fn is_to_restart(&self, place: Place, birth: u64, exit: Exit, causes: Vec<Cause>) -> bool {
        let mut book = self.shared.write();
        let Some(entry) = book.places.get_mut(place) else { return false };
        if !matches!(&entry.state, State::Stopping(s) if s.birth == birth && s.waiting.is_empty()) {
            return false;
        }
        let last = entry.last_exit.replace(Box::new(exit.clone()));
        let before = std::mem::replace(&mut entry.state, State::Restarting { birth, exit, causes });
        drop(book);
        drop((last, before));
        true
    }

    /// Removes an ended child after the report of its end: no later child in the same place can be reported before.
    fn stopped(&self, place: Place, birth: u64) {
        let entry = self.remove(place, |state| matches!(state, State::Stopping(s) if s.birth == birth));
        let Some(Entry { state: State::Stopping(stopping), .. }) = entry else { return };
        for reply in stopping.waiting {
            // A caller that no longer waits needs no answer.
            let _ = reply.send(Ok(()));
        }
    }

    /// Removes a child in the state. The caller drops the entry, outside the lock.
    fn remove(&self, place: Place, is: impl FnOnce(&State) -> bool) -> Option<Entry> {
        let mut book = self.shared.write();
        let does = book.places.get(place).is_some_and(|entry| is(&entry.state));
        if does { book.places.remove(place) } else { None }
    }

    fn close(&mut self) {
        let mut book = self.shared.write();
        book.closed = true;
        let entries = book.places.drain();
        drop(book);
        for mut entry in entries {
            entry.dismiss();
            self.leaving.push(Some(entry));
        }
    }

    /// Stops or kills all children in parallel, and waits until they are gone.
    async fn end_all(&mut self, kill: bool) {
        self.close();
        let (clock, voice) = (&*self.shared.clock, &self.shared.voice);
        let ends = self.leaving.iter_mut().map(|slot| async move {
            if let Some(entry) = slot {
                end(entry, kill, clock, voice).await;
            }
            // A kill during the stop must not end this child again.
            *slot = None;
        });
        futures::future::join_all(ends).await;
        self.leaving.clear();
    }
}

/// Ends one child and waits until it is gone.
async fn end(entry: &mut Entry, kill: bool, clock: &dyn Clock, voice: &Voice) {
    let running = match &mut entry.state {
        State::Up(running) => running,
        State::Stopping(Stopping { running: Some(running), .. }) => running,
        State::Stopping(Stopping { completion, .. }) => {
            gone_within(completion, KILL_GRACE, clock).await;
            return;
        }
        State::Starting(starting) => {
            // A start that is over already fails at the closed table.
            starting.break_off();
            gone_within(&starting.completion, KILL_GRACE, clock).await;
            return;
        }
        State::Restarting { .. } => return,
    };
    let limit = if kill { Shutdown::Brutal } else { entry.spec.shutdown };
    end_running(&entry.spec.id, entry.generation, running, limit, clock, voice).await;
}

/// Ends a running child, waits for the end, and reports the exit.
pub(crate) async fn end_running(
    id: &ChildId,
    generation: u64,
    running: &mut Running,
    limit: Shutdown,
    clock: &dyn Clock,
    voice: &Voice,
) {
    let gone = running.leash.clone().stop(limit, clock).await;
    let exit = if gone {
        running.exit().await
    } else {
        voice.say(id, generation, What::Unkillable);
        Exit::Killed
    };
    voice.say(id, generation, What::Exited { exit: &exit, asked: true });
}

impl Drop for PoolTask {
    fn drop(&mut self) {
        // If the task is dropped early, its handles must not keep the children alive.
        self.close();
        for entry in self.leaving.iter_mut().flatten() {
            if let State::Starting(starting) = &mut entry.state {
                starting.break_off();
            }
        }
    }
}
