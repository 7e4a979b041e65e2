//! Baseline of a step without work: two bare actors, three casts and a task.

use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

/// Requests slots, starts tasks and counts their ends: an agent without plan, journal and gate.
struct Worker;

enum WorkerMessage {
    /// Runs `steps` steps, `at_once` concurrently, and reports the end.
    Begin {
        steps: usize,
        at_once: usize,
        done: oneshot::Sender<()>,
    },
    Granted,
    Ended,
}

struct Steps {
    desk: ActorRef<DeskMessage>,
    to_start: usize,
    to_end: usize,
    done: Option<oneshot::Sender<()>>,
}

/// Grants every slot immediately: a scheduler without a queue.
struct Desk;

struct DeskMessage(ActorRef<WorkerMessage>);

impl Actor for Desk {
    type Msg = DeskMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<DeskMessage>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<DeskMessage>,
        DeskMessage(worker): DeskMessage,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(worker.cast(WorkerMessage::Granted)?)
    }
}

impl Actor for Worker {
    type Msg = WorkerMessage;
    type State = Steps;
    type Arguments = ActorRef<DeskMessage>;

    async fn pre_start(
        &self,
        _: ActorRef<WorkerMessage>,
        desk: ActorRef<DeskMessage>,
    ) -> Result<Steps, ActorProcessingErr> {
        Ok(Steps { desk, to_start: 0, to_end: 0, done: None })
    }

    async fn handle(
        &self,
        me: ActorRef<WorkerMessage>,
        message: WorkerMessage,
        steps: &mut Steps,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WorkerMessage::Begin { steps: all, at_once, done } => {
                *steps = Steps {
                    desk: steps.desk.clone(),
                    to_start: all - at_once,
                    to_end: all,
                    done: Some(done),
                };
                for _ in 0..at_once {
                    steps.desk.cast(DeskMessage(me.clone()))?;
                }
            }
            WorkerMessage::Granted => {
                tokio::spawn(async move { me.cast(WorkerMessage::Ended) });
            }
            WorkerMessage::Ended => {
                steps.to_end -= 1;
                if steps.to_start > 0 {
                    steps.to_start -= 1;
                    steps.desk.cast(DeskMessage(me))?;
                } else if steps.to_end == 0
                    && let Some(done) = steps.done.take()
                {
                    let _ = done.send(());
                }
            }
        }
        Ok(())
    }
}

/// Both actors.
pub(crate) struct Bare {
    desk: ActorRef<DeskMessage>,
    worker: ActorRef<WorkerMessage>,
}

impl Bare {
    pub(crate) async fn start() -> Bare {
        let (desk, _) = Actor::spawn(None, Desk, ()).await.unwrap();
        let (worker, _) = Actor::spawn(None, Worker, desk.clone()).await.unwrap();
        Bare { desk, worker }
    }

    /// Time for `steps` steps, `at_once` concurrently.
    pub(crate) async fn steps(&self, steps: usize, at_once: usize) -> Duration {
        let (done, ended) = oneshot::channel();
        let begun = Instant::now();
        self.worker.cast(WorkerMessage::Begin { steps, at_once, done }).unwrap();
        ended.await.unwrap();
        begun.elapsed()
    }

    pub(crate) fn stop(self) {
        self.worker.stop(None);
        self.desk.stop(None);
    }
}
