//! The task of a supervisor: handles one event at a time, lets `strategy` and `intensity` decide, and performs the actions.
//!
//! **Start.** A start runs in this task and is over when the child's start hook returns. Each start has an incarnation number; messages of
//! an earlier incarnation are stale and ignored. A failed first start stops the children started before in reverse order, without a
//! charge. A failed restart queues a retry behind the messages that arrived meanwhile and is charged again.
//!
//! **Stop.** Children stop in reverse start order, one at a time: the supervisor asks, kills after the child's shutdown limit, and
//! waits for the end signal, which follows the drop of the child's state. A child that survives a kill for
//! [`KILL_GRACE`] is abandoned and reported. A kill request skips the order and kills all children at once.
//!
//! Exits, retries and calls share one queue, so neither a flood of crashes nor a child that keeps failing to start delays a
//! caller for ever.

mod calls;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;

use crate::child::{Attempt, ChildRef, KILL_GRACE, NotStarted, Running, StartContext, gone_within};
use crate::clock::pass;
use crate::completion::{Completion, Parent, Token, wait_handled};
use crate::control::{Published, StopRequest, stop_requested, unless_killed};
use crate::exit::clip;
use crate::intensity::{Charge, Window};
use crate::observer::{ChildEvent, EventSink, shielded};
use crate::strategy::{self, Action, Member, Place, Presence, Rules};
use crate::{
    Cause, ChildId, ChildSpec, ChildStatus, Clock, Counts, DeleteChildError, Exit, GetSpecError, Restart,
    RestartChildError, StartChildError, StartError, SupervisorSpec, TerminateChildError,
};

pub(crate) enum TreeMessage {
    /// The start `incarnation` of the child at `place` has ended.
    Exited { place: Place, incarnation: u64 },
    /// Repeat the restart that failed as `incarnation`.
    Retry { place: Place, incarnation: u64 },
    /// A call.
    Call(Call),
    /// A call whose caller may have seen `ends` before this task handled them; answered afterwards.
    CallAfter { ends: Vec<Arc<Completion>>, call: Call },
}

pub(crate) enum Call {
    StartChild { spec: ChildSpec, reply: oneshot::Sender<Result<ChildRef, StartChildError>> },
    Terminate { id: ChildId, reply: oneshot::Sender<Result<(), TerminateChildError>> },
    Restart { id: ChildId, reply: oneshot::Sender<Result<ChildRef, RestartChildError>> },
    Delete { id: ChildId, reply: oneshot::Sender<Result<(), DeleteChildError>> },
    GetSpec { id: ChildId, reply: oneshot::Sender<Result<ChildSpec, GetSpecError>> },
    Which(oneshot::Sender<Vec<ChildStatus>>),
    Count(oneshot::Sender<Counts>),
    Abort { id: ChildId, reply: oneshot::Sender<bool> },
}

pub(crate) struct Row {
    pub(crate) spec: ChildSpec,
    pub(crate) generation: u64,
    pub(crate) restarts: u64,
    pub(crate) last_exit: Option<Exit>,
    pub(crate) state: State,
}

pub(crate) enum State {
    Down,
    /// The start hook runs.
    Starting(Arc<Completion>),
    /// The restart failed with `exit`, caused by `causes`; the retry of `incarnation` is queued.
    Restarting {
        incarnation: u64,
        exit: Exit,
        causes: Vec<Cause>,
    },
    Up(Running),
}

impl Member for Row {
    fn restart(&self) -> Restart {
        self.spec.restart
    }

    fn significant(&self) -> bool {
        self.spec.significant
    }

    fn presence(&self) -> Presence {
        match self.state {
            State::Down | State::Starting(_) => Presence::Down,
            State::Restarting { .. } => Presence::Restarting,
            State::Up(_) => Presence::Up,
        }
    }
}

/// Purpose of a start, reported to observers.
#[derive(Clone, Copy)]
enum Purpose<'a> {
    First,
    /// A restart after the end.
    Again(&'a Cause),
}

pub(crate) struct Tree {
    rules: Rules,
    window: Window,
    clock: Arc<dyn Clock>,
    pub(crate) rows: BTreeMap<Place, Row>,
    pub(crate) places: HashMap<ChildId, Place>,
    next_place: Place,
    next_incarnation: u64,
    events: EventSink,
    published: Arc<Published>,
    stop_request: watch::Receiver<StopRequest>,
    token: Token,
}

impl Tree {
    pub(crate) fn new(
        spec: &SupervisorSpec,
        token: Token,
        events: EventSink,
        stop_request: watch::Receiver<StopRequest>,
        published: Arc<Published>,
    ) -> Self {
        Tree {
            rules: Rules { strategy: spec.strategy, auto_shutdown: spec.auto_shutdown },
            window: Window::new(spec.intensity),
            clock: spec.clock.clone(),
            rows: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            next_incarnation: 0,
            events,
            published,
            stop_request,
            token,
        }
    }

    /// Runs the supervisor to its end. Every child is gone by then; dropping `self` reports it.
    pub(crate) async fn run(
        mut self,
        inbox: UnboundedReceiver<TreeMessage>,
        children: Vec<ChildSpec>,
        started: oneshot::Sender<Result<(), StartError>>,
    ) {
        let stop_request = self.stop_request.clone();
        let exit = tokio::select! {
            biased;
            () = stop_requested(&stop_request, StopRequest::Kill) => None,
            exit = self.live(inbox, children, started) => Some(exit),
        };
        let exit = match exit {
            Some(exit) => exit,
            None => {
                self.kill_all().await;
                Exit::Killed
            }
        };
        self.token.completion().record(exit);
    }

    async fn live(
        &mut self,
        mut inbox: UnboundedReceiver<TreeMessage>,
        children: Vec<ChildSpec>,
        started: oneshot::Sender<Result<(), StartError>>,
    ) -> Exit {
        // A caller that leaves before the start is over demands a kill.
        let outcome = self.start_all(children).await;
        if let Err(error) = outcome {
            self.stop_all().await;
            let exit = Exit::StartFailed(clip(error.to_string()));
            let _ = started.send(Err(error));
            return exit;
        }
        let _ = started.send(Ok(()));
        let stop_request = self.stop_request.clone();
        let mut stop = std::pin::pin!(stop_requested(&stop_request, StopRequest::Stop));
        let exit = loop {
            let message = tokio::select! {
                biased;
                () = &mut stop => break Exit::Shutdown,
                message = inbox.recv() => message,
            };
            let message = message.expect("the task holds a sender of its own inbox");
            if let ControlFlow::Break(exit) = self.take(message).await {
                break exit;
            }
        };
        // Dismisses waiting callers: a child may be among them.
        drop(inbox);
        self.stop_all().await;
        exit
    }

    async fn take(&mut self, message: TreeMessage) -> ControlFlow<Exit> {
        match message {
            TreeMessage::Exited { place, incarnation } => self.exited(place, incarnation).await,
            TreeMessage::Retry { place, incarnation } => self.retry(place, incarnation).await,
            TreeMessage::Call(call) => {
                self.answer(call).await;
                ControlFlow::Continue(())
            }
            TreeMessage::CallAfter { ends, call } => {
                let (mailbox, clock) = (self.published.parent_link.mailbox.clone(), self.clock.clone());
                tokio::spawn(async move {
                    wait_handled(&ends, &*clock).await;
                    let _ = mailbox.send(TreeMessage::Call(call));
                });
                ControlFlow::Continue(())
            }
        }
    }

    async fn start_all(&mut self, children: Vec<ChildSpec>) -> Result<(), StartError> {
        for spec in children {
            let id = spec.id.clone();
            let place = self.add(spec);
            match self.start_row(place, Purpose::First).await {
                Ok(_) | Err(NotStarted::Ignored) => {}
                Err(NotStarted::Failed { exit, mut causes }) => {
                    causes.push(Cause { id: id.clone(), exit: exit.clone() });
                    self.token.completion().record_causes(causes);
                    return Err(StartError::Child { id, exit });
                }
            }
            if self.is_stopping() {
                return Err(StartError::Interrupted);
            }
        }
        Ok(())
    }

    /// Handles the end of a child, unless the message is stale.
    async fn exited(&mut self, place: Place, incarnation: u64) -> ControlFlow<Exit> {
        let Some(row) = self.rows.get_mut(&place) else { return ControlFlow::Continue(()) };
        let State::Up(running) = &mut row.state else { return ControlFlow::Continue(()) };
        if running.incarnation != incarnation {
            return ControlFlow::Continue(());
        }
        let exit = running.exit().await;
        let mut causes = running.causes();
        row.state = State::Down;
        row.last_exit = Some(exit.clone());
        self.published.remove(&row.spec.id);
        self.events.emit(&row.spec.id, row.generation, ChildEvent::Exited { exit: &exit, asked: false });
        let actions = strategy::on_exit(self.rules, &self.rows, place, &exit);
        causes.push(Cause { id: self.rows[&place].spec.id.clone(), exit });
        self.perform(actions, place, causes).await
    }

    /// Repeats a failed restart, unless the child's state has changed.
    async fn retry(&mut self, place: Place, incarnation: u64) -> ControlFlow<Exit> {
        let Some(row) = self.rows.get(&place) else { return ControlFlow::Continue(()) };
        let State::Restarting { incarnation: due, exit, causes } = &row.state else {
            return ControlFlow::Continue(());
        };
        if *due != incarnation {
            return ControlFlow::Continue(());
        }
        let mut causes = causes.clone();
        causes.push(Cause { id: row.spec.id.clone(), exit: exit.clone() });
        let actions = strategy::on_retry(self.rules, &self.rows, place);
        self.perform(actions, place, causes).await
    }

    /// Performs the actions for the child at `place`. Ends early at a demanded stop: no restart runs during the
    /// supervisor's own shutdown.
    async fn perform(&mut self, actions: Vec<Action>, place: Place, causes: Vec<Cause>) -> ControlFlow<Exit> {
        for action in actions {
            if self.is_stopping() {
                return ControlFlow::Break(Exit::Shutdown);
            }
            match action {
                Action::Charge => {
                    if self.window.charge(self.clock.now()) == Charge::Exhausted {
                        return self.escalate(place, causes);
                    }
                }
                Action::Stop(at) => self.stop_row(at).await,
                Action::Forget(at) => self.forget(at),
                Action::Start(at) => {
                    let cause = causes.last().expect("a restart has a cause");
                    let started = self.start_row(at, Purpose::Again(cause)).await;
                    if let Err(NotStarted::Failed { exit, causes }) = started {
                        self.schedule_retry(at, exit, causes);
                        return ControlFlow::Continue(());
                    }
                }
                Action::ShutDown => return ControlFlow::Break(Exit::Shutdown),
            }
        }
        ControlFlow::Continue(())
    }

    fn escalate(&self, place: Place, causes: Vec<Cause>) -> ControlFlow<Exit> {
        if let (Some(row), Some(last)) = (self.rows.get(&place), causes.last()) {
            self.events.emit(&row.spec.id, row.generation, ChildEvent::Escalated { exit: &last.exit });
        }
        self.token.completion().record_causes(causes);
        ControlFlow::Break(Exit::Shutdown)
    }

    fn schedule_retry(&mut self, place: Place, exit: Exit, causes: Vec<Cause>) {
        let incarnation = self.next_incarnation;
        if let Some(row) = self.rows.get_mut(&place) {
            row.state = State::Restarting { incarnation, exit, causes };
            let mailbox = self.published.parent_link.mailbox.clone();
            // In a task of its own, which nothing wakes early: every other future runs in between.
            tokio::spawn(async move {
                yield_now().await;
                let _ = mailbox.send(TreeMessage::Retry { place, incarnation });
            });
        }
    }

    fn is_stopping(&self) -> bool {
        *self.stop_request.borrow() >= StopRequest::Stop
    }

    fn add(&mut self, spec: ChildSpec) -> Place {
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert(spec.id.clone(), place);
        let row = Row { spec, generation: 0, restarts: 0, last_exit: None, state: State::Down };
        self.rows.insert(place, row);
        place
    }

    fn forget(&mut self, place: Place) {
        if let Some(row) = self.rows.remove(&place) {
            self.places.remove(&row.spec.id);
        }
    }

    /// Starts the child at `place` and waits until it runs. After a failure the child is down; a temporary child that
    /// declines is forgotten.
    async fn start_row(&mut self, place: Place, purpose: Purpose<'_>) -> Result<ChildRef, NotStarted> {
        self.next_incarnation += 1;
        let incarnation = self.next_incarnation;
        let row = self.rows.get_mut(&place).expect("only listed children are started");
        row.generation += 1;
        let to = Parent::Tree(self.published.parent_link.clone(), place);
        let token = Token::child(to, incarnation).expect("the task holds a token of its own");
        let completion = token.completion().clone();
        row.state = State::Starting(completion.clone());

        let start_context = StartContext { token, events: &self.events, id: &row.spec.id };
        let start = Attempt::new(&*row.spec.start, start_context);
        let patience = row.spec.shutdown.patience();
        let outcome = tokio::select! {
            biased;
            outcome = start => Some(outcome),
            () = overdue(&self.stop_request, &completion, patience, &*self.clock) => None,
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                gone_within(&completion, KILL_GRACE, &*self.clock).await;
                Err(NotStarted::failed(Exit::Killed))
            }
        };
        let id = row.spec.id.clone();
        match outcome {
            Ok(started) => {
                let child = started.child.clone();
                let running = Running::new(incarnation, started, completion);
                self.published.insert(id.clone(), running.handle.clone());
                row.state = State::Up(running);
                if let Some(hook) = &row.spec.on_start {
                    shielded("on_start", || hook(&child));
                }
                match purpose {
                    Purpose::First => {
                        self.events.emit(&id, row.generation, ChildEvent::Started { child: &child })
                    }
                    Purpose::Again(cause) => {
                        row.restarts += 1;
                        self.events.emit_restarted(&id, row.generation, &child, cause);
                    }
                }
                Ok(child)
            }
            Err(NotStarted::Ignored) => {
                row.state = State::Down;
                self.events.emit(&id, row.generation, ChildEvent::Ignored);
                if row.spec.restart == Restart::Temporary {
                    self.forget(place);
                }
                Err(NotStarted::Ignored)
            }
            Err(NotStarted::Failed { exit, causes }) => {
                row.state = State::Down;
                row.last_exit = Some(exit.clone());
                self.events.emit(&id, row.generation, ChildEvent::StartFailed { exit: &exit });
                Err(NotStarted::Failed { exit, causes })
            }
        }
    }

    /// Stops the child at `place`, if it runs, and waits for the end. The spec stays.
    async fn stop_row(&mut self, place: Place) {
        let Some(row) = self.rows.get_mut(&place) else { return };
        if let State::Up(running) = &mut row.state {
            self.published.remove(&row.spec.id);
            let gone = running.handle.clone().stop(row.spec.shutdown, &*self.clock).await;
            let exit = if gone {
                running.exit().await
            } else {
                self.events.emit(&row.spec.id, row.generation, ChildEvent::Unkillable);
                Exit::Killed
            };
            self.events.emit(&row.spec.id, row.generation, ChildEvent::Exited { exit: &exit, asked: true });
            row.last_exit = Some(exit);
        }
        row.state = State::Down;
    }

    /// Stops all children in reverse order, one at a time.
    async fn stop_all(&mut self) {
        unless_killed(&self.stop_request).await;
        let places: Vec<Place> = self.rows.keys().rev().copied().collect();
        for place in places {
            self.stop_row(place).await;
        }
    }

    /// Kills all children at once and waits until they are gone.
    async fn kill_all(&mut self) {
        let clock = self.clock.clone();
        for row in self.rows.values() {
            self.published.remove(&row.spec.id);
        }
        let ends = self.rows.values_mut().map(|row| kill(row, &*clock, &self.events));
        futures::future::join_all(ends).await;
        for row in self.rows.values_mut() {
            row.state = State::Down;
        }
    }
}

/// Kills one child and waits until it is gone.
async fn kill(row: &mut Row, clock: &dyn Clock, events: &EventSink) {
    match &mut row.state {
        State::Up(running) => {
            let gone = running.handle.clone().kill(clock).await;
            let exit = if gone { running.exit().await } else { Exit::Killed };
            if !gone {
                events.emit(&row.spec.id, row.generation, ChildEvent::Unkillable);
            }
            events.emit(&row.spec.id, row.generation, ChildEvent::Exited { exit: &exit, asked: true });
        }
        State::Starting(completion) => {
            gone_within(completion, KILL_GRACE, clock).await;
        }
        State::Down | State::Restarting { .. } => {}
    }
}

/// Completes `patience` after a stop request to the supervisor. A branch receives the request at once, and starts no more children.
async fn overdue(
    stop_request: &watch::Receiver<StopRequest>,
    completion: &Completion,
    patience: Duration,
    clock: &dyn Clock,
) {
    stop_requested(stop_request, StopRequest::Stop).await;
    completion.ask();
    pass(clock, patience).await;
}
