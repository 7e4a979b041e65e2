//! The task of a supervisor: takes one event at a time, lets `strategy` and `intensity` decide, and performs the
//! actions.
//!
//! Exits, retries and calls share one queue, so neither a flood of crashes nor a child that keeps failing to start can
//! hold a caller for ever.

mod calls;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

use crate::child::{Attempt, Birth, ChildRef, KILL_GRACE, NotStarted, Running, gone_within};
use crate::clock::pass;
use crate::completion::{Completion, Parent, Token, told};
use crate::control::{Demand, Published, demanded, unless_killed};
use crate::exit::clip;
use crate::intensity::{Charge, Window};
use crate::observer::{Voice, What, shielded};
use crate::strategy::{self, Action, Member, Place, Presence, Rules};
use crate::{
    Cause, ChildId, ChildSpec, ChildStatus, Clock, Counts, DeleteChildError, Exit, GetSpecError, Restart,
    RestartChildError, StartChildError, StartError, SupervisorSpec, TerminateChildError,
};

pub(crate) enum TreeMessage {
    /// The start `birth` of the child at `place` has ended.
    Exited { place: Place, birth: u64 },
    /// Repeat the restart that failed as `birth`.
    Retry { place: Place, birth: u64 },
    /// A call.
    Call(Call),
    /// A call after possibly visible ends that are not handled yet.
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
    /// The restart failed the way, because of the failures below; the retry of `birth` is queued.
    Restarting {
        birth: u64,
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

/// Purpose of a start: decides what observers are told.
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
    next_birth: u64,
    voice: Voice,
    published: Arc<Published>,
    demand: watch::Receiver<Demand>,
    token: Token,
}

impl Tree {
    pub(crate) fn new(
        spec: &SupervisorSpec,
        token: Token,
        voice: Voice,
        demand: watch::Receiver<Demand>,
        published: Arc<Published>,
    ) -> Self {
        Tree {
            rules: Rules { strategy: spec.strategy, auto_shutdown: spec.auto_shutdown },
            window: Window::new(spec.intensity),
            clock: spec.clock.clone(),
            rows: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            next_birth: 0,
            voice,
            published,
            demand,
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
        let demand = self.demand.clone();
        let exit = tokio::select! {
            biased;
            () = demanded(&demand, Demand::Kill) => None,
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
        let demand = self.demand.clone();
        let mut stop = std::pin::pin!(demanded(&demand, Demand::Stop));
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
            TreeMessage::Exited { place, birth } => self.exited(place, birth).await,
            TreeMessage::Retry { place, birth } => self.retry(place, birth).await,
            TreeMessage::Call(call) => {
                self.answer(call).await;
                ControlFlow::Continue(())
            }
            TreeMessage::CallAfter { ends, call } => {
                let (mailbox, clock) = (self.published.family.mailbox.clone(), self.clock.clone());
                tokio::spawn(async move {
                    told(&ends, &*clock).await;
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
    async fn exited(&mut self, place: Place, birth: u64) -> ControlFlow<Exit> {
        let Some(row) = self.rows.get_mut(&place) else { return ControlFlow::Continue(()) };
        let State::Up(running) = &mut row.state else { return ControlFlow::Continue(()) };
        if running.birth != birth {
            return ControlFlow::Continue(());
        }
        let exit = running.exit().await;
        let mut causes = running.causes();
        row.state = State::Down;
        row.last_exit = Some(exit.clone());
        self.published.remove(&row.spec.id);
        self.voice.say(&row.spec.id, row.generation, What::Exited { exit: &exit, asked: false });
        let actions = strategy::on_exit(self.rules, &self.rows, place, &exit);
        causes.push(Cause { id: self.rows[&place].spec.id.clone(), exit });
        self.perform(actions, place, causes).await
    }

    /// Repeats a failed restart, unless the child's state has changed.
    async fn retry(&mut self, place: Place, birth: u64) -> ControlFlow<Exit> {
        let Some(row) = self.rows.get(&place) else { return ControlFlow::Continue(()) };
        let State::Restarting { birth: due, exit, causes } = &row.state else {
            return ControlFlow::Continue(());
        };
        if *due != birth {
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
                        self.try_again_later(at, exit, causes);
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
            self.voice.say(&row.spec.id, row.generation, What::Escalated { exit: &last.exit });
        }
        self.token.completion().record_causes(causes);
        ControlFlow::Break(Exit::Shutdown)
    }

    fn try_again_later(&mut self, place: Place, exit: Exit, causes: Vec<Cause>) {
        let birth = self.next_birth;
        if let Some(row) = self.rows.get_mut(&place) {
            row.state = State::Restarting { birth, exit, causes };
            self.send_self(TreeMessage::Retry { place, birth });
        }
    }

    fn send_self(&self, message: TreeMessage) {
        // The inbox outlives every call of this: both belong to the running task.
        let _ = self.published.family.mailbox.send(message);
    }

    fn is_stopping(&self) -> bool {
        *self.demand.borrow() >= Demand::Stop
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
        self.next_birth += 1;
        let birth = self.next_birth;
        let row = self.rows.get_mut(&place).expect("only listed children are started");
        row.generation += 1;
        let to = Parent::Tree(self.published.family.clone(), place);
        let token = Token::child(to, birth).expect("the task holds a token of its own");
        let completion = token.completion().clone();
        row.state = State::Starting(completion.clone());

        let gift = Birth { token, voice: &self.voice, id: &row.spec.id };
        let start = Attempt::new(&*row.spec.start, gift);
        let patience = row.spec.shutdown.patience();
        let outcome = tokio::select! {
            biased;
            outcome = start => Some(outcome),
            () = overdue(&self.demand, &completion, patience, &*self.clock) => None,
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
            Ok(begun) => {
                let child = begun.child.clone();
                let running = Running::new(birth, begun, completion);
                self.published.insert(id.clone(), running.leash.clone());
                row.state = State::Up(running);
                if let Some(hook) = &row.spec.on_start {
                    shielded("on_start", || hook(&child));
                }
                match purpose {
                    Purpose::First => self.voice.say(&id, row.generation, What::Started { child: &child }),
                    Purpose::Again(cause) => {
                        row.restarts += 1;
                        self.voice.say_restarted(&id, row.generation, &child, cause);
                    }
                }
                Ok(child)
            }
            Err(NotStarted::Ignored) => {
                row.state = State::Down;
                self.voice.say(&id, row.generation, What::Ignored);
                if row.spec.restart == Restart::Temporary {
                    self.forget(place);
                }
                Err(NotStarted::Ignored)
            }
            Err(NotStarted::Failed { exit, causes }) => {
                row.state = State::Down;
                row.last_exit = Some(exit.clone());
                self.voice.say(&id, row.generation, What::StartFailed { exit: &exit });
                Err(NotStarted::Failed { exit, causes })
            }
        }
    }

    /// Stops the child at `place`, if it runs, and waits for the end. The spec stays.
    async fn stop_row(&mut self, place: Place) {
        let Some(row) = self.rows.get_mut(&place) else { return };
        if let State::Up(running) = &mut row.state {
            self.published.remove(&row.spec.id);
            let gone = running.leash.clone().stop(row.spec.shutdown, &*self.clock).await;
            let exit = if gone {
                running.exit().await
            } else {
                self.voice.say(&row.spec.id, row.generation, What::Unkillable);
                Exit::Killed
            };
            self.voice.say(&row.spec.id, row.generation, What::Exited { exit: &exit, asked: true });
            row.last_exit = Some(exit);
        }
        row.state = State::Down;
    }

    /// Stops all children in reverse order, one at a time.
    async fn stop_all(&mut self) {
        unless_killed(&self.demand).await;
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
        let ends = self.rows.values_mut().map(|row| kill(row, &*clock, &self.voice));
        futures::future::join_all(ends).await;
        for row in self.rows.values_mut() {
            row.state = State::Down;
        }
    }
}

/// Kills one child and waits until it is gone.
async fn kill(row: &mut Row, clock: &dyn Clock, voice: &Voice) {
    match &mut row.state {
        State::Up(running) => {
            let gone = running.leash.clone().kill(clock).await;
            let exit = if gone { running.exit().await } else { Exit::Killed };
            if !gone {
                voice.say(&row.spec.id, row.generation, What::Unkillable);
            }
            voice.say(&row.spec.id, row.generation, What::Exited { exit: &exit, asked: true });
        }
        State::Starting(completion) => {
            gone_within(completion, KILL_GRACE, clock).await;
        }
        State::Down | State::Restarting { .. } => {}
    }
}

/// Completes `patience` after the supervisor was told to stop. A branch is told at once, and starts no more children.
async fn overdue(
    demand: &watch::Receiver<Demand>,
    completion: &Completion,
    patience: Duration,
    clock: &dyn Clock,
) {
    demanded(demand, Demand::Stop).await;
    completion.ask();
    pass(clock, patience).await;
}
