//! The actor of a stage: has its seat, lets the code of the stage deal with events, and records what came of it.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::pipeline::FailedEvent;
use ostler_kernel::port::JournalError;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::log::{Done, Log, NotDone};
use super::next_action::Turn;
use super::stage::{AnyStage, Doing, Gap, Outbox};
use super::stage_consumer::{Ended, Seat, Work};
use super::stage_runtime::Handler;
use crate::services::Services;
use crate::storage::run_reader::READ_AT_ONCE;

/// How long a stage waits before it tries an event once more.
const BACK_OFF: Duration = Duration::from_millis(20);

/// How long a stage waits before it looks whether there is room on the disk again.
const FULL: Duration = Duration::from_secs(1);

/// Turns before it listens whether it is to stop.
const TURNS_AT_ONCE: usize = 8;

/// Why the code is counted as having failed whose actor did not live to tell.
const ENDED_AT_IT: &str = "its actor ended while it was at it";

#[derive(Debug)]
pub(crate) enum RunnerMessage {
    /// There may be something to do.
    Look,
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
    seat: Seat,
}

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
        let (mut seat, noted) = log.begin(*stage, me.clone(), handler.clone());
        (seat.noted, seat.condemned) = (noted, log.failed(*stage).filter(FailedEvent::is_exhausted));
        me.cast(RunnerMessage::Look)?;
        Ok(RunnerState { arguments, seat })
    }

    async fn handle(
        &self,
        me: ActorRef<RunnerMessage>,
        RunnerMessage::Look: RunnerMessage,
        RunnerState { arguments: this, seat }: &mut RunnerState,
    ) -> Result<(), ActorProcessingErr> {
        let mut next = this.log.next(seat);
        for _ in 0..TURNS_AT_ONCE {
            let Some(turn) = next else { return Ok(()) };
            if this.services.is_stopping() {
                return Ok(());
            }
            next = match this.turn(seat, turn).await {
                Ok(next) => next,
                // Nothing was recorded: it begins where its records end, when there is room.
                Err(JournalError::Full(why)) => {
                    tracing::warn!(%why, "a stage waits for room on the disk");
                    this.services.room.is_missing(&why);
                    seat.begin_anew();
                    tokio::time::sleep(FULL).await;
                    this.log.next(seat)
                }
                Err(error) => return Err(error.into()),
            };
        }
        if next.is_some() {
            me.cast(RunnerMessage::Look)?;
        }
        Ok(())
    }
}

impl RunnerArguments {
    async fn turn(&self, seat: &mut Seat, turn: Turn) -> Result<Option<Turn>, JournalError> {
        if let Some(seq) = seat.noted {
            match self.log.fail(seat, seq, ENDED_AT_IT) {
                Ok(failed) => seat.condemned = Some(failed).filter(FailedEvent::is_exhausted),
                Err(NotDone::Stale) => {}
                Err(NotDone::Journal(error)) => return Err(error),
            }
            seat.noted = None;
        }
        match turn {
            Turn::Events { first, more, upto } => {
                self.deal(seat, Work::new(seat, Some(first), more, upto)).await
            }
            Turn::Pass { upto } => self.deal(seat, Work::new(seat, None, Vec::new(), upto)).await,
            Turn::Page => {
                let (events, upto) = self.log.page(seat.stage, seat.after, READ_AT_ONCE)?;
                self.deal(seat, Work::new(seat, None, events, upto)).await
            }
            Turn::Gap(gap) => self.lag(seat, gap).await,
            Turn::End => self.end(seat).await,
        }
    }

    /// Deals with events, which are all that a stage hears up to a point, and records that; or with some of them, if that takes
    /// long.
    async fn deal(&self, seat: &mut Seat, mut work: Work) -> Result<Option<Turn>, JournalError> {
        while let Some(seq) = work.next() {
            if let Some(failed) = seat.condemned_at(seq) {
                return match self.keep(seat, &mut work)? {
                    true => self.park(seat, failed),
                    false => Ok(self.log.next(seat)),
                };
            }
            let Some(doing) = work.begin(seat, &self.log) else { break };
            if let Err(reason) = work.took(seat, &self.log, doing.await) {
                return match self.keep(seat, &mut work)? {
                    true => self.failed_at(seat, seq, reason).await,
                    false => Ok(self.log.next(seat)),
                };
            }
            if let Some(done) = work.due() {
                match self.log.commit(seat, done) {
                    Ok(()) if self.services.is_stopping() => return Ok(None),
                    Ok(()) => {}
                    Err(NotDone::Stale) => return Ok(self.log.next(seat)),
                    Err(NotDone::Journal(error)) => return Err(error),
                }
            }
        }
        self.log.commit_and_next(seat, work.all())
    }

    /// Records what was done before an event that comes to nothing; false if somebody moved the cursor meanwhile.
    fn keep(&self, seat: &mut Seat, work: &mut Work) -> Result<bool, JournalError> {
        let done = work.so_far();
        if done.heard == 0 {
            return Ok(true);
        }
        match self.log.commit(seat, done) {
            Ok(()) => Ok(true),
            Err(NotDone::Stale) => Ok(false),
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// The code failed at an event: it is made anew and tries again, or the event is parked.
    async fn failed_at(
        &self,
        seat: &mut Seat,
        seq: u64,
        reason: String,
    ) -> Result<Option<Turn>, JournalError> {
        seat.fail();
        match self.log.fail(seat, seq, &reason) {
            Ok(failed) if failed.is_exhausted() => self.park(seat, failed),
            Ok(failed) => {
                tokio::time::sleep(BACK_OFF * failed.times).await;
                Ok(self.log.next(seat))
            }
            Err(NotDone::Stale) => Ok(self.log.next(seat)),
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// An event was too much: the stage goes on behind it, or waits.
    fn park(&self, seat: &mut Seat, failed: FailedEvent) -> Result<Option<Turn>, JournalError> {
        seat.condemned = Some(failed.clone());
        let parked = Some((failed.seq, failed.reason));
        let done = Done { upto: seat.after, parked, ..Done::default() };
        match self.log.commit(seat, done) {
            Ok(()) | Err(NotDone::Stale) => {
                seat.condemned = None;
                seat.begin_anew();
                Ok(self.log.next(seat))
            }
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// Hears that events are gone.
    async fn lag(&self, seat: &mut Seat, gap: Gap) -> Result<Option<Turn>, JournalError> {
        match self.log.lag(seat.stage, seat.life, gap) {
            Ok(()) => seat.after = gap.last,
            Err(NotDone::Stale) => return Ok(self.log.next(seat)),
            Err(NotDone::Journal(error)) => return Err(error),
        }
        // It goes on behind them, whatever its code makes of that.
        match self.call(seat, None, |code, out| code.lagged(gap, out)).await {
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

    async fn end(&self, seat: &mut Seat) -> Result<Option<Turn>, JournalError> {
        if let Some(failed) = seat.condemned_at(0) {
            return self.park(seat, failed);
        }
        let upto = seat.after;
        match self.call(seat, Some(0), |code, out| code.ended(out)).await {
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
