//! The actor of a stage: takes events from the log, lets the code of the stage deal with them, and records what came of it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::event::Published;
use ostler_kernel::json::Json;
use ostler_kernel::port::{BoxFuture, JournalError};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::live::{Begun, Handler, Trouble};
use super::log::{Done, Log, NotDone, Turn};
use super::stage::{AnyStage, Gap, Outbox, PipelineEvent, StageError};
use super::{AT_ONCE_MS, EVENTS_AT_ONCE, OUTPUT_BYTES_AT_ONCE};
use crate::services::Services;

/// How long a stage waits before it tries an event once more.
const BACK_OFF: Duration = Duration::from_millis(20);

/// How long a stage waits before it looks whether there is room on the disk again.
const FULL: Duration = Duration::from_secs(1);

/// Turns before it listens whether it is to stop.
const TURNS_AT_ONCE: usize = 8;

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
    life: u64,
    /// It has dealt with everything up to here, and that is recorded, or need not be.
    after: u64,
    /// Its code; `None`: it is to be made anew.
    code: Option<Box<dyn AnyStage>>,
    /// The state that was recorded last.
    kept: Option<Json>,
    out: Option<Outbox>,
}

/// How a turn ended.
enum Turned {
    /// There may be more to do.
    On,
    /// There is nothing to do.
    Idle,
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
        let Begun { life, cursor, state } = arguments.log.begin(arguments.stage, me.clone());
        let state = RunnerState { arguments, life, after: cursor, code: None, kept: state, out: None };
        if let Some(trouble) = state.log().trouble(state.arguments.stage).filter(Trouble::is_too_much) {
            let mut state = state;
            state.park(trouble)?;
            me.cast(RunnerMessage::Look)?;
            return Ok(state);
        }
        me.cast(RunnerMessage::Look)?;
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<RunnerMessage>,
        RunnerMessage::Look: RunnerMessage,
        state: &mut RunnerState,
    ) -> Result<(), ActorProcessingErr> {
        for _ in 0..TURNS_AT_ONCE {
            if state.arguments.services.is_stopping() {
                return Ok(());
            }
            match state.turn().await {
                Ok(Turned::On) => {}
                Ok(Turned::Idle) => return Ok(()),
                // Nothing was recorded: it begins where its records end, when there is room.
                Err(JournalError::Full(why)) => {
                    tracing::warn!(%why, "a stage waits for room on the disk");
                    state.anew();
                    tokio::time::sleep(FULL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(me.cast(RunnerMessage::Look)?)
    }
}

impl RunnerState {
    fn log(&self) -> &Arc<Log> {
        &self.arguments.log
    }

    /// Begins where its records end.
    fn anew(&mut self) {
        let Begun { life, cursor, state } = self.log().again(self.arguments.stage);
        (self.life, self.after, self.kept, self.code) = (life, cursor, state, None);
    }

    fn outbox(&mut self) -> Outbox {
        let (topology, stage) = (self.arguments.log.topology(), self.arguments.stage);
        self.out.take().unwrap_or_else(|| Outbox::new(Arc::clone(topology), stage))
    }

    async fn turn(&mut self) -> Result<Turned, JournalError> {
        let (stage, after) = (self.arguments.stage, self.after);
        match self.log().take(stage, self.life, after) {
            Turn::Idle => return Ok(Turned::Idle),
            Turn::Anew => self.anew(),
            Turn::Events { events, upto } => self.deal(events, upto).await?,
            Turn::Page => {
                let (events, upto) = self.log().page(stage, after)?;
                self.deal(events, upto).await?;
            }
            Turn::Gap(gap) => self.lag(gap).await?,
            Turn::End => self.end().await?,
        }
        Ok(Turned::On)
    }

    /// Deals with events, which are all that it hears up to `upto`, and records that; or with some of them, if that takes long.
    async fn deal(&mut self, events: Vec<Arc<PipelineEvent>>, upto: u64) -> Result<(), JournalError> {
        let mut begun = Instant::now();
        let mut bytes = 0;
        let mut done = Done { upto: self.after, ..Done::default() };
        for event in events {
            let seq = event.seq;
            match self.call(Some(seq), |code, out| code.handle(event, out)).await {
                Ok((events, kept)) => {
                    bytes += events.iter().map(|event| event.data.as_str().len()).sum::<usize>();
                    done.events.extend(events);
                    done.state = kept.or(done.state);
                    (done.upto, done.heard) = (seq, done.heard + 1);
                }
                Err(reason) => {
                    if done.heard > 0 && !self.commit(done)? {
                        return Ok(());
                    }
                    return self.failed(seq, reason).await;
                }
            }
            let is_long = begun.elapsed() >= Duration::from_millis(AT_ONCE_MS);
            if is_long || bytes >= OUTPUT_BYTES_AT_ONCE || done.heard as usize >= EVENTS_AT_ONCE {
                let next = Done { upto: seq, ..Done::default() };
                if !self.commit(std::mem::replace(&mut done, next))? || self.arguments.services.is_stopping()
                {
                    return Ok(());
                }
                (begun, bytes) = (Instant::now(), 0);
            }
        }
        self.commit(Done { upto, ..done })?;
        Ok(())
    }

    /// Hears that events are gone.
    async fn lag(&mut self, gap: Gap) -> Result<(), JournalError> {
        let (stage, life) = (self.arguments.stage, self.life);
        match self.log().lag(stage, life, gap) {
            Ok(()) => self.after = gap.last,
            Err(NotDone::Stale) => {
                self.anew();
                return Ok(());
            }
            Err(NotDone::Journal(error)) => return Err(error),
        }
        // It goes on behind them, whatever its code makes of that.
        match self.call(None, |code, out| code.lagged(gap, out)).await {
            Ok((events, state)) => {
                self.commit(Done { upto: gap.last, events, state, ..Done::default() })?;
            }
            Err(reason) => {
                tracing::warn!(reason, "a stage could not be told of a gap");
                self.code = None;
            }
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), JournalError> {
        let upto = self.after;
        match self.call(Some(0), |code, out| code.ended(out)).await {
            Ok((events, state)) => {
                self.commit(Done { upto, events, state, ended: true, ..Done::default() })?;
            }
            Err(reason) => self.failed(0, reason).await?,
        }
        Ok(())
    }

    /// Lets the code do something, which may panic. `noted`: the event it has at hand, 0 for the end.
    async fn call(
        &mut self,
        noted: Option<u64>,
        act: impl FnOnce(&mut dyn AnyStage, Outbox) -> BoxFuture<'_, Result<(), StageError>>,
    ) -> Result<(Vec<Published>, Option<Json>), String> {
        let stage = self.arguments.stage;
        self.log().trying(stage, noted);
        let out = self.outbox();
        let code = match &mut self.code {
            Some(code) => code,
            none => none.insert(made(&self.arguments.handler, self.kept.as_ref())?),
        };
        let given = out.clone();
        let doing = AssertUnwindSafe(async move { act(&mut **code, given).await }).catch_unwind();
        let ended = doing.await;
        let (events, kept, next) = out.take();
        self.out = Some(next);
        self.log().trying(stage, None);
        match ended {
            Ok(Ok(())) => Ok((events, kept)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(format!("it panicked: {}", words(&*panic))),
        }
    }

    /// Records what was done; false if somebody has moved the cursor meanwhile, so that none of it counts.
    fn commit(&mut self, done: Done) -> Result<bool, JournalError> {
        let (upto, kept) = (done.upto, done.state.clone());
        match self.log().commit(self.arguments.stage, self.life, done) {
            Ok(_) => {
                self.after = upto;
                self.kept = kept.or(self.kept.take());
                Ok(true)
            }
            Err(NotDone::Stale) => {
                self.anew();
                Ok(false)
            }
            Err(NotDone::Journal(error)) => Err(error),
        }
    }

    /// The code failed at an event: it is made anew and tries again, or the event is parked.
    async fn failed(&mut self, seq: u64, reason: String) -> Result<(), JournalError> {
        self.code = None;
        let trouble = self.log().fail(self.arguments.stage, seq, reason);
        if trouble.is_too_much() {
            return self.park(trouble);
        }
        tokio::time::sleep(BACK_OFF * trouble.times).await;
        Ok(())
    }

    fn park(&mut self, trouble: Trouble) -> Result<(), JournalError> {
        let done = Done { upto: self.after, parked: Some((trouble.seq, trouble.reason)), ..Done::default() };
        if self.commit(done)? {
            self.anew();
        }
        Ok(())
    }
}

/// The code, made anew.
fn made(handler: &Handler, kept: Option<&Json>) -> Result<Box<dyn AnyStage>, String> {
    let make = AssertUnwindSafe(|| handler(kept.map(Json::value)));
    std::panic::catch_unwind(make)
        .map_err(|panic| format!("it panicked when it was made: {}", words(&*panic)))
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned())
}
