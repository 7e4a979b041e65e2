//! The log of one attempt: what it notes of itself while it runs.

mod slot;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{
    AttemptProgress, AttemptRef, Event, Failure, Outcome, StepIntent, StepKey, StepResult,
};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::{self, Json};
use ostler_kernel::lineage;
use ostler_kernel::plan::Idempotency;
use ostler_kernel::port::{
    AttemptLog, AttemptLogError, BoxFuture, ChildRunResult, ChildRunSpec, JournalError, Position, StepStart,
    StreamId, TOKEN_BYTES_MAX,
};
use ostler_kernel::step_history::{STEP_RESULT_BYTES_MAX, StepHistory, StepLookup};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::lock::lock;
use crate::services::Services;
use crate::storage::disk_space::{ROOM, Waited};
use crate::storage::results;
use crate::storage::step_logs::RunNotes;

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
pub(crate) struct LiveLog {
    pub(crate) services: Arc<Services>,
    pub(crate) site: Site,
    notes: OnceLock<Arc<RunNotes>>,
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
    pub(crate) waited: Arc<Waited>,
}

/// How far the attempt has come.
struct Progress {
    sign: Instant,
    /// Reported and not written yet.
    unwritten: Option<Json>,
    written: Option<Instant>,
}

/// Steps that are under way.
#[derive(Default)]
struct Steps {
    open: BTreeMap<String, Open>,
    /// Runs whose end is waited for.
    waiting: u32,
    /// The slot was given back for that, and nobody has seen to it since.
    lent: bool,
}

/// A step that is under way.
struct Open {
    key: StepKey,
    acts: bool,
    /// It does nothing but wait for the end of a run that it opened.
    waits: bool,
    /// The step that it is taken in.
    around: Option<Arc<str>>,
}

impl Steps {
    /// Whether a run is waited for, and each step that is under way does nothing but that, or is around one that does.
    fn only_wait(&self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let around = self.around_waiting();
        self.open.iter().all(|(id, open)| open.waits || around.contains(id.as_str()))
    }

    /// Whether a step acts on the world that is under way and does more than that.
    fn any_acts(&self) -> bool {
        let around = self.around_waiting();
        self.open.iter().any(|(id, open)| open.acts && !open.waits && !around.contains(id.as_str()))
    }

    /// The steps around those that wait for a run.
    fn around_waiting(&self) -> BTreeSet<&str> {
        let mut waiting = BTreeSet::new();
        for open in self.open.values().filter(|open| open.waits) {
            let mut around = open.around.as_deref();
            // Whatever is around one that was seen was seen, too.
            while let Some(step) = around.filter(|step| waiting.insert(*step)) {
                around = self.open.get(step).and_then(|open| open.around.as_deref());
            }
        }
        waiting
    }
}

impl LiveLog {
    pub(crate) fn new(services: &Arc<Services>, site: Site) -> LiveLog {
        LiveLog {
            services: Arc::clone(services),
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
        self.services.measures.tell(event, None, Some(self.site.run));
    }

    fn notes(&self) -> &RunNotes {
        self.notes.get_or_init(|| self.services.notes.of(self.site.stream))
    }

    /// Asks the notes of this work.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&StepHistory) -> T) -> Result<T, AttemptLogError> {
        self.notes().ask(&self.services, &self.site.of, question)
    }

    pub(crate) fn append(&self, event: Event) -> Result<Position, AttemptLogError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(AttemptLogError::AttemptEnded);
        }
        self.notes().append(&self.services, event)
    }

    /// Appends, and waits until that is durable; and for room, if there is none.
    pub(crate) async fn append_durably(&self, event: Event) -> Result<(), AttemptLogError> {
        let mut waits = None;
        loop {
            let appended = match self.append(event.clone()) {
                Ok(position) => self.services.journal.durable(position).await.map_err(AttemptLogError::from),
                Err(error) => Err(error),
            };
            match appended {
                Err(AttemptLogError::Journal(JournalError::Full(why))) if !self.services.is_stopping() => {
                    waits.get_or_insert_with(|| self.services.room.wait(&why, &self.waited));
                    self.services.room.is_missing(&why);
                    self.notes().read_again();
                    tokio::time::sleep(ROOM).await;
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
        let peeked = || self.services.notes.peek(self.site.stream);
        let notes = self.notes.get().map_or_else(peeked, Arc::clone);
        let in_doubt = notes.ask(&self.services, &self.site.of, |notes| {
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

/// A step whose beginning or end is not written down yet: unless it begins then, nobody is about it when this is dropped.
struct Opened<'a> {
    log: &'a LiveLog,
    step: Option<&'a str>,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.step {
            self.log.abandon(step);
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
    pub(crate) log: Arc<LiveLog>,
    pub(crate) done: bool,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.log.close(self.done);
    }
}

impl AttemptLog for LiveLog {
    fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
        if let Some(token) = &lock(&self.progress).unwritten {
            return Ok(Some(token.value()));
        }
        self.ask(|notes| notes.token().map(Json::value))
    }

    fn progress(&self, token: Value) -> Result<(), AttemptLogError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(AttemptLogError::AttemptEnded);
        }
        let token = json::canonical(&token)?;
        let bytes = token.as_str().len();
        if bytes > TOKEN_BYTES_MAX {
            return Err(AttemptLogError::LargeToken { bytes });
        }
        let mut progress = lock(&self.progress);
        (progress.sign, progress.unwritten) = (Instant::now(), Some(token));
        drop(progress);
        self.signs.notify_one();
        Ok(())
    }

    fn heartbeat(&self) {
        self.sign();
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        self.site.heartbeat_ms
    }

    fn begin<'a>(
        &'a self,
        step: &'a str,
        key: StepKey,
        acting: Option<Idempotency>,
    ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>> {
        Box::pin(async move {
            let of = &self.site.of;
            if self.over.load(Ordering::SeqCst) {
                return Err(AttemptLogError::AttemptEnded);
            }
            // Of one that is under way nothing is known that counts. It is taken before it is asked what is known of it: who is
            // about it at the same time cannot have finished it in between.
            let around = AROUND.try_get().ok().flatten();
            let open = Open { key: key.clone(), acts: acting.is_some(), waits: false, around };
            match lock(&self.steps).open.entry(step.to_owned()) {
                Entry::Occupied(_) => return Err(AttemptLogError::Busy(step.to_owned())),
                Entry::Vacant(vacant) => drop(vacant.insert(open)),
            }
            let mut opened = Opened { log: self, step: Some(step) };
            self.reclaim().await;
            let recall = |notes: &StepHistory, earlier: &mut dyn Iterator<Item = &StepHistory>| {
                notes.check_room(step)?;
                Ok::<_, AttemptLogError>(notes.lookup(step, &key, of.attempt, earlier)?)
            };
            let recalled = self.notes().ask_all(&self.services, of, recall)??;
            match recalled {
                StepLookup::Done(output) => {
                    drop(opened);
                    self.tell(Telemetry::StepReplayed);
                    Ok(StepStart::Done(results::load(&self.services, &output).await?))
                }
                StepLookup::InDoubt | StepLookup::ChangedByPatch(_) => {
                    drop(opened);
                    // Whatever else ends the attempt before that is written: it ends in doubt.
                    self.in_doubt.store(true, Ordering::SeqCst);
                    let (of, step) = (of.clone(), step.to_owned());
                    self.append_durably(Event::StepInDoubt { of, step: step.clone() }).await?;
                    Err(match recalled {
                        StepLookup::ChangedByPatch(changed) => AttemptLogError::ChangedByPatch(changed),
                        _ => AttemptLogError::InDoubt(step),
                    })
                }
                StepLookup::Call(before) => {
                    let idempotency_key = before.unwrap_or_else(|| lineage::step_key(self.site.key, step));
                    if let Some(idem) = acting {
                        let (of, step) = (of.clone(), step.to_owned());
                        let intent = StepIntent { of, step, key, idem, idempotency_key };
                        self.append_durably(Event::StepIntent(Box::new(intent))).await?;
                    }
                    opened.step = None;
                    Ok(StepStart::Call(idempotency_key))
                }
            }
        })
    }

    fn step_key(&self, step: &str) -> Result<Option<Digest>, AttemptLogError> {
        let key = |notes: &StepHistory, earlier: &mut dyn Iterator<Item = &StepHistory>| {
            notes.idempotency_key(step, earlier)
        };
        self.notes().ask_all(&self.services, &self.site.of, key)
    }

    fn end<'a>(
        &'a self,
        step: &'a str,
        ended: Result<&'a Value, &'a Failure>,
        durable: bool,
    ) -> BoxFuture<'a, Result<(), AttemptLogError>> {
        Box::pin(async move {
            let open = lock(&self.steps).open.get(step).map(|open| (open.key.clone(), open.acts));
            let Some((key, acts)) = open else { return Err(AttemptLogError::AttemptEnded) };
            // What came of it may wait for room: it is under way for as long as that is not written down.
            let _opened = Opened { log: self, step: Some(step) };
            let outcome = match ended {
                Ok(value) => {
                    let most = self.services.limits.result_bytes.min(STEP_RESULT_BYTES_MAX);
                    let kept = results::keep_done(&self.services, value, most, &self.waited).await;
                    let failed = |failure| {
                        self.tell(Telemetry::StepFailed);
                        AttemptLogError::Result { step: step.to_owned(), failure }
                    };
                    Outcome::Ok(kept.map_err(failed)?)
                }
                Err(failure) => {
                    self.tell(Telemetry::StepFailed);
                    // Of one that acted and may have been done, nothing is known still.
                    if !acts || failure.category.is_loss() {
                        return Ok(());
                    }
                    Outcome::Failed(failure.clone())
                }
            };
            let is_done = matches!(outcome, Outcome::Ok(_));
            let (of, step) = (self.site.of.clone(), step.to_owned());
            let result = Event::StepResult(Box::new(StepResult { of, step, key, outcome }));
            match acts || durable {
                true => self.append_durably(result).await?,
                false => drop(self.append(result)?),
            }
            if is_done {
                self.tell(Telemetry::StepCompleted);
            }
            Ok(())
        })
    }

    fn abandon(&self, step: &str) {
        let mut steps = lock(&self.steps);
        steps.open.remove(step);
        if steps.waiting > 0 {
            // It may have been in a task of its own, and what is left may only wait.
            self.signs.notify_one();
        }
        self.lulls.notify_waiters();
    }

    fn spawn<'a>(
        &'a self,
        step: &'a str,
        child: ChildRunSpec,
    ) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>> {
        Box::pin(self.open_child(step, child))
    }
}
