//! The one place that appends to a pipeline, and tells who has to look. Everything happens under one lock, for as long as it takes to
//! append: what is ordered is visible at once, and nobody waits here for the disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metrics::Counter;
use ostler_kernel::event::{Event, PipelineRecord, Published};
use ostler_kernel::id::EventType;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{Next, Pipeline, Topology};
use ostler_kernel::port::{Journal, JournalError, Position, Recorded, Seq, StreamBatch, StreamId};
use ractor::ActorRef;
use tokio::sync::watch;
use tokio::time::Instant;

use super::EVENTS_AT_ONCE;
use super::error::{PipelineError, PublishError};
use super::live::{Begun, Handler, Live, Trouble};
use super::row::{PipelineRow, StageRow};
use super::runner::RunnerMessage;
use super::stage::{Gap, PipelineEvent};
use super::tail::Tail;
use crate::clock::Clock;
use crate::services::lock;
use crate::stream::READ_AT_ONCE;

/// How long publishing waits for stages that are too far behind.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Events that are counted at once, to know how many of them a stage hears.
const COUNTED_MAX: u64 = 8 * READ_AT_ONCE as u64;

/// Stands for the end of what a stage hears where an event at hand is noted.
const THE_END: u64 = u64::MAX;

/// A pipeline that was opened.
pub(crate) struct Log {
    pub(super) topology: Arc<Topology>,
    pub(super) stream: StreamId,
    pub(super) journal: Arc<dyn Journal>,
    clock: Clock,
    published: Counter,
    /// Events that a stage with code in this process may be behind before who publishes has to wait.
    behind_max: u64,
    hearers: BTreeMap<EventType, Vec<usize>>,
    /// The event that the code of each stage has at hand; 0: none.
    trying: Vec<AtomicU64>,
    pub(super) state: Mutex<State>,
    /// Counts what changed, for those who wait.
    changed: watch::Sender<u64>,
}

/// How it stands. Read from the journal, but for `live`.
pub(super) struct State {
    pub(super) pipeline: Pipeline,
    /// Last record of the pipeline's own stream.
    pub(super) records: Seq,
    /// Where the last append stands.
    pub(super) position: Position,
    pub(super) tail: Tail,
    pub(super) live: Vec<Live>,
    /// Up to where each stage has found nothing that it hears, beyond its cursor.
    pub(super) seen: Vec<u64>,
}

/// What an actor is to do with its stage.
pub(crate) enum Turn {
    /// Deal with these; then everything up to `upto` is dealt with.
    Events { events: Vec<Arc<PipelineEvent>>, upto: u64 },
    /// Read the journal: it is far behind.
    Page,
    /// Hear that these are gone.
    Gap(Gap),
    /// Hear that nothing more comes.
    End,
    /// Wait for a message.
    Idle,
    /// Begin anew: somebody moved the cursor.
    Anew,
}

/// What a stage did.
#[derive(Default)]
pub(crate) struct Done {
    /// It has dealt with everything up to here.
    pub(crate) upto: u64,
    /// Events that it heard on the way.
    pub(crate) heard: u64,
    pub(crate) state: Option<Json>,
    pub(crate) events: Vec<Published>,
    /// The event after `upto` was too much, or the end (0).
    pub(crate) parked: Option<(u64, String)>,
    /// It publishes nothing more.
    pub(crate) ended: bool,
}

/// Why what a stage did was not recorded.
pub(crate) enum NotDone {
    /// Somebody moved its cursor meanwhile.
    Stale,
    Journal(JournalError),
}

impl From<JournalError> for NotDone {
    fn from(error: JournalError) -> NotDone {
        NotDone::Journal(error)
    }
}

/// Events that a stage is to hear.
struct Counted {
    /// How many.
    count: u64,
    /// Up to here.
    upto: u64,
    /// Up to here they were too many to count.
    uncounted: u64,
}

/// What a log needs of its system.
pub(super) struct Place {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) clock: Clock,
    pub(super) published: Counter,
    pub(super) behind_max: u64,
}

impl Log {
    pub(super) fn new(place: Place, topology: Topology, state: State) -> Log {
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
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// The place of a stage.
    pub(crate) fn stage(&self, name: &str) -> Result<usize, PipelineError> {
        self.topology.find(name).ok_or_else(|| PipelineError::UnknownStage {
            pipeline: self.topology.id().clone(),
            stage: name.chars().take(80).collect(),
            stages: self.topology.spec().stages.iter().map(|stage| stage.name.clone()).collect(),
        })
    }

    /// Tells of changes from here on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Who begins to watch after this looks at how it stands first, and finds the change there.
    fn tell(&self) {
        if self.changed.receiver_count() > 0 {
            self.changed.send_modify(|changes| *changes += 1);
        }
    }

    /// Appends, all or nothing, and lets it take effect.
    fn append(
        &self,
        state: &mut State,
        events: Vec<Published>,
        mut records: Vec<PipelineRecord>,
    ) -> Result<Position, JournalError> {
        records.extend(state.pipeline.stretches(&events));
        records.extend(state.pipeline.passing(&records, |stage| self.seen(state, stage)));
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
                state.live[*stage].wake();
            }
            let Published { stage, kind, data } = event;
            state.tail.push(Arc::new(PipelineEvent { seq, at_ms, stage, kind, data }));
        }
        for record in &records {
            state.pipeline.apply(record).expect("what was decided by a standing follows from it");
            if let PipelineRecord::Ended { stage } = record
                && let Some(stage) = self.topology.find(stage.as_str())
            {
                self.topology.downstreams(stage).iter().for_each(|stage| state.live[*stage].wake());
            }
        }
        Ok(state.position)
    }

    /// Up to where a stage has found nothing for it among the events that are kept.
    fn seen(&self, state: &State, stage: usize) -> u64 {
        match self.lag_of(state, stage) {
            0 => state.pipeline.head(),
            _ => state.seen[stage],
        }
    }

    /// Publishes events of a stage, all or none. Ordered when it returns, and heard of by others; not durable yet. Waits for stages
    /// that are too far behind, up to [`PATIENCE`].
    pub(crate) async fn publish(
        &self,
        stage: usize,
        events: Vec<Published>,
    ) -> Result<(u64, Position), PublishError> {
        let mut until = None;
        loop {
            let mut changes = until.is_some().then(|| self.changed.subscribe());
            let refused = match self.try_publish(stage, &events) {
                Err(refused @ PublishError::Behind { .. }) => refused,
                published => return published,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if let Some(changes) = &mut changes
                && tokio::time::timeout_at(until, changes.changed()).await.is_err()
            {
                return Err(refused);
            }
        }
    }

    fn try_publish(&self, stage: usize, events: &[Published]) -> Result<(u64, Position), PublishError> {
        let mut state = self.state();
        state.pipeline.check_open(stage)?;
        for hearer in events.iter().filter_map(|event| self.hearers.get(&event.kind)).flatten() {
            if self.is_crowded(&state, *hearer) {
                let behind = self.lag_of(&state, *hearer);
                return Err(PublishError::Behind { stage: self.topology.name(*hearer).clone(), behind });
            }
        }
        let position = self.append(&mut state, events.to_vec(), Vec::new())?;
        let head = state.pipeline.head();
        drop(state);
        self.tell();
        Ok((head, position))
    }

    /// Whether who publishes for a stage has to wait for it.
    fn is_crowded(&self, state: &State, stage: usize) -> bool {
        let live = &state.live[stage];
        live.is_live() && !state.pipeline.stage(stage).stopped && self.lag_of(state, stage) >= self.behind_max
    }

    /// Events that a stage is still to hear; where there are too many to count, those that it may have to hear.
    fn lag_of(&self, state: &State, stage: usize) -> u64 {
        let live = &state.live[stage];
        live.behind + live.uncounted.saturating_sub(self.place_of(state, stage))
    }

    /// Up to where a stage has heard everything.
    fn place_of(&self, state: &State, stage: usize) -> u64 {
        state.pipeline.stage(stage).cursor.max(state.seen[stage])
    }

    /// Lets those go on that waited for a stage.
    fn relieve(&self, state: &mut State, stage: usize) {
        if self.is_crowded(state, stage) {
            return;
        }
        for upstream in self.topology.upstreams(stage) {
            let live = &mut state.live[*upstream];
            if std::mem::take(&mut live.held) {
                live.wake();
            }
        }
    }

    /// An actor takes a stage up.
    pub(crate) fn begin(&self, stage: usize, actor: ActorRef<RunnerMessage>) -> Begun {
        let mut state = self.state();
        let standing = state.pipeline.stage(stage);
        let (cursor, kept) = (standing.cursor, standing.state.clone());
        let live = &mut state.live[stage];
        match self.trying[stage].swap(0, Ordering::Relaxed) {
            0 => {}
            at => {
                let seq = if at == THE_END { 0 } else { at };
                live.fail(seq, "its actor ended while it was at it".to_owned());
            }
        }
        live.life += 1;
        (live.actor, live.awake, live.held) = (Some(actor), true, false);
        Begun { life: live.life, cursor, state: kept }
    }

    /// Where an actor begins anew: after a failure, or because somebody moved the cursor.
    pub(crate) fn again(&self, stage: usize) -> Begun {
        let state = self.state();
        let standing = state.pipeline.stage(stage);
        Begun { life: state.live[stage].life, cursor: standing.cursor, state: standing.state.clone() }
    }

    /// The code of a stage has an event at hand (0: the end), or is through with it.
    pub(crate) fn trying(&self, stage: usize, seq: Option<u64>) {
        let noted = seq.map_or(0, |seq| if seq == 0 { THE_END } else { seq });
        self.trying[stage].store(noted, Ordering::Relaxed);
    }

    /// The code of a stage failed at an event (0: the end).
    pub(crate) fn fail(&self, stage: usize, seq: u64, reason: String) -> Trouble {
        self.state().live[stage].fail(seq, reason)
    }

    /// What a stage fails at.
    pub(crate) fn trouble(&self, stage: usize) -> Option<Trouble> {
        self.state().live[stage].trouble.clone()
    }

    /// What an actor is to do whose stage has dealt with everything up to `after`.
    pub(crate) fn take(&self, stage: usize, life: u64, after: u64) -> Turn {
        let mut state = self.state();
        let state = &mut *state;
        if state.live[stage].life != life {
            return Turn::Anew;
        }
        match state.pipeline.next(stage, after) {
            Next::Gap { first, last } => Turn::Gap(Gap { first, last }),
            Next::End => Turn::End,
            Next::Wait | Next::Stopped | Next::Over => {
                state.live[stage].awake = false;
                Turn::Idle
            }
            Next::Read => {
                if self.topology.downstreams(stage).iter().any(|stage| self.is_crowded(state, *stage)) {
                    let live = &mut state.live[stage];
                    (live.held, live.awake) = (true, false);
                    return Turn::Idle;
                }
                let Some(tail) = state.tail.after(after) else { return Turn::Page };
                let (mut upto, mut events) = (after, Vec::new());
                for event in tail {
                    upto = event.seq;
                    if self.topology.hears(stage, &event.kind) {
                        events.push(Arc::clone(event));
                        if events.len() == EVENTS_AT_ONCE {
                            break;
                        }
                    }
                }
                Turn::Events { events, upto }
            }
        }
    }

    /// Events after `after`, from the journal.
    pub(crate) fn read(&self, after: u64, limit: usize) -> Result<Vec<PipelineEvent>, JournalError> {
        let records = self.journal.read(self.stream.log(), Seq(after), limit)?;
        records.into_iter().map(event_of).collect()
    }

    /// A page of the log after `after`: what of it a stage hears, and up to where it goes.
    pub(crate) fn page(
        &self,
        stage: usize,
        after: u64,
    ) -> Result<(Vec<Arc<PipelineEvent>>, u64), JournalError> {
        let events = self.read(after, READ_AT_ONCE)?;
        let upto = events.last().map_or(after, |event| event.seq);
        let heard = events.into_iter().filter(|event| self.topology.hears(stage, &event.kind));
        Ok((heard.map(Arc::new).collect(), upto))
    }

    /// How many events that a stage hears come after `after`, up to `upto`.
    pub(super) fn count(&self, stage: usize, after: u64, upto: u64) -> Result<u64, JournalError> {
        let (mut at, mut count) = (after, 0);
        while at < upto {
            let page = self.read(at, READ_AT_ONCE)?;
            let Some(last) = page.last() else { break };
            at = last.seq;
            let heard =
                page.iter().filter(|event| event.seq <= upto && self.topology.hears(stage, &event.kind));
            count += heard.count() as u64;
        }
        Ok(count)
    }

    /// Records what a stage did, all of it or nothing.
    pub(crate) fn commit(&self, stage: usize, life: u64, done: Done) -> Result<Position, NotDone> {
        let mut state = self.state();
        if state.live[stage].life != life {
            return Err(NotDone::Stale);
        }
        // A stage here that only found nothing for it need not write that down.
        let is_mere_passing = done.heard == 0
            && done.state.is_none()
            && done.events.is_empty()
            && done.parked.is_none()
            && !done.ended;
        if is_mere_passing {
            state.seen[stage] = done.upto;
            self.relieve(&mut state, stage);
            return Ok(state.position);
        }
        let position = self.settle(&mut state, stage, done)?;
        drop(state);
        self.tell();
        Ok(position)
    }

    fn settle(&self, state: &mut State, stage: usize, done: Done) -> Result<Position, JournalError> {
        let Done { upto, heard, state: kept, events, parked, ended } = done;
        let name = self.topology.name(stage);
        let mut records = Vec::new();
        if upto > state.pipeline.stage(stage).cursor || kept.is_some() {
            records.push(PipelineRecord::Acked { stage: name.clone(), upto, state: kept });
        }
        let uncounted = state.live[stage].uncounted;
        let mut counted = match self.place_of(state, stage) {
            place if place >= uncounted => heard,
            _ => self.count(stage, uncounted, upto)?,
        };
        if let Some((seq, reason)) = &parked {
            let record = state.pipeline.park(stage, *seq, reason);
            let passes = matches!(record, PipelineRecord::Parked { stops: false, .. });
            counted += u64::from(passes && *seq > uncounted);
            tracing::error!(pipeline = %self.topology.id(), stage = %name, seq, reason, "an event is parked");
            records.push(record);
        }
        if ended {
            records.push(PipelineRecord::Ended { stage: name.clone() });
        }
        let position = self.append(state, events, records)?;
        let live = &mut state.live[stage];
        live.behind = live.behind.saturating_sub(counted);
        live.trouble = live.trouble.take().filter(|trouble| parked.is_none() && trouble.seq > upto);
        if parked.is_some() {
            self.topology.downstreams(stage).iter().for_each(|stage| state.live[*stage].wake());
        }
        self.relieve(state, stage);
        Ok(position)
    }

    /// A stage has heard that events are gone: it goes on behind them.
    pub(crate) fn lag(&self, stage: usize, life: u64, gap: Gap) -> Result<(), NotDone> {
        let counted = self.count_on(stage, gap.last)?;
        let mut state = self.state();
        if state.live[stage].life != life {
            return Err(NotDone::Stale);
        }
        let Gap { first, last } = gap;
        let record = PipelineRecord::Lagged { stage: self.topology.name(stage).clone(), first, last };
        self.append(&mut state, Vec::new(), vec![record])?;
        self.recount(&mut state, stage, counted)?;
        drop(state);
        self.tell();
        Ok(())
    }

    /// Counts the events that a stage hears after `after`, unless there are too many. Without the lock.
    fn count_on(&self, stage: usize, after: u64) -> Result<Counted, JournalError> {
        let upto = self.state().pipeline.head();
        Ok(match upto.saturating_sub(after) {
            few @ 0..=COUNTED_MAX => Counted {
                count: if few > 0 { self.count(stage, after, upto)? } else { 0 },
                upto,
                uncounted: 0,
            },
            _ => Counted { count: 0, upto, uncounted: upto },
        })
    }

    /// Counts what came since, and lets those go on that waited.
    fn recount(&self, state: &mut State, stage: usize, counted: Counted) -> Result<(), JournalError> {
        let Counted { count, upto, uncounted } = counted;
        let since = self.count(stage, upto, state.pipeline.head())?;
        let live = &mut state.live[stage];
        (live.behind, live.uncounted) = (count + since, uncounted);
        self.relieve(state, stage);
        Ok(())
    }

    /// Moves the cursor of a stage: the next event it hears is the first one after `after`.
    pub(crate) fn move_to(
        &self,
        stage: usize,
        after: u64,
        keeps_state: bool,
    ) -> Result<Position, PipelineError> {
        let pipeline = || self.topology.id().clone();
        let name = self.topology.name(stage).clone();
        if self.topology.is_source(stage) {
            return Err(PipelineError::Source(name));
        }
        let (head, oldest) = {
            let state = self.state();
            (state.pipeline.head(), state.pipeline.oldest())
        };
        if after > head {
            let seq = after.saturating_add(1);
            return Err(PipelineError::Beyond { pipeline: pipeline(), seq, head });
        }
        if after + 1 < oldest {
            return Err(PipelineError::Gone { pipeline: pipeline(), seq: after + 1, oldest });
        }
        let counted = self.count_on(stage, after)?;
        let mut state = self.state();
        let record = PipelineRecord::Moved { stage: name, after, keeps_state };
        let position = self.append(&mut state, Vec::new(), vec![record])?;
        state.seen[stage] = 0;
        self.begin_anew(&mut state, stage);
        self.recount(&mut state, stage, counted)?;
        drop(state);
        self.tell();
        Ok(position)
    }

    fn begin_anew(&self, state: &mut State, stage: usize) {
        let live = &mut state.live[stage];
        live.life += 1;
        (live.trouble, live.down) = (None, None);
        live.wake();
    }

    /// Lets a stage go on that had stopped, without the event it stopped at; or one whose actor failed too often.
    pub(crate) fn release(&self, stage: usize) -> Result<Position, PipelineError> {
        let mut state = self.state();
        let standing = state.pipeline.stage(stage);
        let stopped_at = standing.parked.back().map_or(0, |parked| parked.seq);
        let name = self.topology.name(stage).clone();
        let mut position = state.position;
        if standing.stopped {
            let record = PipelineRecord::Released { stage: name };
            position = self.append(&mut state, Vec::new(), vec![record])?;
            let live = &mut state.live[stage];
            live.behind = live.behind.saturating_sub(u64::from(stopped_at > live.uncounted));
            self.topology.downstreams(stage).iter().for_each(|stage| state.live[*stage].wake());
        } else if state.live[stage].down.is_none() {
            return Err(PipelineError::NotStopped(name));
        }
        self.begin_anew(&mut state, stage);
        drop(state);
        self.tell();
        Ok(position)
    }

    /// A stage that hears nothing, or is dealt with elsewhere and has heard everything, publishes nothing more.
    pub(crate) fn end(&self, stage: usize) -> Result<Position, PipelineError> {
        let mut state = self.state();
        let standing = state.pipeline.stage(stage);
        if standing.ended {
            return Ok(state.position);
        }
        let name = self.topology.name(stage).clone();
        if !self.topology.is_source(stage) {
            if state.live[stage].is_live() {
                return Err(PipelineError::Attached(name));
            }
            if self.lag_of(&state, stage) > 0 || !state.pipeline.is_last(stage) {
                return Err(PipelineError::NotThrough(name));
            }
        }
        let position = self.append(&mut state, Vec::new(), vec![PipelineRecord::Ended { stage: name }])?;
        drop(state);
        self.tell();
        Ok(position)
    }

    /// Somebody elsewhere has dealt with what a stage heard after `after`.
    pub(crate) fn ack(&self, stage: usize, after: u64, done: Done) -> Result<Position, PipelineError> {
        let name = || self.topology.name(stage).clone();
        if self.topology.is_source(stage) {
            return Err(PipelineError::Source(name()));
        }
        let heard = self.count(stage, after, done.upto)?;
        let mut state = self.state();
        let standing = state.pipeline.stage(stage);
        if state.live[stage].is_live() {
            return Err(PipelineError::Attached(name()));
        }
        if standing.cursor != after {
            return Err(PipelineError::Moved { stage: name(), cursor: standing.cursor, expected: after });
        }
        let head = state.pipeline.head();
        if done.upto > head || done.upto < after {
            let pipeline = self.topology.id().clone();
            return Err(PipelineError::Beyond { pipeline, seq: done.upto, head });
        }
        if !done.events.is_empty() {
            state.pipeline.check_open(stage)?;
        }
        let position = self.settle(&mut state, stage, Done { heard, ..done })?;
        drop(state);
        self.tell();
        Ok(position)
    }

    /// The cursor of a stage, its state, and where its last record stands; events that were gone before it came to them are
    /// recorded as that.
    pub(crate) fn cursor(&self, stage: usize) -> Result<(Begun, Option<Gap>), PipelineError> {
        let gap = {
            let state = self.state();
            match state.pipeline.next(stage, state.pipeline.stage(stage).cursor) {
                Next::Gap { first, last } => Some((Gap { first, last }, state.live[stage].life)),
                _ => None,
            }
        };
        let told = match gap {
            Some((gap, life)) => match self.lag(stage, life, gap) {
                Ok(()) => Some(gap),
                Err(NotDone::Stale) => None,
                Err(NotDone::Journal(error)) => return Err(error.into()),
            },
            None => None,
        };
        Ok((self.again(stage), told))
    }

    /// A stage has code in this process from here on.
    pub(super) fn attach(&self, stage: usize, handler: Handler) -> Result<(), PipelineError> {
        let name = self.topology.name(stage).clone();
        if self.topology.is_source(stage) {
            return Err(PipelineError::Source(name));
        }
        let live = &mut self.state().live[stage];
        if live.handler.is_some() {
            return Err(PipelineError::Attached(name));
        }
        live.handler = Some(handler);
        Ok(())
    }

    /// The code of a stage, unless its actor failed too often.
    pub(crate) fn handler(&self, stage: usize) -> Option<Handler> {
        let state = self.state();
        let live = &state.live[stage];
        live.handler.clone().filter(|_| live.down.is_none())
    }

    /// Whether nothing more comes for a stage than what is in the log.
    pub(super) fn is_last(&self, stage: usize) -> bool {
        self.state().pipeline.is_last(stage)
    }

    /// The stream of its events.
    pub(super) fn stream(&self) -> StreamId {
        self.stream.log()
    }

    /// The actor of a stage failed too often.
    pub(crate) fn down(&self, stage: usize, reason: String) {
        let mut state = self.state();
        let live = &mut state.live[stage];
        (live.down, live.actor) = (Some(reason), None);
        self.relieve(&mut state, stage);
        drop(state);
        self.tell();
    }

    /// Whether every stage has ended; or which one does not go on by itself, and why.
    pub(crate) fn is_over(&self) -> Result<bool, (String, String)> {
        let state = self.state();
        for stage in 0..self.topology.len() {
            let row = self.stage_row(&state, stage);
            if let Some(reason) = row.reason {
                return Err((row.stage.to_string(), reason));
            }
        }
        Ok((0..self.topology.len()).all(|stage| state.pipeline.stage(stage).ended))
    }

    /// Where what is known here stands in the journal.
    pub(crate) fn position(&self) -> Position {
        self.state().position
    }

    /// How it stands.
    pub(crate) fn row(&self) -> PipelineRow {
        let state = self.state();
        PipelineRow {
            pipeline: self.topology.id().clone(),
            head: state.pipeline.head(),
            oldest: state.pipeline.oldest(),
            bytes: state.pipeline.bytes(),
            keep: self.topology.keep(),
            stages: (0..self.topology.len()).map(|stage| self.stage_row(&state, stage)).collect(),
        }
    }

    fn stage_row(&self, state: &State, stage: usize) -> StageRow {
        let (standing, live) = (state.pipeline.stage(stage), &state.live[stage]);
        let parked_at = || standing.parked.back().map(|parked| parked.reason.clone());
        let (word, reason) = match &live.down {
            _ if standing.ended => ("ended", None),
            _ if standing.stopped => ("stopped", parked_at().or_else(|| Some(String::new()))),
            Some(reason) => ("down", Some(reason.clone())),
            None if self.topology.is_source(stage) => ("source", None),
            None if live.is_live() => ("live", None),
            None => ("external", None),
        };
        StageRow {
            stage: self.topology.name(stage).clone(),
            publishes: self.topology.publishes(stage).iter().cloned().collect(),
            subscribes: self.topology.subscribes(stage).iter().cloned().collect(),
            state: word,
            reason,
            cursor: if self.topology.is_source(stage) { 0 } else { standing.cursor },
            lag: self.lag_of(state, stage),
            missed: standing.missed,
            gap: state.pipeline.owed(stage).map(|(first, last)| Gap { first, last }),
            parked: standing.parked.iter().cloned().collect(),
            parked_total: standing.parked_total,
        }
    }
}

/// The event that a record of a log is.
pub(crate) fn event_of(record: Recorded) -> Result<PipelineEvent, JournalError> {
    match record.event {
        Event::Published(Published { stage, kind, data }) => {
            Ok(PipelineEvent { seq: record.seq.0, at_ms: record.at_ms, stage, kind, data })
        }
        _ => Err(JournalError::Damaged {
            place: format!("record {} of a pipeline's log", record.seq.0),
            what: "it is no event".to_owned(),
        }),
    }
}
