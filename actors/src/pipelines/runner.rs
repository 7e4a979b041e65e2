//! The actor of a stage: runs the code on events, and records the results.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::pipeline::FailedEvent;
use ostler_kernel::port::JournalError;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::log::{Done, NotDone};
use super::next_action::NextAction;
use super::stage::{AnyStage, Doing, Gap, Outbox};
use super::stage_consumer::{Ended, StageConsumer, Work};
use crate::base::system_status::SystemStatus;
use crate::pipelines::log::Log;
use crate::pipelines::runner_message::RunnerMessage;
use crate::pipelines::stage::Handler;
use crate::storage::disk_space::DiskSpace;
use crate::storage::run_reader::READ_AT_ONCE;

/// Delay before an event is tried again.
const BACK_OFF: Duration = Duration::from_millis(20);

/// Delay before disk space is checked again.
const FULL: Duration = Duration::from_secs(1);

/// Actions before the mailbox is read again, for a stop.
const TURNS_AT_ONCE: usize = 8;

/// Failure of code with an actor that ended without a report.
const ENDED_AT_IT: &str = "its actor ended while it was at it";

#[derive(Clone)]
pub(crate) struct RunnerArguments {
    pub(crate) disk: Arc<DiskSpace>,
    pub(crate) status: Arc<SystemStatus>,
    pub(crate) log: Arc<Log>,
    pub(crate) stage: usize,
    pub(crate) handler: Handler,
}

pub(crate) struct Runner;

pub(crate) struct RunnerState {
    arguments: RunnerArguments,
    consumer: StageConsumer,
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
        let (mut consumer, noted) = log.begin(*stage, me.clone(), handler.clone());
        (consumer.noted, consumer.dead_lettered) =
            (noted, log.failed(*stage).filter(FailedEvent::is_exhausted));
        me.cast(RunnerMessage::Look)?;
        Ok(RunnerState { arguments, consumer })
    }

    async fn handle(
        &self,
        me: ActorRef<RunnerMessage>,
        RunnerMessage::Look: RunnerMessage,
        RunnerState { arguments: this, consumer }: &mut RunnerState,
    ) -> Result<(), ActorProcessingErr> {
        let mut next = this.log.next(consumer);
        for _ in 0..TURNS_AT_ONCE {
            let Some(turn) = next else { return Ok(()) };
            if this.status.is_stopping() {
                return Ok(());
            }
            next = match this.turn(consumer, turn).await {
                Ok(next) => next,
                // Nothing was recorded: the stage restarts from its records when there is space.
                Err(JournalError::Full(why)) => {
                    tracing::warn!(%why, "a stage waits for room on the disk");
                    this.disk.is_missing(&why);
                    consumer.begin_anew();
                    tokio::time::sleep(FULL).await;
                    this.log.next(consumer)
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
    async fn turn(
        &self,
        consumer: &mut StageConsumer,
        turn: NextAction,
    ) -> Result<Option<NextAction>, JournalError> {
        if let Some(seq) = consumer.noted {
            match self.log.fail(consumer, seq, ENDED_AT_IT) {
                Ok(failed) => consumer.dead_lettered = Some(failed).filter(FailedEvent::is_exhausted),
                Err(NotDone::Stale) => {}
                Err(NotDone::Journal(error)) => return Err(error),
            }
            consumer.noted = None;
        }
        match turn {
            NextAction::Events { first, more, upto } => {
                self.deal(consumer, Work::new(consumer, Some(first), more, upto)).await
            }
            NextAction::Pass { upto } => {
                self.deal(consumer, Work::new(consumer, None, Vec::new(), upto)).await
            }
            NextAction::Page => {
                let (events, upto) = self.log.page(consumer.stage, consumer.after, READ_AT_ONCE)?;
                self.deal(consumer, Work::new(consumer, None, events, upto)).await
            }
            NextAction::Gap(gap) => self.lag(consumer, gap).await,
            NextAction::End => self.end(consumer).await,
        }
    }

    /// Handles events and records the results, in parts if that takes long.
    async fn deal(
        &self,
        consumer: &mut StageConsumer,
        mut work: Work,
    ) -> Result<Option<NextAction>, JournalError> {
        while let Some(seq) = work.next() {
            if let Some(failed) = consumer.dead_lettered_at(seq) {
                return match self.keep(consumer, &mut work)? {
                    true => self.park(consumer, failed),
                    false => Ok(self.log.next(consumer)),
                };
            }
            let Some(doing) = work.begin(consumer, &self.log) else { break };
            if let Err(reason) = work.took(consumer, &self.log, doing.await) {
                return match self.keep(consumer, &mut work)? {
                    true => self.failed_at(consumer, seq, reason).await,
                    false => Ok(self.log.next(consumer)),
                };
            }
            if let Some(done) = work.due() {
                match self.log.commit(consumer, done) {
                    Ok(()) if self.status.is_stopping() => return Ok(None),
                    Ok(()) => {}
                    Err(NotDone::Stale) => return Ok(self.log.next(consumer)),
                    Err(NotDone::Journal(error)) => return Err(error),
                }
            }
        }
        self.log.commit_and_next(consumer, work.all())
    }

    /// Records the work before an event that fails; `false` if the cursor was moved meanwhile.
    fn keep(&self, consumer: &mut StageConsumer, work: &mut Work) -> Result<bool, JournalError> {
        let done = work.so_far();
        if done.heard == 0 {
            return Ok(true);
        }
        match self.log.commit(consumer, done) {
            Ok(()) => Ok(true),
            Err(NotDone::Stale) => Ok(false),
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// Handles a failure of the code: recreates the code and tries again, or dead-letters the event.
    async fn failed_at(
        &self,
        consumer: &mut StageConsumer,
        seq: u64,
        reason: String,
    ) -> Result<Option<NextAction>, JournalError> {
        consumer.fail();
        match self.log.fail(consumer, seq, &reason) {
            Ok(failed) if failed.is_exhausted() => self.park(consumer, failed),
            Ok(failed) => {
                tokio::time::sleep(BACK_OFF * failed.times).await;
                Ok(self.log.next(consumer))
            }
            Err(NotDone::Stale) => Ok(self.log.next(consumer)),
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// Dead-letters an event: the stage continues after it, or stops.
    fn park(
        &self,
        consumer: &mut StageConsumer,
        failed: FailedEvent,
    ) -> Result<Option<NextAction>, JournalError> {
        consumer.dead_lettered = Some(failed.clone());
        let parked = Some((failed.seq, failed.reason));
        let done = Done { upto: consumer.after, parked, ..Done::default() };
        match self.log.commit(consumer, done) {
            Ok(()) | Err(NotDone::Stale) => {
                consumer.dead_lettered = None;
                consumer.begin_anew();
                Ok(self.log.next(consumer))
            }
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    async fn lag(&self, consumer: &mut StageConsumer, gap: Gap) -> Result<Option<NextAction>, JournalError> {
        match self.log.lag(consumer.stage, consumer.life, gap) {
            Ok(()) => consumer.after = gap.last,
            Err(NotDone::Stale) => return Ok(self.log.next(consumer)),
            Err(NotDone::Journal(error)) => return Err(error),
        }
        // The stage continues after the gap, even if its code fails again.
        match self.call(consumer, None, |code, out| code.lagged(gap, out)).await {
            Ok((events, state)) => {
                self.log.commit_and_next(consumer, Done { upto: gap.last, events, state, ..Done::default() })
            }
            Err(reason) => {
                tracing::warn!(reason, "a stage could not be told of a gap");
                consumer.fail();
                Ok(self.log.next(consumer))
            }
        }
    }

    async fn end(&self, consumer: &mut StageConsumer) -> Result<Option<NextAction>, JournalError> {
        if let Some(failed) = consumer.dead_lettered_at(0) {
            return self.park(consumer, failed);
        }
        let upto = consumer.after;
        match self.call(consumer, Some(0), |code, out| code.ended(out)).await {
            Ok((events, state)) => {
                let done = Done { upto, events, state, ended: true, ..Done::default() };
                self.log.commit_and_next(consumer, done)
            }
            Err(reason) => self.failed_at(consumer, 0, reason).await,
        }
    }

    async fn call(
        &self,
        consumer: &mut StageConsumer,
        noted: Option<u64>,
        act: impl FnOnce(Box<dyn AnyStage>, Outbox) -> Doing,
    ) -> Ended {
        let doing = consumer.begin(&self.log, noted, act);
        consumer.ended(&self.log, doing.await)
    }
}
