//! The log of a pipeline: the only writer of its streams. One lock covers everything: appended events are visible at
//! once, nothing waits for durability under the lock, and lost or uncounted facts are read from the journal.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::Counter;
use ostler_kernel::event::{Event, PipelineRecord, Published};
use ostler_kernel::id::EventType;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{Pipeline, Topology};
use ostler_kernel::port::{Journal, JournalError, Position, Seq, StreamBatch, StreamId};
use ractor::ActorRef;
use tokio::sync::watch;

use super::recent_events::RecentEvents;
use super::stage::{Gap, PipelineEvent};
use super::stage_runtime::StageRuntime;
use crate::base::clock::Clock;
use crate::base::lock::lock;
use crate::pipelines::error::PipelineError;
use crate::pipelines::runner_message::RunnerMessage;

pub(crate) struct Log {
    pub(crate) topology: Arc<Topology>,
    pub(crate) stream: StreamId,
    pub(crate) journal: Arc<dyn Journal>,
    clock: Clock,
    published: Counter,
    /// Lag of a stage with code here at which publishers wait.
    pub(crate) behind_max: u64,
    pub(crate) hearers: BTreeMap<EventType, Vec<usize>>,
    /// The event that each stage's code is handling; 0: none.
    pub(crate) trying: Vec<AtomicU64>,
    pub(crate) state: Mutex<LogState>,
    pub(crate) changed: watch::Sender<u64>,
    /// The pipeline was removed: the log takes no records, and its followers end.
    closed: watch::Sender<bool>,
}

/// State of the log: a cache of the journal, except for `live`.
pub(crate) struct LogState {
    pub(crate) pipeline: Pipeline,
    pub(crate) records: Seq,
    pub(crate) position: Position,
    pub(crate) tail: RecentEvents,
    pub(crate) live: Vec<StageRuntime>,
    /// Actors to notify when the lock is released.
    pub(crate) woken: Vec<ActorRef<RunnerMessage>>,
    /// Per stage: position beyond the cursor without events for the stage.
    pub(crate) seen: Vec<u64>,
}

/// The locked state. Actors are notified after the lock is released: a notified thread would immediately wait for the
/// lock.
pub(crate) struct Held<'a>(Option<MutexGuard<'a, LogState>>);

impl Deref for Held<'_> {
    type Target = LogState;

    fn deref(&self) -> &LogState {
        self.0.as_ref().expect("it is held until it is dropped")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut LogState {
        self.0.as_mut().expect("it is held until it is dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let woken = std::mem::take(&mut self.woken);
        self.0 = None;
        for actor in woken {
            // An ended actor needs no notification: its successor begins by reading.
            _ = actor.cast(RunnerMessage::Look);
        }
    }
}

#[derive(Default)]
pub(crate) struct Done {
    pub(crate) upto: u64,
    pub(crate) heard: u64,
    pub(crate) state: Option<Json>,
    pub(crate) events: Vec<Published>,
    pub(crate) gap: Option<Gap>,
    /// The event after `upto`, or the end (0), was dead-lettered.
    pub(crate) parked: Option<(u64, String)>,
    pub(crate) ended: bool,
}

/// The reason why the work of a stage was not recorded.
pub(crate) enum NotDone {
    /// The cursor was moved meanwhile.
    Stale,
    Journal(JournalError),
}

impl From<JournalError> for NotDone {
    fn from(error: JournalError) -> NotDone {
        NotDone::Journal(error)
    }
}

pub(crate) struct Place {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) clock: Clock,
    pub(crate) published: Counter,
    pub(crate) behind_max: u64,
}

impl LogState {
    /// Schedules a notification of a stage's actor, unless one is under way.
    pub(crate) fn wake(&mut self, stage: usize) {
        let live = &mut self.live[stage];
        if !live.awake
            && let Some(actor) = &live.actor
        {
            live.awake = true;
            self.woken.push(actor.clone());
        }
    }
}

impl Log {
    pub(crate) fn new(place: Place, topology: Topology, state: LogState) -> Log {
        let mut hearers: BTreeMap<EventType, Vec<usize>> = BTreeMap::new();
        for stage in 0..topology.len() {
            for kind in topology.subscribes(stage) {
                hearers.entry(kind.clone()).or_default().push(stage);
            }
        }
        let Place { journal, clock, published, behind_max } = place;
        Log {
            stream: StreamId::pipeline(topology.id()),
            trying: topology.spec().stages.iter().map(|_| AtomicU64::new(0)).collect(),
            topology: Arc::new(topology),
            journal,
            clock,
            published,
            behind_max,
            hearers,
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            closed: watch::Sender::new(false),
        }
    }

    pub(crate) fn state(&self) -> Held<'_> {
        Held(Some(lock(&self.state)))
    }

    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The number of a stage of a pipeline that is not removed.
    pub(crate) fn stage(&self, name: &str) -> Result<usize, PipelineError> {
        self.check_open()?;
        self.topology.find(name).ok_or_else(|| PipelineError::UnknownStage {
            pipeline: self.topology.id().clone(),
            stage: name.chars().take(80).collect(),
            stages: self.topology.spec().stages.iter().map(|stage| stage.name.clone()).collect(),
        })
    }

    /// # Errors
    ///
    /// The pipeline was removed.
    pub(crate) fn check_open(&self) -> Result<(), PipelineError> {
        match *self.closed.borrow() {
            true => Err(PipelineError::Unknown(self.topology.id().to_string())),
            false => Ok(()),
        }
    }

    /// Closes the log for good, after the record of its removal or the loss of its declaration.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Becomes `true` when the log is closed.
    pub(crate) fn watch_closed(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream.log()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Signals a change. A later watcher reads the state first.
    pub(crate) fn tell(&self) {
        if self.changed.receiver_count() > 0 {
            self.changed.send_modify(|changes| *changes += 1);
        }
    }

    /// Appends all or nothing, applies the records, and notifies stages.
    pub(crate) fn append(
        &self,
        state: &mut LogState,
        events: Vec<Published>,
        mut records: Vec<PipelineRecord>,
    ) -> Result<Position, JournalError> {
        // A handle may outlive its pipeline, and another one of the name may write to the stream.
        if *self.closed.borrow() {
            return Err(JournalError::Refused(format!("pipeline {} was removed", self.topology.id())));
        }
        records.extend(state.pipeline.chunk_records(&events));
        records.extend(state.pipeline.skip_records(&records, |stage| self.seen(state, stage)));
        let (at_ms, head) = (self.clock.now(), state.pipeline.head());
        let mut batches = Vec::with_capacity(2);
        if !events.is_empty() {
            let events = events.iter().cloned().map(Event::Published).collect();
            batches.push(StreamBatch { stream: self.stream.log(), expected: Seq(head), at_ms, events });
        }
        if !records.is_empty() {
            let events = records.iter().cloned().map(|record| Event::Pipeline(Box::new(record))).collect();
            batches.push(StreamBatch { stream: self.stream, expected: state.records, at_ms, events });
        }
        if batches.is_empty() {
            return Ok(state.position);
        }
        state.position = self.journal.append(batches)?;
        state.records.0 += records.len() as u64;
        self.published.increment(events.len() as u64);
        for (event, seq) in events.into_iter().zip(head + 1..) {
            state.pipeline.publish(&event);
            for stage in self.hearers.get(&event.kind).into_iter().flatten() {
                state.live[*stage].behind += 1;
                state.wake(*stage);
            }
            let Published { stage, kind, data } = event;
            state.tail.push(Arc::new(PipelineEvent { seq, at_ms, stage, kind, data }));
        }
        for record in &records {
            state.pipeline.apply(record).expect("what was decided by a standing follows from it");
            if let PipelineRecord::Ended { stage } = record
                && let Some(stage) = self.topology.find(stage.as_str())
            {
                self.topology.downstreams(stage).iter().for_each(|stage| state.wake(*stage));
            }
        }
        Ok(state.position)
    }
}
