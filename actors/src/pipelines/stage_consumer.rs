//! The consumer of a stage: its code and position, owned by the stage's actor.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use ostler_kernel::event::Published;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::{FailedEvent, output_bytes};
use tokio::time::Instant;

use super::log::Done;
use super::stage::{AnyStage, Doing, Outbox, PipelineEvent, made, was_not_made};
use crate::pipelines::batch_limits::{AT_ONCE_MS, EVENTS_AT_ONCE, OUTPUT_BYTES_AT_ONCE};
use crate::pipelines::log::Log;
use crate::pipelines::stage::Handler;

const NO_LIFE: u64 = 0;

pub(crate) struct StageConsumer {
    pub(crate) stage: usize,
    /// Number of the consumer; only the last one of a stage is valid.
    pub(crate) number: u64,
    pub(crate) life: u64,
    /// Everything up to here is done, and recorded if necessary.
    pub(crate) after: u64,
    /// The cursor was moved: the code must be recreated.
    pub(crate) is_stale: bool,
    /// The event (0: the end) that is dead-lettered next, and why.
    pub(crate) dead_lettered: Option<FailedEvent>,
    /// The event (0: the end) that the code of the last actor was handling, not recorded yet.
    pub(crate) noted: Option<u64>,
    /// `None`: to be recreated.
    code: Option<Box<dyn AnyStage>>,
    handler: Handler,
    out: Option<Outbox>,
}

/// Events for a stage up to `upto`.
pub(crate) struct Work {
    first: Option<Arc<PipelineEvent>>,
    more: vec::IntoIter<Arc<PipelineEvent>>,
    seq: u64,
    upto: u64,
    pub(crate) done: Done,
    /// Start of the work; `None` for a single event.
    begun: Option<Instant>,
    bytes: usize,
}

pub(crate) type Ended = Result<(Vec<Published>, Option<Json>), String>;

impl StageConsumer {
    pub(crate) fn new(
        stage: usize,
        (number, life): (u64, u64),
        after: u64,
        handler: Handler,
    ) -> StageConsumer {
        let (code, out) = (None, None);
        StageConsumer {
            stage,
            number,
            life,
            after,
            is_stale: false,
            dead_lettered: None,
            noted: None,
            code,
            handler,
            out,
        }
    }

    pub(crate) fn begin_anew(&mut self) {
        self.life = NO_LIFE;
    }

    /// The dead-lettered event, if it is this one (0: the end).
    pub(crate) fn dead_lettered_at(&self, seq: u64) -> Option<FailedEvent> {
        self.dead_lettered.clone().filter(|failed| failed.seq == seq)
    }

    /// Marks the code for recreation after a failure.
    pub(crate) fn fail(&mut self) {
        self.code = None;
    }

    /// Starts a call of the code. `noted`: the event, 0 for the end.
    pub(crate) fn begin(
        &mut self,
        log: &Log,
        noted: Option<u64>,
        act: impl FnOnce(Box<dyn AnyStage>, Outbox) -> Doing,
    ) -> Doing {
        log.trying(self.stage, noted);
        if std::mem::take(&mut self.is_stale) {
            self.code = None;
        }
        let out = self.out.get_or_insert_with(|| Outbox::new(Arc::clone(log.topology()), self.stage));
        let code = match self.code.take() {
            Some(code) => Ok(code),
            None => made(&self.handler, log.kept(self.stage)),
        };
        match code {
            Ok(code) => act(code, out.clone()),
            Err(reason) => was_not_made(reason),
        }
    }

    pub(crate) fn ended(
        &mut self,
        log: &Log,
        (code, result): (Option<Box<dyn AnyStage>>, Result<(), String>),
    ) -> Ended {
        self.code = code;
        let (events, kept) = match self.out.take() {
            Some(out) => {
                let (events, kept, next) = out.take();
                self.out = Some(next);
                (events, kept)
            }
            None => (Vec::new(), None),
        };
        log.trying(self.stage, None);
        result.map(|()| (events, kept))
    }
}

impl Work {
    pub(crate) fn new(
        consumer: &StageConsumer,
        first: Option<Arc<PipelineEvent>>,
        more: Vec<Arc<PipelineEvent>>,
        upto: u64,
    ) -> Work {
        let done = Done { upto: consumer.after, ..Done::default() };
        let begun = (!more.is_empty()).then(Instant::now);
        Work { first, more: more.into_iter(), seq: 0, upto, done, begun, bytes: 0 }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.first.as_ref().or_else(|| self.more.as_slice().first()).map(|event| event.seq)
    }

    /// Starts the code on the next event, if any exists.
    pub(crate) fn begin(&mut self, consumer: &mut StageConsumer, log: &Log) -> Option<Doing> {
        let event = self.first.take().or_else(|| self.more.next())?;
        self.seq = event.seq;
        Some(consumer.begin(log, Some(event.seq), |code, out| code.handle(event, out)))
    }

    /// Takes the result of the present event, or the reason of its failure.
    pub(crate) fn took(
        &mut self,
        consumer: &mut StageConsumer,
        log: &Log,
        ended: (Option<Box<dyn AnyStage>>, Result<(), String>),
    ) -> Result<(), String> {
        let (mut events, kept) = consumer.ended(log, ended)?;
        self.bytes += events.iter().map(output_bytes).sum::<usize>();
        match self.done.events.is_empty() {
            true => self.done.events = events,
            false => self.done.events.append(&mut events),
        }
        if kept.is_some() {
            self.done.state = kept;
        }
        (self.done.upto, self.done.heard) = (self.seq, self.done.heard + 1);
        Ok(())
    }

    /// Takes the work so far if a record is due before the next event.
    pub(crate) fn due(&mut self) -> Option<Done> {
        if self.more.len() == 0 {
            return None;
        }
        let is_long = self.begun.is_some_and(|begun| begun.elapsed() >= Duration::from_millis(AT_ONCE_MS));
        if is_long || self.bytes >= OUTPUT_BYTES_AT_ONCE || self.done.heard as usize >= EVENTS_AT_ONCE {
            (self.begun, self.bytes) = (Some(Instant::now()), 0);
            return Some(self.so_far());
        }
        None
    }

    pub(crate) fn so_far(&mut self) -> Done {
        let next = Done { upto: self.done.upto, ..Done::default() };
        std::mem::replace(&mut self.done, next)
    }

    pub(crate) fn all(self) -> Done {
        Done { upto: self.upto, ..self.done }
    }
}
