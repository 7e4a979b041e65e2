//! What is done about stages from outside: given code, moved, released, ended, acknowledged for.

use ostler_kernel::event::PipelineRecord;
use ostler_kernel::json::Json;
use ostler_kernel::pipeline::Next;
use ostler_kernel::port::Position;

use super::error::PipelineError;
use super::live::Handler;
use super::log::{Done, Log, NotDone, State};
use super::stage::Gap;

impl Log {
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

    /// The actor of a stage failed too often.
    pub(crate) fn down(&self, stage: usize, reason: String) {
        let mut state = self.state();
        let live = &mut state.live[stage];
        (live.down, live.actor, live.awake) = (Some(reason), None, false);
        // Whatever of it is still about lets go.
        (live.life, live.seats) = (live.life + 1, live.seats + 1);
        self.relieve(&mut state, stage);
        drop(state);
        self.tell();
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

    fn begin_anew(&self, state: &mut State, stage: usize) {
        let live = &mut state.live[stage];
        live.life += 1;
        live.down = None;
        live.wake();
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

    /// The cursor of a stage, and its state; events that were gone before it came to them are recorded as that.
    pub(crate) fn cursor(&self, stage: usize) -> Result<(u64, Option<Json>, Option<Gap>), PipelineError> {
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
        let state = self.state();
        let standing = state.pipeline.stage(stage);
        Ok((standing.cursor, standing.state.clone(), told))
    }
}
