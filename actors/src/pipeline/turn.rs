//! What a stage is to do next, and what it did. Whoever records the one is told the other at once, under the same lock; and if that
//! is nothing, of a stage that now has something to do and nobody who does it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_kernel::event::PipelineRecord;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{FailedEvent, Next};
use ostler_kernel::port::{JournalError, Position};
use ractor::ActorRef;

use super::EVENTS_AT_ONCE;
use super::live::Handler;
use super::log::{Done, Log, NotDone, State};
use super::runner::RunnerMessage;
use super::seat::Seat;
use super::stage::{Gap, PipelineEvent};

/// Stands for the end of what a stage hears where an event at hand is noted.
const THE_END: u64 = u64::MAX;

/// Events that somebody else than the actor of a stage deals with at once, at most.
const TAKEN_ON_MAX: usize = 16;

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

impl Turn {
    /// Whether it is little enough for somebody else than the actor of the stage.
    fn is_small(&self) -> bool {
        matches!(self, Turn::Events { more, .. } if more.len() < TAKEN_ON_MAX)
    }
}

/// What is to be done next, and by what.
pub(crate) struct Onward {
    pub(crate) seat: Box<Seat>,
    pub(crate) turn: Turn,
}

impl Log {
    /// An actor takes a stage up.
    ///
    /// # Errors
    ///
    /// That the one before it failed cannot be recorded.
    pub(crate) fn begin(
        &self,
        stage: usize,
        actor: ActorRef<RunnerMessage>,
        handler: Handler,
    ) -> Result<Box<Seat>, JournalError> {
        let mut state = self.state();
        match self.trying[stage].load(Ordering::Relaxed) {
            0 => {}
            at => {
                let seq = if at == THE_END { 0 } else { at };
                self.fail_at(&mut state, stage, seq, "its actor ended while it was at it")?;
                self.trying[stage].store(0, Ordering::Relaxed);
            }
        }
        let after = state.pipeline.stage(stage).cursor;
        let live = &mut state.live[stage];
        live.life += 1;
        live.seats += 1;
        (live.actor, live.awake, live.held) = (Some(actor.clone()), true, false);
        let seat = Box::new(Seat::new(stage, (live.seats, live.life), after, handler, actor));
        let old = live.seat.take();
        drop(state);
        // Its code is dropped without the lock.
        drop(old);
        Ok(seat)
    }

    /// An actor has ended, and nobody is to go on with what it had.
    pub(crate) fn leave(&self, stage: usize, seats: u64) {
        let mut state = self.state();
        let live = &mut state.live[stage];
        let seat = if live.seats == seats { live.seat.take() } else { None };
        drop(state);
        drop(seat);
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
        Ok(self.fail_at(&mut state, seat.stage, seq, reason)?)
    }

    fn fail_at(
        &self,
        state: &mut State,
        stage: usize,
        seq: u64,
        reason: &str,
    ) -> Result<FailedEvent, JournalError> {
        let record = state.pipeline.fail(stage, seq, reason);
        self.append(state, Vec::new(), vec![record], None)?;
        Ok(state.pipeline.stage(stage).failed.clone().expect("that was recorded"))
    }

    /// What a stage failed at last, unless it has got past that.
    pub(crate) fn failed(&self, stage: usize) -> Option<FailedEvent> {
        self.state().pipeline.stage(stage).failed.clone()
    }

    /// The state that a stage kept last.
    pub(super) fn kept(&self, stage: usize) -> Option<Json> {
        self.state().pipeline.stage(stage).state.clone()
    }

    /// What the actor of a stage was woken for, unless somebody has seen to that.
    pub(crate) fn take_up(&self, stage: usize) -> Option<Onward> {
        let mut state = self.state();
        let seat = state.live[stage].seat.take()?;
        let (onward, old) = self.onward(&mut state, seat, None);
        drop(state);
        drop(old);
        onward
    }

    /// What is next for a stage whose seat one has.
    pub(crate) fn next(&self, seat: Box<Seat>) -> Option<Onward> {
        let mut state = self.state();
        let (onward, old) = self.onward(&mut state, seat, None);
        drop(state);
        drop(old);
        onward
    }

    /// Puts a seat back whose actor is to look at it anew.
    pub(crate) fn put_back(&self, seat: Box<Seat>) {
        let mut state = self.state();
        let live = &mut state.live[seat.stage];
        if live.seats == seat.number {
            live.seat = Some(seat);
        } else {
            drop(state);
            drop(seat);
        }
    }

    /// What is next, for this seat or else for the one of `spare`. The other result is a seat that another one took the place
    /// of: its code is to be dropped without the lock.
    fn onward(
        &self,
        state: &mut State,
        mut seat: Box<Seat>,
        spare: Option<usize>,
    ) -> (Option<Onward>, Option<Box<Seat>>) {
        let live = &state.live[seat.stage];
        let mut old = None;
        if live.seats != seat.number {
            old = Some(seat);
        } else {
            if live.life != seat.life {
                seat.life = live.life;
                seat.after = state.pipeline.stage(seat.stage).cursor;
                seat.is_stale = true;
            }
            while let Some(turn) = self.turn(state, seat.stage, seat.after) {
                match turn {
                    Turn::Pass { upto } => self.pass(state, &mut seat, upto),
                    turn => {
                        spare.into_iter().for_each(|spare| state.live[spare].wake());
                        return (Some(Onward { seat, turn }), None);
                    }
                }
            }
            let live = &mut state.live[seat.stage];
            (live.seat, live.awake) = (Some(seat), false);
        }
        (spare.and_then(|spare| self.taken_on(state, spare)), old)
    }

    /// Takes a stage on that only waits, if it is to deal with a few events; else its actor is woken.
    fn taken_on(&self, state: &mut State, stage: usize) -> Option<Onward> {
        let live = &state.live[stage];
        if !live.awake
            && let Some(seat) = &live.seat
            && live.life == seat.life
            && let Some(turn @ Turn::Events { .. }) = self.turn(state, stage, seat.after)
            && turn.is_small()
        {
            let live = &mut state.live[stage];
            live.awake = true;
            return live.seat.take().map(|seat| Onward { seat, turn });
        }
        state.live[stage].wake();
        None
    }

    /// A stage here that only found nothing for it up to a point need not write that down.
    fn pass(&self, state: &mut State, seat: &mut Seat, upto: u64) {
        (state.seen[seat.stage], seat.after) = (upto, upto);
        self.relieve(state, seat.stage);
    }

    /// What is to be done for a stage that has dealt with everything up to `after`; `None`: wait.
    fn turn(&self, state: &mut State, stage: usize, after: u64) -> Option<Turn> {
        match state.pipeline.next(stage, after) {
            Next::Gap { first, last } => Some(Turn::Gap(Gap { first, last })),
            Next::End => Some(Turn::End),
            Next::Wait | Next::Stopped | Next::Over => None,
            Next::Read => {
                if self.topology.downstreams(stage).iter().any(|stage| self.is_crowded(state, *stage)) {
                    state.live[stage].held = true;
                    return None;
                }
                let Some(tail) = state.tail.after(after) else { return Some(Turn::Page) };
                let (mut upto, mut first, mut more) = (after, None, Vec::new());
                for event in tail {
                    upto = event.seq;
                    if !self.topology.hears(stage, &event.kind) {
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
        let told = self.record(&mut state, seat, done, None)?;
        drop(state);
        if told {
            self.tell();
        }
        Ok(())
    }

    /// Records what a stage did, all of it or nothing, and tells what is next. If somebody has moved the cursor meanwhile, what
    /// was done does not count.
    pub(crate) fn commit_and_next(
        &self,
        mut seat: Box<Seat>,
        done: Done,
    ) -> Result<Option<Onward>, (Box<Seat>, JournalError)> {
        let mut state = self.state();
        let mut spare = None;
        let told = match self.record(&mut state, &mut seat, done, Some(&mut spare)) {
            Ok(told) => told,
            Err(NotDone::Stale) => false,
            Err(NotDone::Journal(error)) => return Err((seat, error)),
        };
        let (onward, old) = self.onward(&mut state, seat, spare);
        drop(state);
        drop(old);
        if told {
            self.tell();
        }
        Ok(onward)
    }

    /// Whether there is anything to tell.
    fn record(
        &self,
        state: &mut State,
        seat: &mut Seat,
        done: Done,
        spare: Option<&mut Option<usize>>,
    ) -> Result<bool, NotDone> {
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
            self.pass(state, seat, upto);
            return Ok(false);
        }
        let was_last = upto == state.pipeline.head();
        self.settle(state, stage, done, spare)?;
        seat.after = upto;
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
        spare: Option<&mut Option<usize>>,
    ) -> Result<Position, JournalError> {
        let Done { upto, heard, state: kept, events, parked, ended } = done;
        let name = self.topology.name(stage);
        let mut records = Vec::with_capacity(1);
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
        let position = self.append(state, events, records, spare)?;
        let live = &mut state.live[stage];
        live.behind = live.behind.saturating_sub(counted);
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
        self.append(&mut state, Vec::new(), vec![record], None)?;
        self.recount(&mut state, stage, counted)?;
        drop(state);
        self.tell();
        Ok(())
    }
}
