//! The next action of a stage, and the record of its last one. Both happen under one lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_kernel::event::PipelineRecord;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{FailedEvent, NextRead};
use ostler_kernel::port::{JournalError, Position};
use ractor::ActorRef;

use super::log::{Done, LogState, NotDone};
use super::stage::{Gap, PipelineEvent};
use super::stage_consumer::StageConsumer;
use crate::pipelines::batch_limits::EVENTS_AT_ONCE;
use crate::pipelines::log::Log;
use crate::pipelines::runner_message::RunnerMessage;
use crate::pipelines::stage::Handler;

/// The end of the input, as a handled event.
const THE_END: u64 = u64::MAX;

pub(crate) enum NextAction {
    /// Handle the events; then everything up to `upto` is done.
    Events { first: Arc<PipelineEvent>, more: Vec<Arc<PipelineEvent>>, upto: u64 },
    /// No event up to here is for the stage.
    Pass { upto: u64 },
    /// Read the journal: the stage is far behind.
    Page,
    /// Tell the stage of removed events.
    Gap(Gap),
    /// Tell the stage that nothing more comes.
    End,
}

impl Log {
    /// An actor takes over a stage. Returns its consumer, and the event (0: the end) that the code of the last actor
    /// was handling.
    pub(crate) fn begin(
        &self,
        stage: usize,
        actor: ActorRef<RunnerMessage>,
        handler: Handler,
    ) -> (StageConsumer, Option<u64>) {
        let mut state = self.state();
        let noted = match self.trying[stage].swap(0, Ordering::Relaxed) {
            0 => None,
            THE_END => Some(0),
            seq => Some(seq),
        };
        let after = state.pipeline.stage(stage).cursor;
        let live = &mut state.live[stage];
        live.life += 1;
        live.consumers += 1;
        (live.actor, live.awake, live.held) = (Some(actor), true, false);
        (StageConsumer::new(stage, (live.consumers, live.life), after, handler), noted)
    }

    /// Notes the event that the code starts (0: the end) or has finished.
    pub(crate) fn trying(&self, stage: usize, seq: Option<u64>) {
        let noted = seq.map_or(0, |seq| if seq == 0 { THE_END } else { seq });
        self.trying[stage].store(noted, Ordering::Relaxed);
    }

    /// Records a failure of the code at an event (0: the end), and returns the count.
    pub(crate) fn fail(
        &self,
        consumer: &StageConsumer,
        seq: u64,
        reason: &str,
    ) -> Result<FailedEvent, NotDone> {
        let mut state = self.state();
        if state.live[consumer.stage].life != consumer.life {
            return Err(NotDone::Stale);
        }
        let record = state.pipeline.failure_record(consumer.stage, seq, reason);
        self.append(&mut state, Vec::new(), vec![record])?;
        Ok(state.pipeline.stage(consumer.stage).failed.clone().expect("that was recorded"))
    }

    /// The last failure of a stage at its present event.
    pub(crate) fn failed(&self, stage: usize) -> Option<FailedEvent> {
        self.state().pipeline.stage(stage).failed.clone()
    }

    pub(crate) fn kept(&self, stage: usize) -> Option<Json> {
        self.state().pipeline.stage(stage).state.clone()
    }

    /// The next action; `None`: wait for a notification, or another actor has the stage.
    pub(crate) fn next(&self, consumer: &mut StageConsumer) -> Option<NextAction> {
        let mut state = self.state();
        let (turn, relieved) = self.onward(&mut state, consumer);
        drop(state);
        if relieved {
            self.tell();
        }
        turn
    }

    /// The next action, and whether waiting publishers must be told.
    fn onward(&self, state: &mut LogState, consumer: &mut StageConsumer) -> (Option<NextAction>, bool) {
        let (live, cursor) = (&state.live[consumer.stage], state.pipeline.stage(consumer.stage).cursor);
        if live.consumers != consumer.number {
            return (None, false);
        }
        if live.life != consumer.life {
            (consumer.life, consumer.after, consumer.is_stale) = (live.life, cursor, true);
            let failed = state.pipeline.stage(consumer.stage).failed.clone();
            consumer.dead_lettered = failed.filter(FailedEvent::is_exhausted);
        }
        // Records of others may have passed events that were not for this stage.
        consumer.after = consumer.after.max(cursor);
        let mut relieved = false;
        while let Some(turn) = self.turn(state, consumer.stage, consumer.after) {
            match turn {
                NextAction::Pass { upto } => relieved |= self.pass(state, consumer, upto),
                turn => return (Some(turn), relieved),
            }
        }
        state.live[consumer.stage].awake = false;
        (None, relieved)
    }

    /// Passes over events that are not for the stage without a record. Returns whether a publisher waits for it.
    fn pass(&self, state: &mut LogState, consumer: &mut StageConsumer, upto: u64) -> bool {
        let was_crowded = self.is_crowded(state, consumer.stage);
        (state.seen[consumer.stage], consumer.after) = (upto, upto);
        self.relieve(state, consumer.stage);
        was_crowded && !self.is_crowded(state, consumer.stage)
    }

    /// The action of a stage that has done everything up to `after`; `None`: wait.
    fn turn(&self, state: &mut LogState, stage: usize, after: u64) -> Option<NextAction> {
        match state.pipeline.next(stage, after) {
            NextRead::Gap { first, last } => Some(NextAction::Gap(Gap { first, last })),
            NextRead::End => Some(NextAction::End),
            NextRead::Wait | NextRead::Stopped | NextRead::Over => None,
            NextRead::Read => {
                if self.topology.downstreams(stage).iter().any(|stage| self.is_crowded(state, *stage)) {
                    state.live[stage].held = true;
                    return None;
                }
                let Some(tail) = state.tail.after(after) else { return Some(NextAction::Page) };
                let (mut upto, mut first, mut more) = (after, None, Vec::new());
                for event in tail {
                    upto = event.seq;
                    if !self.topology.subscribes_to(stage, &event.kind) {
                    } else if first.is_none() {
                        first = Some(Arc::clone(event));
                    } else {
                        more.push(Arc::clone(event));
                        if more.len() + 1 == EVENTS_AT_ONCE {
                            break;
                        }
                    }
                }
                Some(first.map_or(NextAction::Pass { upto }, |first| NextAction::Events {
                    first,
                    more,
                    upto,
                }))
            }
        }
    }

    /// Records the work of a stage, all or nothing.
    pub(crate) fn commit(&self, consumer: &mut StageConsumer, done: Done) -> Result<(), NotDone> {
        let mut state = self.state();
        let told = self.record(&mut state, consumer, done)?;
        drop(state);
        if told {
            self.tell();
        }
        Ok(())
    }

    /// Records the work of a stage and returns the next action. Work before a moved cursor does not count.
    pub(crate) fn commit_and_next(
        &self,
        consumer: &mut StageConsumer,
        done: Done,
    ) -> Result<Option<NextAction>, JournalError> {
        let mut state = self.state();
        let told = match self.record(&mut state, consumer, done) {
            Ok(told) => told,
            Err(NotDone::Stale) => false,
            Err(NotDone::Journal(error)) => return Err(error),
        };
        let (turn, relieved) = self.onward(&mut state, consumer);
        drop(state);
        if told || relieved {
            self.tell();
        }
        Ok(turn)
    }

    /// True if anything needs a record.
    fn record(
        &self,
        state: &mut LogState,
        consumer: &mut StageConsumer,
        done: Done,
    ) -> Result<bool, NotDone> {
        let stage = consumer.stage;
        if state.live[stage].life != consumer.life {
            return Err(NotDone::Stale);
        }
        let upto = done.upto;
        let is_mere_passing = done.heard == 0
            && done.state.is_none()
            && done.events.is_empty()
            && done.parked.is_none()
            && !done.ended;
        if is_mere_passing {
            return Ok(self.pass(state, consumer, upto));
        }
        let was_last = upto == state.pipeline.head();
        self.settle(state, stage, done)?;
        consumer.after = upto.max(consumer.after);
        if was_last {
            // Its own publications are not for the stage.
            self.pass(state, consumer, state.pipeline.head());
        }
        Ok(true)
    }

    pub(crate) fn settle(
        &self,
        state: &mut LogState,
        stage: usize,
        done: Done,
    ) -> Result<Position, JournalError> {
        let Done { upto, heard, state: kept, events, gap, parked, ended } = done;
        let name = self.topology.name(stage);
        let mut records = Vec::with_capacity(1);
        let mut cursor = state.pipeline.stage(stage).cursor;
        if let Some(Gap { first, last }) = gap {
            records.push(PipelineRecord::Lagged { stage: name.clone(), first, last });
            cursor = last;
        }
        // The cursor never moves back through work: a record of another may have passed events that were not for the
        // stage.
        let upto = upto.max(cursor);
        if upto > cursor || kept.is_some() {
            records.push(PipelineRecord::Acked { stage: name.clone(), upto, state: kept });
        }
        let uncounted = state.live[stage].uncounted;
        let mut counted = match self.place_of(state, stage) {
            place if place >= uncounted => heard,
            _ => self.count(stage, uncounted, upto)?,
        };
        if let Some((seq, reason)) = &parked {
            let record = state.pipeline.dead_letter_record(stage, *seq, reason);
            let passes = matches!(record, PipelineRecord::DeadLettered { stops: false, .. });
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
        if parked.is_some() {
            self.topology.downstreams(stage).iter().for_each(|stage| state.wake(*stage));
        }
        self.relieve(state, stage);
        Ok(position)
    }

    /// Records that a stage was told of a gap.
    pub(crate) fn lag(&self, stage: usize, life: u64, gap: Gap) -> Result<(), NotDone> {
        let head = self.state().pipeline.head();
        let counted = self.count_on(stage, gap.last, head)?;
        let mut state = self.state();
        let is_owed = state.pipeline.missed_gap(stage).is_some_and(|(first, _)| first <= gap.first);
        if state.live[stage].life != life || !is_owed {
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
}
