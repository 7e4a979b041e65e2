//! What a stage is to do next, and what it did. Whoever records the one is told the other at once, under the same lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_kernel::event::PipelineRecord;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{FailedEvent, NextRead};
use ostler_kernel::port::{JournalError, Position};
use ractor::ActorRef;

use super::EVENTS_AT_ONCE;
use super::log::{Done, Log, NotDone, State};
use super::runner::RunnerMessage;
use super::stage::{Gap, PipelineEvent};
use super::stage_consumer::Seat;
use super::stage_runtime::Handler;

/// Stands for the end of what a stage hears where an event at hand is noted.
const THE_END: u64 = u64::MAX;

/// What is to be done for a stage.
pub(crate) enum Turn {
    /// Deal with these; then everything up to `upto` is dealt with.
    Events { first: Arc<PipelineEvent>, more: Vec<Arc<PipelineEvent>>, upto: u64 },
    /// None of what there is up to here is for it.
    Pass { upto: u64 },
    /// Read the journal: it is far behind.
    Page,
    /// Hear that these are gone.
    Gap(Gap),
    /// Hear that nothing more comes.
    End,
}

impl Log {
    /// An actor takes a stage up. With its seat comes the event (0: the end) that the code had at hand when the actor before it ended.
    pub(crate) fn begin(
        &self,
        stage: usize,
        actor: ActorRef<RunnerMessage>,
        handler: Handler,
    ) -> (Seat, Option<u64>) {
        let mut state = self.state();
        let noted = match self.trying[stage].swap(0, Ordering::Relaxed) {
            0 => None,
            THE_END => Some(0),
            seq => Some(seq),
        };
        let after = state.pipeline.stage(stage).cursor;
        let live = &mut state.live[stage];
        live.life += 1;
        live.seats += 1;
        (live.actor, live.awake, live.held) = (Some(actor), true, false);
        (Seat::new(stage, (live.seats, live.life), after, handler), noted)
    }

    /// The code of a stage has an event at hand (0: the end), or is through with it.
    pub(crate) fn trying(&self, stage: usize, seq: Option<u64>) {
        let noted = seq.map_or(0, |seq| if seq == 0 { THE_END } else { seq });
        self.trying[stage].store(noted, Ordering::Relaxed);
    }

    /// The code of a stage failed at an event (0: the end): records that, and tells how it stands with the event.
    pub(crate) fn fail(&self, seat: &Seat, seq: u64, reason: &str) -> Result<FailedEvent, NotDone> {
        let mut state = self.state();
        if state.live[seat.stage].life != seat.life {
            return Err(NotDone::Stale);
        }
        let record = state.pipeline.failure_record(seat.stage, seq, reason);
        self.append(&mut state, Vec::new(), vec![record])?;
        Ok(state.pipeline.stage(seat.stage).failed.clone().expect("that was recorded"))
    }

    /// What a stage failed at last, unless it has got past that.
    pub(crate) fn failed(&self, stage: usize) -> Option<FailedEvent> {
        self.state().pipeline.stage(stage).failed.clone()
    }

    /// The state that a stage kept last.
    pub(super) fn kept(&self, stage: usize) -> Option<Json> {
        self.state().pipeline.stage(stage).state.clone()
    }

    /// What is next for a stage; `None`: it waits, and its actor is woken, or another one has its place.
    pub(crate) fn next(&self, seat: &mut Seat) -> Option<Turn> {
        let mut state = self.state();
        let (turn, relieved) = self.onward(&mut state, seat);
        drop(state);
        if relieved {
            self.tell();
        }
        turn
    }

    /// What is next, and whether somebody who waits for it is to hear of how far it has come.
    fn onward(&self, state: &mut State, seat: &mut Seat) -> (Option<Turn>, bool) {
        let (live, cursor) = (&state.live[seat.stage], state.pipeline.stage(seat.stage).cursor);
        if live.seats != seat.number {
            return (None, false);
        }
        if live.life != seat.life {
            (seat.life, seat.after, seat.is_stale) = (live.life, cursor, true);
            let failed = state.pipeline.stage(seat.stage).failed.clone();
            seat.condemned = failed.filter(FailedEvent::is_exhausted);
        }
        // What it had nothing to do with may have been passed by a record of somebody else.
        seat.after = seat.after.max(cursor);
        let mut relieved = false;
        while let Some(turn) = self.turn(state, seat.stage, seat.after) {
            match turn {
                Turn::Pass { upto } => relieved |= self.pass(state, seat, upto),
                turn => return (Some(turn), relieved),
            }
        }
        state.live[seat.stage].awake = false;
        (None, relieved)
    }

    /// A stage here that only found nothing for it up to a point need not write that down. Whether somebody waited for it.
    fn pass(&self, state: &mut State, seat: &mut Seat, upto: u64) -> bool {
        let was_crowded = self.is_crowded(state, seat.stage);
        (state.seen[seat.stage], seat.after) = (upto, upto);
        self.relieve(state, seat.stage);
        was_crowded && !self.is_crowded(state, seat.stage)
    }

    /// What is to be done for a stage that has dealt with everything up to `after`; `None`: wait.
    fn turn(&self, state: &mut State, stage: usize, after: u64) -> Option<Turn> {
        match state.pipeline.next(stage, after) {
            NextRead::Gap { first, last } => Some(Turn::Gap(Gap { first, last })),
            NextRead::End => Some(Turn::End),
            NextRead::Wait | NextRead::Stopped | NextRead::Over => None,
            NextRead::Read => {
                if self.topology.downstreams(stage).iter().any(|stage| self.is_crowded(state, *stage)) {
                    state.live[stage].held = true;
                    return None;
                }
                let Some(tail) = state.tail.after(after) else { return Some(Turn::Page) };
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
                Some(first.map_or(Turn::Pass { upto }, |first| Turn::Events { first, more, upto }))
            }
        }
    }

    /// Records what a stage did, all of it or nothing.
    pub(crate) fn commit(&self, seat: &mut Seat, done: Done) -> Result<(), NotDone> {
        let mut state = self.state();
        let told = self.record(&mut state, seat, done)?;
        drop(state);
        if told {
            self.tell();
        }
        Ok(())
    }

    /// Records what a stage did, all of it or nothing, and tells what is next. If somebody has moved the cursor meanwhile, what
    /// was done does not count.
    pub(crate) fn commit_and_next(&self, seat: &mut Seat, done: Done) -> Result<Option<Turn>, JournalError> {
        let mut state = self.state();
        let told = match self.record(&mut state, seat, done) {
            Ok(told) => told,
            Err(NotDone::Stale) => false,
            Err(NotDone::Journal(error)) => return Err(error),
        };
        let (turn, relieved) = self.onward(&mut state, seat);
        drop(state);
        if told || relieved {
            self.tell();
        }
        Ok(turn)
    }

    /// Whether there is anything to tell.
    fn record(&self, state: &mut State, seat: &mut Seat, done: Done) -> Result<bool, NotDone> {
        let stage = seat.stage;
        if state.live[stage].life != seat.life {
            return Err(NotDone::Stale);
        }
        let upto = done.upto;
        let is_mere_passing = done.heard == 0
            && done.state.is_none()
            && done.events.is_empty()
            && done.parked.is_none()
            && !done.ended;
        if is_mere_passing {
            return Ok(self.pass(state, seat, upto));
        }
        let was_last = upto == state.pipeline.head();
        self.settle(state, stage, done)?;
        seat.after = upto.max(seat.after);
        if was_last {
            // What it published itself is not for it.
            self.pass(state, seat, state.pipeline.head());
        }
        Ok(true)
    }

    pub(super) fn settle(
        &self,
        state: &mut State,
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
        // A cursor never goes back by what a stage did: a record of somebody else may have passed what was not for it.
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

    /// A stage has heard that events are gone: it goes on behind them.
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
