//! The journal of one attempt: records made during the attempt.

mod log;
mod model_text;
mod output;
mod slot;
mod steps;
pub(crate) mod turn;
mod turn_state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{AttemptProgress, AttemptRef, Event, Output};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::Json;
use ostler_kernel::port::{AttemptLogError, CageRung, JournalError, Position, StreamId};
use ostler_kernel::step_history::StepHistory;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::model_text::ModelText;
use self::output::AttemptOutput;
use self::steps::Steps;
use self::turn_state::TurnState;
use crate::attempts::call_bill::CallBill;
use crate::attempts::executor::Executor;
use crate::base::attempt_end::ModelCalls;
use crate::base::keys::Owner;
use crate::base::lock::lock;
use crate::base::paused_time::{PausedTime, SPACE_RETRY};
use crate::state::call_accounts::Payer;
use crate::state::caller::Caller;
use crate::storage::step_logs::RunStepLog;

tokio::task_local! {
    /// The step that the task is calling; steps begun inside are nested.
    pub(crate) static AROUND: Option<Arc<str>>;
}

/// Shortest time between two progress records; the last token is always recorded.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Identity and authority of the attempt of a journal.
pub(crate) struct Site {
    pub(crate) run: RunId,
    pub(crate) stream: StreamId,
    pub(crate) of: AttemptRef,
    pub(crate) key: Digest,
    pub(crate) heartbeat_ms: Option<u64>,
    /// Highest allowed impact, 0 to 2.
    pub(crate) impact: u8,
    /// The rights of the run.
    pub(crate) caller: Arc<Caller>,
    /// Who pays for calls of models.
    pub(crate) payer: Payer,
    pub(crate) owner: Arc<Owner>,
}

pub(crate) struct AttemptJournal {
    pub(crate) executor: Arc<Executor>,
    pub(crate) site: Site,
    step_log: OnceLock<Arc<RunStepLog>>,
    over: AtomicBool,
    /// A step has an unknown outcome that only a person can settle.
    in_doubt: AtomicBool,
    signs: Notify,
    /// Wakes when a step ends or waits for a run.
    lulls: Notify,
    progress: Mutex<Progress>,
    steps: Mutex<Steps>,
    output: Mutex<Option<Box<AttemptOutput>>>,
    rung: Mutex<Option<CageRung>>,
    refused: Mutex<Option<Box<Output>>>,
    model_text: Mutex<ModelText>,
    turn: Mutex<TurnState>,
    /// Created for the first call of a model.
    bill: OnceLock<CallBill>,
    /// Time without disk space for a result, without a slot, or without a turn.
    pub(crate) waited: Arc<PausedTime>,
}

struct Progress {
    sign: Instant,
    unwritten: Option<Json>,
    written: Option<Instant>,
}

impl AttemptJournal {
    pub(crate) fn new(executor: &Arc<Executor>, site: Site) -> AttemptJournal {
        AttemptJournal {
            executor: Arc::clone(executor),
            site,
            step_log: OnceLock::new(),
            over: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            signs: Notify::new(),
            lulls: Notify::new(),
            progress: Mutex::new(Progress { sign: Instant::now(), unwritten: None, written: None }),
            steps: Mutex::default(),
            output: Mutex::default(),
            rung: Mutex::default(),
            refused: Mutex::default(),
            model_text: Mutex::default(),
            turn: Mutex::default(),
            bill: OnceLock::new(),
            waited: Arc::default(),
        }
    }

    /// Number of the attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.site.of.attempt
    }

    /// The calls of models, the cage and the refused output so far, for the records of the run.
    pub(crate) fn take_model_calls(&self) -> ModelCalls {
        let calls = self.bill.get().map(CallBill::take).unwrap_or_default();
        ModelCalls { rung: lock(&self.rung).take(), refused: lock(&self.refused).take(), ..calls }
    }

    /// Keeps an output that the contract refused, for the records of the run.
    pub(crate) fn keep_refused(&self, output: Output) {
        *lock(&self.refused) = Some(Box::new(output));
    }

    /// The bill of the attempt's calls of models.
    pub(crate) fn bill(&self) -> &CallBill {
        self.bill.get_or_init(|| {
            let (Site { owner, run, payer, of, .. }, executor) = (&self.site, &self.executor);
            CallBill::new(executor, owner, *run, payer.clone(), Some((of.node.clone(), of.attempt)))
        })
    }

    /// Reports an event of a step to the metrics.
    fn tell(&self, event: Telemetry) {
        self.executor.measures.tell(event, None, Some(self.site.run));
    }

    fn step_log(&self) -> &RunStepLog {
        self.step_log.get_or_init(|| self.executor.step_logs.of(self.site.stream))
    }

    pub(crate) fn ask<T>(&self, question: impl FnOnce(&StepHistory) -> T) -> Result<T, AttemptLogError> {
        self.step_log().ask(&self.site.of, question)
    }

    pub(crate) fn append(&self, event: Event) -> Result<Position, AttemptLogError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(AttemptLogError::AttemptEnded);
        }
        self.step_log().append(event)
    }

    /// Appends a record and waits until it is durable; on a full disk it waits for space.
    pub(crate) async fn append_durably(&self, event: Event) -> Result<(), AttemptLogError> {
        let mut waits = None;
        loop {
            let appended = match self.append(event.clone()) {
                Ok(position) => self.executor.journal.durable(position).await.map_err(AttemptLogError::from),
                Err(error) => Err(error),
            };
            match appended {
                Err(AttemptLogError::Journal(JournalError::Full(why)))
                    if !self.executor.journal.status.is_stopping() =>
                {
                    waits.get_or_insert_with(|| self.executor.journal.disk.wait(&why, &self.waited));
                    self.executor.journal.disk.is_missing(&why);
                    self.step_log().read_again();
                    tokio::time::sleep(SPACE_RETRY).await;
                }
                appended => return appended,
            }
        }
    }

    /// Waits for a call while it gives signs of life, and records its progress.
    pub(crate) async fn watch<T>(&self, call: impl Future<Output = T>) -> Result<T, Silent> {
        let mut call = std::pin::pin!(self.lending(call));
        lock(&self.progress).sign = Instant::now();
        if let Poll::Ready(ended) = futures::poll!(&mut call) {
            return Ok(ended);
        }
        loop {
            let (silent, write) = self.due();
            let wake = silent.into_iter().chain(write).min();
            let due = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = &mut call => return Ok(ended),
                () = self.signs.notified() => {}
                () = due => {}
            }
            let now = Instant::now();
            if self.due().1.is_some_and(|at| at <= now) {
                self.write();
            }
            if let (Some(ms), (Some(at), _)) = (self.site.heartbeat_ms, self.due())
                && at <= now
            {
                return Err(Silent { ms });
            }
        }
    }

    /// True if a step's outcome is unknown, now or from a dead process. Recorded, so that a person's order to repeat
    /// applies to that step.
    pub(crate) async fn is_in_doubt(&self) -> bool {
        let attempt = self.site.of.attempt;
        // The logs of a closed run are not cached, so this reads them.
        let peeked = || self.executor.step_logs.peek(self.site.stream);
        let step_log = self.step_log.get().map_or_else(peeked, Arc::clone);
        let in_doubt = step_log.ask(&self.site.of, |notes| {
            let steps = notes.in_doubt(attempt).into_iter();
            steps.map(|(step, asked)| (step.to_owned(), asked)).collect::<Vec<_>>()
        });
        let in_doubt = in_doubt.unwrap_or_default();
        let is_in_doubt = self.in_doubt.load(Ordering::SeqCst) || !in_doubt.is_empty();
        for (step, _) in in_doubt.into_iter().filter(|(_, asked)| !asked) {
            let of = self.site.of.clone();
            if let Err(error) = self.append_durably(Event::StepInDoubt { of, step }).await {
                tracing::warn!(%error, node = %self.site.of.node, "that a step is in doubt is not written down");
            }
        }
        is_in_doubt
    }

    pub(crate) fn sign(&self) {
        lock(&self.progress).sign = Instant::now();
        self.signs.notify_one();
    }

    /// When the attempt counts as dead, and when its progress is to be recorded.
    fn due(&self) -> (Option<Instant>, Option<Instant>) {
        let progress = lock(&self.progress);
        // A time beyond the clock's range never comes.
        let silent = self.site.heartbeat_ms.map(Duration::from_millis);
        // The attempt can do nothing while the disk is full.
        let sign = self.waited.last().map_or(progress.sign, |last| last.max(progress.sign));
        let silent = silent.and_then(|silent| sign.checked_add(silent));
        let write = progress
            .unwritten
            .is_some()
            .then(|| progress.written.map_or(progress.sign, |written| written + PROGRESS_EVERY));
        (silent, write)
    }

    fn write(&self) {
        let Some(token) = lock(&self.progress).unwritten.take() else { return };
        let progress = AttemptProgress { of: self.site.of.clone(), token };
        lock(&self.progress).written = Some(Instant::now());
        if let Err(error) = self.append(Event::AttemptProgress(Box::new(progress))) {
            tracing::warn!(%error, node = %self.site.of.node, "progress is not written down");
        }
    }

    /// Closes the journal after a last progress record; nothing is recorded any more. `done`: the work is done too.
    pub(crate) fn close(&self, done: bool) {
        if done {
            lock(&self.progress).unwritten = None;
        }
        self.write();
        self.over.store(true, Ordering::SeqCst);
        lock(&self.model_text).live = None;
        if let Some(bill) = self.bill.get() {
            bill.turns.return_unused();
        }
        if let Some(mut output) = lock(&self.output).take() {
            let rest = output.finish(self.executor.journal.now());
            output.write(&self.executor.output, self.site.run, rest);
        }
        if let Some(step_log) = self.step_log.get().filter(|_| done) {
            step_log.forget(&self.site.of);
        }
    }
}

pub(crate) struct Late {
    pub(crate) ms: u64,
    /// The run's budget is used up, not the attempt's timeout.
    pub(crate) spent: bool,
}

/// A call without a sign of life for too long.
pub(crate) struct Silent {
    pub(crate) ms: u64,
}

/// Closes the journal of an attempt however the attempt ends.
pub(crate) struct Closing {
    pub(crate) log: Arc<AttemptJournal>,
    pub(crate) done: bool,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.log.close(self.done);
    }
}
