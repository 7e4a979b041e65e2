//! The task of a pool: like a supervisor's, but starts and stops run beside it, in parallel.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::child::{Birth, ChildRef, KILL_GRACE, NotStarted, Running, gone_within};
use crate::completion::{Completion, Report, Token};
use crate::control::{Demand, Published, demanded};
use crate::intensity::{Charge, Window};
use crate::observer::{Voice, What, shielded};
use crate::status::ChildState;
use crate::{
    AutoShutdown, Cause, ChildId, ChildSpec, ChildStatus, Clock, Counts, Exit, Intensity, PoolSpec,
    StartChildError, TerminateChildError, strategy,
};

/// What a pool's task is told.
pub(crate) enum PoolMessage {
    /// The child started as `birth` is gone.
    Exited { id: ChildId, birth: u64 },
    /// The start `birth` is over.
    Started { id: ChildId, birth: u64, outcome: Result<Running, NotStarted> },
    /// It is time to try again what failed as `birth`.
    Retry { id: ChildId, birth: u64 },
    /// The child started as `birth` was killed and does not go.
    Unkillable { id: ChildId, birth: u64 },
    /// Somebody wants an answer.
    Call(PoolCall),
}

/// What can be asked of a pool.
pub(crate) enum PoolCall {
    Start { spec: ChildSpec, reply: StartReply },
    Terminate { id: ChildId, reply: TerminateReply },
    Which(oneshot::Sender<Vec<ChildStatus>>),
    Count(oneshot::Sender<Counts>),
}

type StartReply = oneshot::Sender<Result<ChildRef, StartChildError>>;
type TerminateReply = oneshot::Sender<Result<(), TerminateChildError>>;

/// One child as its pool keeps it.
struct Entry {
    spec: ChildSpec,
    /// Its place in the order of first starts.
    ordinal: u64,
    generation: u64,
    /// Made at its first crash, if children have windows of their own.
    window: Option<Box<Window>>,
    state: State,
}

/// What a child is doing.
enum State {
    Starting(Starting),
    Up(Running),
    /// Its restart failed this way; the retry of that `birth` is queued.
    Restarting {
        birth: u64,
        exit: Exit,
    },
    Stopping(Stopping),
}

/// A start that runs beside the pool's task.
struct Starting {
    birth: u64,
    task: AbortHandle,
    completion: Arc<Completion>,
    /// Those who want the child; empty for a restart.
    waiting: Vec<StartReply>,
    /// Whether this is a restart.
    again: bool,
    /// The child ended before the news of its start was read.
    gone: bool,
}

/// A stop that runs beside the pool's task.
struct Stopping {
    birth: u64,
    completion: Arc<Completion>,
    /// The child, unless it was still being started.
    running: Option<Running>,
    waiting: Vec<TerminateReply>,
}

/// The state of a pool's task.
pub(crate) struct PoolTask {
    max_children: u32,
    window: Window,
    child_intensity: Option<Intensity>,
    clock: Arc<dyn Clock>,
    entries: HashMap<ChildId, Entry>,
    next_birth: u64,
    next_ordinal: u64,
    voice: Voice,
    published: Arc<Published>,
    mailbox: UnboundedSender<PoolMessage>,
    demand: watch::Receiver<Demand>,
    token: Arc<Token>,
}

impl PoolTask {
    pub(crate) fn new(
        spec: &PoolSpec,
        birth: Birth,
        mailbox: UnboundedSender<PoolMessage>,
        demand: watch::Receiver<Demand>,
        published: Arc<Published>,
    ) -> Self {
        PoolTask {
            max_children: spec.max_children,
            window: Window::new(spec.intensity),
            child_intensity: spec.child_intensity,
            clock: spec.clock.clone(),
            entries: HashMap::new(),
            next_birth: 0,
            next_ordinal: 0,
            voice: birth.inner_voice(),
            published,
            mailbox,
            demand,
            token: birth.token,
        }
    }

    /// Runs the pool to its end. By then every child is gone; the drop of `self` says so.
    pub(crate) async fn run(mut self, mut inbox: UnboundedReceiver<PoolMessage>) {
        let demand = self.demand.clone();
        let exit = tokio::select! {
            biased;
            () = demanded(&demand, Demand::Kill) => None,
            exit = self.live(&mut inbox) => Some(exit),
        };
        let exit = match exit {
            Some(exit) => exit,
            None => {
                close(&mut inbox);
                self.end_all(true).await;
                Exit::Killed
            }
        };
        self.token.completion().record(exit);
    }

    async fn live(&mut self, inbox: &mut UnboundedReceiver<PoolMessage>) -> Exit {
        let demand = self.demand.clone();
        let exit = loop {
            let message = tokio::select! {
                biased;
                () = demanded(&demand, Demand::Stop) => break Exit::Shutdown,
                message = inbox.recv() => message,
            };
            let message = message.expect("the task holds a sender of its own inbox");
            if let ControlFlow::Break(exit) = self.take(message).await {
                break exit;
            }
        };
        close(inbox);
        self.end_all(false).await;
        exit
    }

    async fn take(&mut self, message: PoolMessage) -> ControlFlow<Exit> {
        match message {
            PoolMessage::Exited { id, birth } => return self.exited(id, birth).await,
            PoolMessage::Started { id, birth, outcome } => {
                return self.started(id, birth, outcome).await;
            }
            PoolMessage::Retry { id, birth } => return self.retry(id, birth),
            PoolMessage::Unkillable { id, birth } => self.unkillable(&id, birth),
            PoolMessage::Call(PoolCall::Start { spec, reply }) => self.start_child(spec, reply),
            PoolMessage::Call(PoolCall::Terminate { id, reply }) => self.terminate_child(id, reply),
            PoolMessage::Call(PoolCall::Which(reply)) => {
                // Whoever no longer waits for an answer is not missed.
                let _ = reply.send(self.list());
            }
            PoolMessage::Call(PoolCall::Count(reply)) => {
                let mut counts = Counts::default();
                for entry in self.entries.values() {
                    counts.add(entry.spec.kind, matches!(entry.state, State::Up(_)));
                }
                let _ = reply.send(counts);
            }
        }
        ControlFlow::Continue(())
    }

    fn start_child(&mut self, spec: ChildSpec, reply: StartReply) {
        let id = spec.id.clone();
        if let Some(entry) = self.entries.get_mut(&id) {
            let refusal = match &mut entry.state {
                State::Starting(starting) if !starting.again => return starting.waiting.push(reply),
                State::Up(running) => {
                    StartChildError::AlreadyStarted { id, child: running.leash.child.clone() }
                }
                State::Starting(_) | State::Restarting { .. } | State::Stopping(_) => {
                    StartChildError::AlreadyPresent { id }
                }
            };
            let _ = reply.send(Err(refusal));
            return;
        }
        let faults = spec.faults(AutoShutdown::Never);
        if !faults.is_empty() {
            let _ = reply.send(Err(StartChildError::Invalid(faults)));
            return;
        }
        if self.entries.len() as u64 >= u64::from(self.max_children) {
            let _ = reply.send(Err(StartChildError::MaxChildren { max: self.max_children }));
            return;
        }
        let starting = self.begin(&spec, vec![reply], false);
        let ordinal = self.next_ordinal;
        self.next_ordinal += 1;
        let state = State::Starting(starting);
        self.entries.insert(id, Entry { spec, ordinal, generation: 1, window: None, state });
    }

    /// Starts a child in a task of its own, which reports back.
    fn begin(&mut self, spec: &ChildSpec, waiting: Vec<StartReply>, again: bool) -> Starting {
        self.next_birth += 1;
        let birth = self.next_birth;
        let report = Report::Pool { to: self.mailbox.clone(), id: spec.id.clone(), birth };
        let (token, completion) = Token::new(report, Some(self.token.clone()));
        let gift = Birth { token, voice: self.voice.clone(), id: Some(spec.id.clone()) };
        let (start, id, mailbox) = (spec.start.clone(), spec.id.clone(), self.mailbox.clone());
        let end = completion.clone();
        let task = tokio::spawn(async move {
            let begun = start.start(gift).await;
            let outcome = begun.map(|begun| Running::new(birth, begun, end));
            // If nobody listens any more, the drop of the outcome kills the child.
            let _ = mailbox.send(PoolMessage::Started { id, birth, outcome });
        });
        let task = task.abort_handle();
        Starting { birth, task, completion, waiting, again, gone: false }
    }

    /// A start is over. Dropping the outcome of a stale one kills its child.
    async fn started(
        &mut self,
        id: ChildId,
        birth: u64,
        outcome: Result<Running, NotStarted>,
    ) -> ControlFlow<Exit> {
        let Some(entry) = self.entries.get_mut(&id) else { return ControlFlow::Continue(()) };
        let State::Starting(starting) = &mut entry.state else { return ControlFlow::Continue(()) };
        if starting.birth != birth {
            return ControlFlow::Continue(());
        }
        let (gone, again) = (starting.gone, starting.again);
        let waiting = std::mem::take(&mut starting.waiting);
        match outcome {
            Ok(running) => {
                let child = running.leash.child.clone();
                entry.state = State::Up(running);
                self.published.insert(id.clone(), child.clone());
                if let Some(hook) = &entry.spec.on_start {
                    shielded("on_start", || hook(&child));
                }
                let what = match again {
                    true => What::Restarted { child: &child },
                    false => What::Started { child: &child },
                };
                self.voice.say(&id, entry.generation, what);
                answer_started(waiting, &id, &child);
                if gone { self.exited(id, birth).await } else { ControlFlow::Continue(()) }
            }
            Err(NotStarted::Ignored) => {
                self.voice.say(&id, entry.generation, What::Ignored);
                self.entries.remove(&id);
                for reply in waiting {
                    let _ = reply.send(Err(StartChildError::Ignored { id: id.clone() }));
                }
                ControlFlow::Continue(())
            }
            Err(NotStarted::Failed(exit)) => {
                self.voice.say(&id, entry.generation, What::StartFailed { exit: &exit });
                if again {
                    entry.state = State::Restarting { birth, exit };
                    let _ = self.mailbox.send(PoolMessage::Retry { id, birth });
                } else {
                    self.entries.remove(&id);
                    answer_failed(waiting, &id, &exit);
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// A child is gone, unless the news is stale.
    async fn exited(&mut self, id: ChildId, birth: u64) -> ControlFlow<Exit> {
        let Some(entry) = self.entries.get_mut(&id) else { return ControlFlow::Continue(()) };
        match &mut entry.state {
            State::Starting(starting) if starting.birth == birth => starting.gone = true,
            State::Stopping(stopping) if stopping.birth == birth => {
                let exit = match &mut stopping.running {
                    Some(running) => running.exit().await,
                    None => Exit::Killed,
                };
                self.stopped(&id, exit);
            }
            State::Up(running) if running.birth == birth => {
                let exit = running.exit().await;
                let causes = running.causes();
                self.published.remove(&id);
                self.voice.say(&id, entry.generation, What::Exited { exit: &exit, asked: false });
                if strategy::restarts(entry.spec.restart, &exit) {
                    return self.restart(id, exit, causes);
                }
                self.entries.remove(&id);
            }
            State::Starting(_) | State::Stopping(_) | State::Up(_) | State::Restarting { .. } => {}
        }
        ControlFlow::Continue(())
    }

    fn retry(&mut self, id: ChildId, birth: u64) -> ControlFlow<Exit> {
        match self.entries.get(&id).map(|entry| &entry.state) {
            Some(State::Restarting { birth: due, exit }) if *due == birth => {
                let exit = exit.clone();
                self.restart(id, exit, Vec::new())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Starts a child again, or gives it up, or gives the pool up.
    fn restart(&mut self, id: ChildId, exit: Exit, mut causes: Vec<Cause>) -> ControlFlow<Exit> {
        let now = self.clock.now();
        let Some(entry) = self.entries.get_mut(&id) else { return ControlFlow::Continue(()) };
        if let Some(limit) = self.child_intensity {
            let window = entry.window.get_or_insert_with(|| Box::new(Window::new(limit)));
            if window.charge(now) == Charge::Exhausted {
                self.voice.say(&id, entry.generation, What::GivenUp { exit: &exit });
                self.entries.remove(&id);
                return ControlFlow::Continue(());
            }
        }
        if self.window.charge(now) == Charge::Exhausted {
            self.voice.say(&id, entry.generation, What::Escalated { exit: &exit });
            causes.push(Cause { id: id.clone(), exit });
            self.entries.remove(&id);
            self.token.completion().record_causes(causes);
            return ControlFlow::Break(Exit::Shutdown);
        }
        entry.generation += 1;
        let spec = entry.spec.clone();
        let starting = self.begin(&spec, Vec::new(), true);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = State::Starting(starting);
        }
        ControlFlow::Continue(())
    }

    fn terminate_child(&mut self, id: ChildId, reply: TerminateReply) {
        let Some(mut entry) = self.entries.remove(&id) else {
            let _ = reply.send(Err(TerminateChildError::NotFound { id }));
            return;
        };
        let (clock, mailbox, limit) = (self.clock.clone(), self.mailbox.clone(), entry.spec.shutdown);
        let stopping = match entry.state {
            State::Up(running) => {
                self.published.remove(&id);
                let (leash, birth) = (running.leash.clone(), running.birth);
                let completion = leash.completion.clone();
                let stop = async move { leash.stop(limit, &*clock).await };
                watch_stop(stop, mailbox, id.clone(), birth);
                Stopping { birth, completion, running: Some(running), waiting: vec![reply] }
            }
            State::Starting(starting) => {
                starting.task.abort();
                answer_failed(starting.waiting, &id, &Exit::Killed);
                if starting.gone {
                    // Its end was read already, so no news of it will come.
                    let _ = reply.send(Ok(()));
                    return;
                }
                let (birth, completion) = (starting.birth, starting.completion);
                let end = completion.clone();
                let stop = async move { gone_within(&end, KILL_GRACE, &*clock).await };
                watch_stop(stop, mailbox, id.clone(), birth);
                Stopping { birth, completion, running: None, waiting: vec![reply] }
            }
            State::Restarting { .. } => {
                let _ = reply.send(Ok(()));
                return;
            }
            State::Stopping(mut stopping) => {
                stopping.waiting.push(reply);
                stopping
            }
        };
        entry.state = State::Stopping(stopping);
        self.entries.insert(id, entry);
    }

    fn unkillable(&mut self, id: &ChildId, birth: u64) {
        let Some(entry) = self.entries.get(id) else { return };
        if matches!(&entry.state, State::Stopping(stopping) if stopping.birth == birth) {
            self.voice.say(id, entry.generation, What::Unkillable);
            self.stopped(id, Exit::Killed);
        }
    }

    /// A child that was asked to stop has ended.
    fn stopped(&mut self, id: &ChildId, exit: Exit) {
        let Some(entry) = self.entries.remove(id) else { return };
        let State::Stopping(stopping) = entry.state else { return };
        if stopping.running.is_some() {
            self.voice.say(id, entry.generation, What::Exited { exit: &exit, asked: true });
        }
        for reply in stopping.waiting {
            let _ = reply.send(Ok(()));
        }
    }

    fn list(&self) -> Vec<ChildStatus> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.ordinal);
        let status = |(id, entry): (&ChildId, &Entry)| ChildStatus {
            id: id.clone(),
            state: match &entry.state {
                State::Starting(starting) if starting.again => ChildState::Restarting,
                State::Starting(_) => ChildState::Starting,
                State::Up(running) => ChildState::Running(running.leash.child.clone()),
                State::Restarting { .. } => ChildState::Restarting,
                State::Stopping(_) => ChildState::Stopping,
            },
            kind: entry.spec.kind,
            restart: entry.spec.restart,
            generation: entry.generation,
        };
        entries.into_iter().map(status).collect()
    }

    /// Stops or kills all children in parallel and waits until they are gone.
    async fn end_all(&mut self, kill: bool) {
        let ends = self.entries.iter_mut().map(|(id, entry)| {
            self.published.remove(id);
            end(id, entry, kill, &*self.clock, &self.voice)
        });
        futures::future::join_all(ends).await;
        self.entries.clear();
    }
}

/// Refuses further messages and drops those that are queued; a child among them is killed.
fn close(inbox: &mut UnboundedReceiver<PoolMessage>) {
    inbox.close();
    while inbox.try_recv().is_ok() {}
}

/// Ends one child and waits until it is gone.
async fn end(id: &ChildId, entry: &mut Entry, kill: bool, clock: &dyn Clock, voice: &Voice) {
    let running = match &mut entry.state {
        State::Up(running) => running,
        State::Stopping(Stopping { running: Some(running), .. }) => running,
        State::Stopping(Stopping { completion, .. }) => {
            gone_within(completion, KILL_GRACE, clock).await;
            return;
        }
        State::Starting(starting) => {
            starting.task.abort();
            gone_within(&starting.completion, KILL_GRACE, clock).await;
            return;
        }
        State::Restarting { .. } => return,
    };
    let leash = running.leash.clone();
    let gone = match kill {
        true => leash.kill(clock).await,
        false => leash.stop(entry.spec.shutdown, clock).await,
    };
    let exit = if gone {
        running.exit().await
    } else {
        voice.say(id, entry.generation, What::Unkillable);
        Exit::Killed
    };
    voice.say(id, entry.generation, What::Exited { exit: &exit, asked: true });
}

/// Runs a stop beside the pool; the child's token reports success, this reports failure.
fn watch_stop(
    stop: impl Future<Output = bool> + Send + 'static,
    mailbox: UnboundedSender<PoolMessage>,
    id: ChildId,
    birth: u64,
) {
    tokio::spawn(async move {
        if !stop.await {
            let _ = mailbox.send(PoolMessage::Unkillable { id, birth });
        }
    });
}

/// The first who asked gets the child, the others hear that it runs already.
fn answer_started(waiting: Vec<StartReply>, id: &ChildId, child: &ChildRef) {
    for (n, reply) in waiting.into_iter().enumerate() {
        let child = child.clone();
        let _ = reply.send(match n {
            0 => Ok(child),
            _ => Err(StartChildError::AlreadyStarted { id: id.clone(), child }),
        });
    }
}

fn answer_failed(waiting: Vec<StartReply>, id: &ChildId, exit: &Exit) {
    for reply in waiting {
        let _ = reply.send(Err(StartChildError::Failed { id: id.clone(), exit: exit.clone() }));
    }
}
