//! The actor of a stage: takes its seat, lets the code of the stage deal with events, and records what came of it.
//!
//! When it has nothing more to do and what it recorded is for a stage that only waits, it deals with that one as well, instead of
//! waking its actor: an event comes through a chain of idle stages without a hop. What waits, fails or takes long there is
//! left to the actor of that stage.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::pipeline::FailedEvent;
use ostler_kernel::port::JournalError;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::live::Handler;
use super::log::{Done, Log, NotDone};
use super::seat::{Ended, Seat, Work};
use super::stage::{AnyStage, Doing, Gap, Outbox};
use super::turn::{Onward, Turn};
use crate::services::Services;

/// How long a stage waits before it tries an event once more.
const BACK_OFF: Duration = Duration::from_millis(20);

/// How long a stage waits before it looks whether there is room on the disk again.
const FULL: Duration = Duration::from_secs(1);

/// Turns before it listens whether it is to stop.
const TURNS_AT_ONCE: usize = 8;

pub(crate) enum RunnerMessage {
    /// There may be something to do.
    Look,
    /// Somebody else has begun, and leaves the rest to it.
    GoOn(Box<Work>, Doing),
    /// Somebody else has dealt with something for it, and could not record that.
    Failed(Box<Seat>, JournalError),
}

impl std::fmt::Debug for RunnerMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RunnerMessage::Look => "Look",
            RunnerMessage::GoOn(..) => "GoOn",
            RunnerMessage::Failed(..) => "Failed",
        })
    }
}

#[derive(Clone)]
pub(crate) struct RunnerArguments {
    pub(crate) services: Arc<Services>,
    pub(crate) log: Arc<Log>,
    pub(crate) stage: usize,
    pub(crate) handler: Handler,
}

pub(crate) struct Runner;

pub(crate) struct RunnerState {
    arguments: RunnerArguments,
    /// The number of its seat.
    number: u64,
}

/// What could not be recorded, and the seat of whom.
type NotRecorded = (Box<Seat>, JournalError);

impl Actor for Runner {
    type Msg = RunnerMessage;
    type State = RunnerState;
    type Arguments = RunnerArguments;

    async fn pre_start(
        &self,
        me: ActorRef<RunnerMessage>,
        arguments: RunnerArguments,
    ) -> Result<RunnerState, ActorProcessingErr> {
        let RunnerArguments { log, stage, handler, .. } = &arguments;
        let mut seat = log.begin(*stage, me.clone(), handler.clone())?;
        let number = seat.number;
        if let Some(failed) = log.failed(*stage).filter(FailedEvent::is_too_much) {
            let done = parked(&seat, failed);
            match log.commit(&mut seat, done) {
                Ok(()) | Err(NotDone::Stale) => seat.begin_anew(),
                Err(NotDone::Journal(error)) => return Err(error.into()),
            }
        }
        log.put_back(seat);
        me.cast(RunnerMessage::Look)?;
        Ok(RunnerState { arguments, number })
    }

    async fn handle(
        &self,
        me: ActorRef<RunnerMessage>,
        message: RunnerMessage,
        state: &mut RunnerState,
    ) -> Result<(), ActorProcessingErr> {
        let this = &state.arguments;
        if this.services.is_stopping() {
            return Ok(());
        }
        let begun = match message {
            RunnerMessage::Look => Ok(this.log.take_up(this.stage)),
            RunnerMessage::GoOn(work, doing) => this.deal(*work, Some(doing)).await,
            RunnerMessage::Failed(seat, error) => Err((seat, error)),
        };
        let mut turns = 0;
        let mut next = this.or_wait(begun).await?;
        while let Some(Onward { seat, turn }) = next {
            if this.services.is_stopping() {
                return Ok(());
            }
            if turns == TURNS_AT_ONCE && seat.stage == this.stage {
                this.log.put_back(seat);
                return Ok(me.cast(RunnerMessage::Look)?);
            }
            turns += usize::from(seat.stage == this.stage);
            let turned = this.turn(seat, turn).await;
            next = this.or_wait(turned).await?;
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<RunnerMessage>,
        state: &mut RunnerState,
    ) -> Result<(), ActorProcessingErr> {
        state.arguments.log.leave(state.arguments.stage, state.number);
        Ok(())
    }
}

impl RunnerArguments {
    async fn turn(&self, seat: Box<Seat>, turn: Turn) -> Result<Option<Onward>, NotRecorded> {
        match turn {
            Turn::Events { first, more, upto } => {
                self.deal(Work::new(seat, Some(first), more, upto), None).await
            }
            Turn::Pass { upto } => self.deal(Work::new(seat, None, Vec::new(), upto), None).await,
            Turn::Page => match self.log.page(seat.stage, seat.after) {
                Ok((events, upto)) => self.deal(Work::new(seat, None, events, upto), None).await,
                Err(error) => Err((seat, error)),
            },
            Turn::Gap(gap) => self.lag(seat, gap).await,
            Turn::End => self.end(seat).await,
        }
    }

    /// Where nothing was recorded for want of room, it begins where its records end, when there is room.
    async fn or_wait(
        &self,
        turned: Result<Option<Onward>, NotRecorded>,
    ) -> Result<Option<Onward>, ActorProcessingErr> {
        match turned {
            Ok(next) => Ok(next),
            Err((seat, error)) if seat.stage != self.stage => {
                // If its actor is gone, the next one begins where its records end.
                let _ = seat.actor.clone().cast(RunnerMessage::Failed(seat, error));
                Ok(None)
            }
            Err((mut seat, JournalError::Full(why))) => {
                tracing::warn!(%why, "a stage waits for room on the disk");
                seat.begin_anew();
                tokio::time::sleep(FULL).await;
                Ok(self.log.next(seat))
            }
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Deals with events, which are all that a stage hears up to a point, and records that; or with some of them, if that takes
    /// long.
    async fn deal(&self, mut work: Work, mut begun: Option<Doing>) -> Result<Option<Onward>, NotRecorded> {
        let is_mine = work.seat.stage == self.stage;
        while let Some(doing) = begun.take().or_else(|| work.begin(&self.log)) {
            if !is_mine {
                if let Err(doing) = work.poll(&self.log, doing) {
                    let _ = work.seat.actor.clone().cast(RunnerMessage::GoOn(Box::new(work), doing));
                    return Ok(None);
                }
            } else if let Err(reason) = work.took(&self.log, doing.await) {
                return self.failed(work, reason).await;
            }
            if let Some(done) = work.due() {
                match self.log.commit(&mut work.seat, done) {
                    Ok(()) if self.services.is_stopping() => return Ok(None),
                    Ok(()) => {}
                    Err(NotDone::Stale) => return Ok(self.log.next(work.seat)),
                    Err(NotDone::Journal(error)) => return Err((work.seat, error)),
                }
            }
        }
        let (seat, done) = work.all();
        let stage = seat.stage;
        Ok(match self.log.commit_and_next(seat, done)? {
            // It has more to do than could be seen before: that is for its actor.
            Some(Onward { seat, .. }) if !is_mine && seat.stage == stage => {
                let actor = seat.actor.clone();
                self.log.put_back(seat);
                let _ = actor.cast(RunnerMessage::Look);
                None
            }
            next => next,
        })
    }

    /// The code failed at an event: it is made anew and tries again, or the event is parked.
    async fn failed(&self, mut work: Work, reason: String) -> Result<Option<Onward>, NotRecorded> {
        let done = work.so_far();
        if done.heard > 0 {
            match self.log.commit(&mut work.seat, done) {
                Ok(()) => {}
                Err(NotDone::Stale) => return Ok(self.log.next(work.seat)),
                Err(NotDone::Journal(error)) => return Err((work.seat, error)),
            }
        }
        let seq = work.at();
        self.failed_at(work.seat, seq, reason).await
    }

    async fn failed_at(
        &self,
        mut seat: Box<Seat>,
        seq: u64,
        reason: String,
    ) -> Result<Option<Onward>, NotRecorded> {
        seat.fail();
        let failed = match self.log.fail(&seat, seq, &reason) {
            Ok(failed) => failed,
            Err(NotDone::Stale) => return Ok(self.log.next(seat)),
            Err(NotDone::Journal(error)) => return Err((seat, error)),
        };
        if failed.is_too_much() {
            let done = parked(&seat, failed);
            return match self.log.commit(&mut seat, done) {
                // It goes on behind the event, or waits.
                Ok(()) | Err(NotDone::Stale) => {
                    seat.begin_anew();
                    Ok(self.log.next(seat))
                }
                Err(NotDone::Journal(error)) => Err((seat, error)),
            };
        }
        tokio::time::sleep(BACK_OFF * failed.times).await;
        Ok(self.log.next(seat))
    }

    /// Hears that events are gone.
    async fn lag(&self, mut seat: Box<Seat>, gap: Gap) -> Result<Option<Onward>, NotRecorded> {
        match self.log.lag(self.stage, seat.life, gap) {
            Ok(()) => seat.after = gap.last,
            Err(NotDone::Stale) => return Ok(self.log.next(seat)),
            Err(NotDone::Journal(error)) => return Err((seat, error)),
        }
        // It goes on behind them, whatever its code makes of that.
        match self.call(&mut seat, None, |code, out| code.lagged(gap, out)).await {
            Ok((events, state)) => {
                self.log.commit_and_next(seat, Done { upto: gap.last, events, state, ..Done::default() })
            }
            Err(reason) => {
                tracing::warn!(reason, "a stage could not be told of a gap");
                seat.fail();
                Ok(self.log.next(seat))
            }
        }
    }

    async fn end(&self, mut seat: Box<Seat>) -> Result<Option<Onward>, NotRecorded> {
        let upto = seat.after;
        match self.call(&mut seat, Some(0), |code, out| code.ended(out)).await {
            Ok((events, state)) => {
                let done = Done { upto, events, state, ended: true, ..Done::default() };
                self.log.commit_and_next(seat, done)
            }
            Err(reason) => self.failed_at(seat, 0, reason).await,
        }
    }

    async fn call(
        &self,
        seat: &mut Seat,
        noted: Option<u64>,
        act: impl FnOnce(Box<dyn AnyStage>, Outbox) -> Doing,
    ) -> Ended {
        let doing = seat.begin(&self.log, noted, act);
        seat.ended(&self.log, doing.await)
    }
}

/// An event was too much.
fn parked(seat: &Seat, failed: FailedEvent) -> Done {
    Done { upto: seat.after, parked: Some((failed.seq, failed.reason)), ..Done::default() }
}
