//! The log of one attempt: what it notes of itself while it runs.

mod log;
mod slot;
mod steps;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{AttemptProgress, AttemptRef, Event};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::Json;
use ostler_kernel::port::{AttemptLogError, JournalError, Position, StreamId};
use ostler_kernel::step_history::StepHistory;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::steps::Steps;
use crate::attempts::executor::Executor;
use crate::base::lock::lock;
use crate::base::paused_time::{PausedTime, SPACE_RETRY};
use crate::storage::step_logs::RunStepLog;

tokio::task_local! {
    /// The step that is being called here: what begins meanwhile is taken in it.
    pub(crate) static AROUND: Option<Arc<str>>;
}

/// Reports of progress are written down no more often than this; the last one always is.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Which attempt a log is of, and what it may do.
pub(crate) struct Site {
    pub(crate) run: RunId,
    /// The stream that it writes to.
    pub(crate) stream: StreamId,
    pub(crate) of: AttemptRef,
    /// What a receiver can recognise a repetition of its work by.
    pub(crate) key: Digest,
    pub(crate) heartbeat_ms: Option<u64>,
    /// What it may do to the world, 0..=2.
    pub(crate) impact: u8,
}

/// The log of an attempt that is under way.
pub(crate) struct AttemptJournal {
    pub(crate) executor: Arc<Executor>,
    pub(crate) site: Site,
    notes: OnceLock<Arc<RunStepLog>>,
    over: AtomicBool,
    /// It met a step that only a person can tell of.
    in_doubt: AtomicBool,
    /// Told of every sign of life.
    signs: Notify,
    /// Told when a step is over, or waits for a run.
    lulls: Notify,
    progress: Mutex<Progress>,
    steps: Mutex<Steps>,
    /// Time in which there was no room for what it or a step of it gave, and in which it had no slot.
    pub(crate) waited: Arc<PausedTime>,
}

/// How far the attempt has come.
struct Progress {
    sign: Instant,
    /// Reported and not written yet.
    unwritten: Option<Json>,
    written: Option<Instant>,
}

impl AttemptJournal {
    pub(crate) fn new(executor: &Arc<Executor>, site: Site) -> AttemptJournal {
        AttemptJournal {
            executor: Arc::clone(executor),
            site,
            notes: OnceLock::new(),
            over: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            signs: Notify::new(),
            lulls: Notify::new(),
            progress: Mutex::new(Progress { sign: Instant::now(), unwritten: None, written: None }),
            steps: Mutex::default(),
            waited: Arc::default(),
        }
    }

    /// Tells something of a step to whoever watches.
    fn tell(&self, event: Telemetry) {
        self.executor.measures.tell(event, None, Some(self.site.run));
    }

    fn notes(&self) -> &RunStepLog {
        self.notes.get_or_init(|| self.executor.step_logs.of(self.site.stream))
    }

    /// Asks the notes of this work.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&StepHistory) -> T) -> Result<T, AttemptLogError> {
        self.notes().ask(&self.site.of, question)
    }

    pub(crate) fn append(&self, event: Event) -> Result<Position, AttemptLogError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(AttemptLogError::AttemptEnded);
        }
        self.notes().append(event)
    }

    /// Appends, and waits until that is durable; and for room, if there is none.
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
                    self.notes().read_again();
                    tokio::time::sleep(SPACE_RETRY).await;
                }
                appended => return appended,
            }
        }
    }

    /// Waits for a call for as long as it gives signs of life; writes down meanwhile how far it has come.
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

    /// Whether it leaves a step of which only a person can tell, now or before its process died. That they are asked about it is
    /// written down: their word that it may be done anew is for that step.
    pub(crate) async fn is_in_doubt(&self) -> bool {
        let attempt = self.site.of.attempt;
        // Who noted nothing here may end after its run was let go of: its notes are not kept for that.
        let peeked = || self.executor.step_logs.peek(self.site.stream);
        let notes = self.notes.get().map_or_else(peeked, Arc::clone);
        let in_doubt = notes.ask(&self.site.of, |notes| {
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

    /// A sign of life.
    pub(crate) fn sign(&self) {
        lock(&self.progress).sign = Instant::now();
        self.signs.notify_one();
    }

    /// When the attempt counts as dead, and when what it reported is to be written.
    fn due(&self) -> (Option<Instant>, Option<Instant>) {
        let progress = lock(&self.progress);
        // What the clock cannot add never comes.
        let silent = self.site.heartbeat_ms.map(Duration::from_millis);
        // While there is no room it can do nothing.
        let sign = self.waited.last().map_or(progress.sign, |last| last.max(progress.sign));
        let silent = silent.and_then(|silent| sign.checked_add(silent));
        let write = progress
            .unwritten
            .is_some()
            .then(|| progress.written.map_or(progress.sign, |written| written + PROGRESS_EVERY));
        (silent, write)
    }

    /// Writes down what was reported last.
    fn write(&self) {
        let Some(token) = lock(&self.progress).unwritten.take() else { return };
        let progress = AttemptProgress { of: self.site.of.clone(), token };
        lock(&self.progress).written = Some(Instant::now());
        if let Err(error) = self.append(Event::AttemptProgress(Box::new(progress))) {
            tracing::warn!(%error, node = %self.site.of.node, "progress is not written down");
        }
    }

    /// The attempt is over: what it reported last is written, and nothing more is taken. `done`: so is its work.
    pub(crate) fn close(&self, done: bool) {
        if done {
            lock(&self.progress).unwritten = None;
        }
        self.write();
        self.over.store(true, Ordering::SeqCst);
        if let Some(notes) = self.notes.get().filter(|_| done) {
            notes.forget(&self.site.of);
        }
    }
}

/// Work that was not done in time.
pub(crate) struct Late {
    pub(crate) ms: u64,
    /// Not its own time is up, but there is no more of the budget of its run.
    pub(crate) spent: bool,
}

/// A call that gave no sign of life for too long.
pub(crate) struct Silent {
    pub(crate) ms: u64,
}

/// Closes the log of an attempt, however that ends.
pub(crate) struct Closing {
    pub(crate) log: Arc<AttemptJournal>,
    pub(crate) done: bool,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.log.close(self.done);
    }
}
