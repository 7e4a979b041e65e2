//! Handles of pipelines.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ostler_kernel::event::Published;
use ostler_kernel::id::PipelineId;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::Output;
use ostler_kernel::port::{JournalError, Position, Seq};
use serde_json::Value;

use crate::api::system::System;
use crate::pipelines::batch_limits::{EVENTS_AT_ONCE, HEARD_BYTES_AT_ONCE};
use crate::pipelines::count::FEW_AT_ONCE;
use crate::pipelines::error::{PipelineError, PublishError};
use crate::pipelines::log::{Done, Log};
use crate::pipelines::message::PipelinesMessage;
use crate::pipelines::row::PipelineRow;
use crate::pipelines::stage::{
    AnyStage, Gap, Handler, Outbox, PipelineEvent, Stage, StageError, check_state,
};
use crate::storage::event_cursor::EventCursor;

/// A pipeline. A clone is another handle of the same pipeline.
#[derive(Clone)]
pub struct PipelineHandle {
    pub(super) system: System,
    pub(super) log: Arc<Log>,
}

impl fmt::Debug for PipelineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PipelineHandle({})", self.id())
    }
}

/// The next events of a stage that another process implements.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// The position that the next acknowledgement names: the cursor, or the end of the gap.
    pub after: u64,
    /// Events that were removed before the stage received them, told until an acknowledgement names `after`.
    pub gap: Option<Gap>,
    /// The state of the last acknowledgement.
    pub state: Option<Json>,
    /// Events in order, oldest first.
    pub events: Vec<PipelineEvent>,
    /// The position that acknowledges the events.
    pub upto: u64,
    /// Nothing is left, not even a gap, and nothing more will come: all earlier stages have ended.
    pub ended: bool,
}

/// How a pipeline came to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipelineEnd {
    /// Every stage has ended.
    Ended,
    /// A stage needs a person: it stopped at a dead-lettered event, or its actor failed too often.
    Stuck {
        /// The stage.
        stage: String,
        /// The reason.
        reason: String,
    },
}

/// Characters of a dead-lettered event that its row shows.
const EXCERPT_CHARS_MAX: usize = 200;

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl PipelineHandle {
    /// The name.
    pub fn id(&self) -> &PipelineId {
        self.log.topology().id()
    }

    /// The present state, which may not be durable yet; [`PipelineHandle::durable`] waits for that.
    pub fn row(&self) -> PipelineRow {
        self.log.row()
    }

    /// Adds type and excerpt to each listed dead letter. Reads an event of the log for each.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn read_dead_letters(&self, row: &mut PipelineRow) -> Result<(), JournalError> {
        let letters = row.stages.iter_mut().flat_map(|stage| &mut stage.parked);
        for letter in letters.filter(|letter| letter.seq > 0) {
            match self.event(letter.seq)? {
                Some(event) => {
                    letter.kind = Some(event.kind.to_string());
                    letter.excerpt = Some(excerpt(event.data.as_str()));
                }
                None => letter.gone = true,
            }
        }
        Ok(())
    }

    /// Waits until everything known now is durable.
    ///
    /// # Errors
    ///
    /// The journal failed.
    pub async fn durable(&self) -> Result<(), JournalError> {
        self.settled(self.log.position()).await
    }

    pub(super) async fn settled(&self, position: Position) -> Result<(), JournalError> {
        if position == Position::default() {
            return Ok(());
        }
        self.system.services.journal.durable(position).await
    }

    /// Gives a stage its code: it takes up the work at its cursor. `make` is called whenever the stage starts anew, with the state
    /// that it kept last: at first, after a crash, and after each failure.
    ///
    /// ```
    /// # use ostler_actors::{Outbox, PipelineEvent, Stage, StageError};
    /// # use std::sync::Arc;
    /// /// Counts what it hears, and counts on after a crash.
    /// struct Count(u64);
    ///
    /// impl Stage for Count {
    ///     async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
    ///         self.0 += 1;
    ///         out.keep(&self.0)?;
    ///         out.publish("counted", &self.0)?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # async fn example(pipeline: ostler_actors::PipelineHandle) -> Result<(), ostler_actors::PipelineError> {
    /// pipeline.attach("count", |kept| Count(kept.and_then(|kept| kept.as_u64()).unwrap_or(0)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such stage, it hears nothing, or it has code already.
    pub fn attach<S: Stage>(
        &self,
        stage: &str,
        make: impl Fn(Option<Value>) -> S + Send + Sync + 'static,
    ) -> Result<(), PipelineError> {
        let handler: Handler = Arc::new(move |kept| Box::new(make(kept)) as Box<dyn AnyStage>);
        let stage = self.log.stage(stage)?;
        self.log.attach(stage, handler)?;
        self.start(stage);
        Ok(())
    }

    /// Gives a stage its code, which keeps nothing.
    ///
    /// ```
    /// # async fn example(pipeline: ostler_actors::PipelineHandle) -> Result<(), ostler_actors::PipelineError> {
    /// pipeline.on("shout", |event, out| async move {
    ///     let text: String = event.read()?;
    ///     out.publish("shouted", &text.to_uppercase())?;
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`PipelineHandle::attach`].
    pub fn on<F, Doing>(&self, stage: &str, code: F) -> Result<(), PipelineError>
    where
        F: Fn(Arc<PipelineEvent>, Outbox) -> Doing + Send + Sync + Clone + 'static,
        Doing: Future<Output = Result<(), StageError>> + Send,
    {
        self.attach(stage, move |_| code.clone())
    }

    /// Brings up the actor of a stage. While the actor of all pipelines is down, that happens when it and the pool are up again.
    fn start(&self, stage: usize) {
        let log = Arc::clone(&self.log);
        self.system.pipelines.tell(PipelinesMessage::Start { log, stage });
    }

    /// Follows the events after `after`, each as soon as it is durable, until the system ends or the pipeline is removed.
    ///
    /// # Errors
    ///
    /// The event does not exist, or is no longer kept.
    pub fn events_after(&self, after: u64) -> Result<EventCursor, PipelineError> {
        self.log.check_open()?;
        let PipelineRow { pipeline, head, oldest, .. } = self.log.row();
        if after > head {
            return Err(PipelineError::Beyond { pipeline, seq: after.saturating_add(1), head });
        }
        if after + 1 < oldest {
            return Err(PipelineError::Gone { pipeline, seq: after + 1, oldest });
        }
        let journal = Arc::clone(&self.system.services.journal);
        Ok(EventCursor::until(self.log.watch_closed(), journal, self.log.stream(), Seq(after)))
    }

    /// The event with a number, for example a dead-lettered one; `None` for a missing or removed event.
    /// [`PipelineHandle::durable`] waits for its durability.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn event(&self, seq: u64) -> Result<Option<PipelineEvent>, JournalError> {
        self.log.event(seq)
    }

    /// Moves the cursor of a stage back or forward to `after`. Without `keeps_state` the stage restarts without a
    /// state. Repeated events cause repeated publications, and ended later stages reopen. Durable on return.
    ///
    /// # Errors
    ///
    /// The stage is unknown, or the event is no longer kept.
    pub async fn catch_up(&self, stage: &str, after: u64, keeps_state: bool) -> Result<(), PipelineError> {
        let stage = self.log.stage(stage)?;
        let position = self.log.move_to(stage, after, keeps_state)?;
        self.start(stage);
        Ok(self.settled(position).await?)
    }

    /// Lets a stopped stage continue after its dead-lettered event, or restarts a stage that is down. Durable on
    /// return.
    ///
    /// # Errors
    ///
    /// The stage is unknown, or has not stopped.
    pub async fn release(&self, stage: &str) -> Result<(), PipelineError> {
        let stage = self.log.stage(stage)?;
        let position = self.log.release(stage)?;
        self.start(stage);
        Ok(self.settled(position).await?)
    }

    /// The next durable events of a stage that another process implements: up to `limit`, or about 4 MiB. Reading
    /// records nothing: without an acknowledgement the same events and gaps are returned again.
    ///
    /// # Errors
    ///
    /// The stage is unknown, or subscribes to nothing.
    pub async fn heard(&self, stage: &str, limit: usize) -> Result<Heard, PipelineError> {
        let stage = self.log.stage(stage)?;
        if self.log.topology().is_source(stage) {
            return Err(PipelineError::Source(self.log.topology().name(stage).clone()));
        }
        let (after, state, gap) = self.log.cursor(stage);
        let limit = limit.clamp(1, EVENTS_AT_ONCE);
        let (mut events, mut upto, mut bytes) = (Vec::new(), after, 0);
        'full: loop {
            let (page, read) = self.log.page(stage, upto, FEW_AT_ONCE)?;
            if read == upto {
                break;
            }
            for event in page {
                (upto, bytes) = (event.seq, bytes + event.data.as_str().len());
                events.push(PipelineEvent::clone(&event));
                if events.len() == limit || bytes >= HEARD_BYTES_AT_ONCE {
                    break 'full;
                }
            }
            upto = read;
        }
        let ended = events.is_empty() && gap.is_none() && self.log.is_through(stage)?;
        self.durable().await?;
        Ok(Heard { after, gap, state, events, upto, ended })
    }

    /// Acknowledges [`PipelineHandle::heard`] events from `after` to `upto`, and the gap before them. The state and the
    /// resulting events are recorded together with it. Durable on return.
    ///
    /// # Errors
    ///
    /// The cursor is not at `after`; the stage has code in the process; an event is refused; or the acknowledgement is
    /// empty but publishes. Nothing has changed then.
    pub async fn ack(
        &self,
        stage: &str,
        after: u64,
        upto: u64,
        state: Option<Json>,
        events: Vec<(String, Json)>,
    ) -> Result<(), PipelineError> {
        let stage = self.log.stage(stage)?;
        let state = state.map(check_state).transpose()?;
        let events = self.checked(stage, events)?;
        let position = self.log.ack(stage, after, Done { upto, state, events, ..Done::default() })?;
        Ok(self.settled(position).await?)
    }

    pub(super) fn checked(
        &self,
        stage: usize,
        events: Vec<(String, Json)>,
    ) -> Result<Vec<Published>, PublishError> {
        let (topology, mut output) = (self.log.topology(), Output::default());
        let check = |(kind, data): (String, Json)| {
            let kind = topology.check_publish(stage, &kind, &data)?;
            let event = Published { stage: topology.name(stage).clone(), kind, data };
            output.add(&event)?;
            Ok(event)
        };
        events.into_iter().map(check).collect()
    }

    /// Ends a stage without subscriptions, or a stage of another process without events left. Durable on return.
    ///
    /// # Errors
    ///
    /// The stage has code in the process, or events left.
    pub async fn end(&self, stage: &str) -> Result<(), PipelineError> {
        let position = self.log.end(self.log.stage(stage)?)?;
        Ok(self.settled(position).await?)
    }

    /// Waits until every stage has ended durably, or one needs a person. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The journal failed, the system has ended, or the pipeline was removed.
    pub async fn ended(&self) -> Result<PipelineEnd, PipelineError> {
        let mut changes = self.log.watch();
        let mut halts = self.system.services.journal.status.watch_halted();
        loop {
            self.log.check_open()?;
            match self.log.is_over() {
                Ok(true) => {
                    self.durable().await?;
                    return Ok(PipelineEnd::Ended);
                }
                Err((stage, reason)) => {
                    self.durable().await?;
                    return Ok(PipelineEnd::Stuck { stage, reason });
                }
                Ok(false) => {}
            }
            if let Some(why) = self.system.halted() {
                return Err(PipelineError::Halted(why));
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = halts.changed() => {}
            }
        }
    }
}
