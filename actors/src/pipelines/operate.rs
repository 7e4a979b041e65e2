//! Operations on stages from outside: attach code, move, release, end, acknowledge.

use ostler_kernel::event::PipelineRecord;
use ostler_kernel::json::Json;
use ostler_kernel::port::{Position, Seq};

use super::log::{Done, LogState};
use super::stage::Gap;
use crate::pipelines::error::PipelineError;
use crate::pipelines::log::Log;
use crate::pipelines::stage::Handler;

impl Log {
    pub(crate) fn attach(&self, stage: usize, handler: Handler) -> Result<(), PipelineError> {
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

    /// Removes the pipeline, unless a stage has code here or events left. Returns the position and the number of the record.
    pub(crate) fn remove(&self) -> Result<(Position, Seq), PipelineError> {
        self.check_open()?;
        let mut state = self.state();
        let head = state.pipeline.head();
        for stage in 0..self.topology.len() {
            let (pipeline, name) = (self.topology.id().clone(), self.topology.name(stage).clone());
            if state.live[stage].is_live() && !state.pipeline.stage(stage).ended {
                return Err(PipelineError::HasCode { pipeline, stage: name });
            }
            let events = self.lag_of(&state, stage);
            if events > 0 {
                return Err(PipelineError::HasEvents { pipeline, stage: name, events, next: head + 1 });
            }
        }
        let position = self.append(&mut state, Vec::new(), vec![PipelineRecord::Removed { upto: head }])?;
        self.close();
        let records = state.records;
        drop(state);
        self.tell();
        Ok((position, records))
    }

    /// The code of a stage, unless its actor failed too often.
    pub(crate) fn handler(&self, stage: usize) -> Option<Handler> {
        let state = self.state();
        let live = &state.live[stage];
        live.handler.clone().filter(|_| live.down.is_none())
    }

    /// Marks a stage with an actor that failed too often.
    pub(crate) fn down(&self, stage: usize, reason: String) {
        let mut state = self.state();
        let live = &mut state.live[stage];
        (live.down, live.actor, live.awake) = (Some(reason), None, false);
        // Invalidates everything that still runs for the stage.
        (live.life, live.consumers) = (live.life + 1, live.consumers + 1);
        self.relieve(&mut state, stage);
        drop(state);
        self.tell();
    }

    /// Moves the cursor to `after`.
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
        let counted = self.count_on(stage, after, head)?;
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

    /// Releases a stopped stage, without its dead-lettered event, or a stage with state `down`.
    pub(crate) fn release(&self, stage: usize) -> Result<Position, PipelineError> {
        let mut state = self.state();
        let standing = state.pipeline.stage(stage);
        let stopped_at = standing.dead_letters.back().map_or(0, |parked| parked.seq);
        let name = self.topology.name(stage).clone();
        // Another process may have released the stage meanwhile.
        let is_counted = stopped_at > self.place_of(&state, stage).max(state.live[stage].uncounted);
        let mut position = state.position;
        if standing.stopped {
            let record = PipelineRecord::Released { stage: name };
            position = self.append(&mut state, Vec::new(), vec![record])?;
            let live = &mut state.live[stage];
            live.behind = live.behind.saturating_sub(u64::from(is_counted));
            self.topology.downstreams(stage).iter().for_each(|stage| state.wake(*stage));
        } else if state.live[stage].down.is_none() {
            return Err(PipelineError::NotStopped(name));
        }
        self.begin_anew(&mut state, stage);
        drop(state);
        self.tell();
        Ok(position)
    }

    fn begin_anew(&self, state: &mut LogState, stage: usize) {
        let live = &mut state.live[stage];
        live.life += 1;
        live.down = None;
        state.wake(stage);
    }

    /// Ends a stage without subscriptions, or one of another process that has received everything.
    pub(crate) fn end(&self, stage: usize) -> Result<Position, PipelineError> {
        // Reads what is needed before the lock is taken.
        self.is_through(stage)?;
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
            if !self.has_all_behind(&state, stage) {
                return Err(PipelineError::NotThrough(name));
            }
        }
        let position = self.append(&mut state, Vec::new(), vec![PipelineRecord::Ended { stage: name }])?;
        drop(state);
        self.tell();
        Ok(position)
    }

    /// Acknowledges work of another process after `after`.
    pub(crate) fn ack(&self, stage: usize, after: u64, done: Done) -> Result<Position, PipelineError> {
        let name = || self.topology.name(stage).clone();
        if self.topology.is_source(stage) {
            return Err(PipelineError::Source(name()));
        }
        let heard = self.count(stage, after, done.upto)?;
        let mut state = self.state();
        if state.live[stage].is_live() {
            return Err(PipelineError::Attached(name()));
        }
        let moved = |cursor| PipelineError::Moved { stage: name(), cursor, expected: after };
        let gap =
            state.pipeline.gap_before(stage, after).map_err(moved)?.map(|(first, last)| Gap { first, last });
        let head = state.pipeline.head();
        if done.upto > head || done.upto < after {
            let pipeline = self.topology.id().clone();
            return Err(PipelineError::Beyond { pipeline, seq: done.upto, head });
        }
        if !done.events.is_empty() {
            state.pipeline.check_open(stage)?;
            // A repeated acknowledgement must find another cursor.
            if gap.is_none() && done.upto == after {
                return Err(PipelineError::NothingAcknowledged { stage: name(), after });
            }
        }
        // Which removed events were for the stage is irrelevant: later ones are counted anew.
        let counted = gap.map(|_| self.count_on(stage, done.upto, head)).transpose()?;
        let position = self.settle(&mut state, stage, Done { heard, gap, ..done })?;
        if let Some(counted) = counted {
            self.recount(&mut state, stage, counted)?;
        }
        drop(state);
        self.tell();
        Ok(position)
    }

    /// Cursor, state and gap for another process. The gap is repeated until a later event is acknowledged.
    pub(crate) fn cursor(&self, stage: usize) -> (u64, Option<Json>, Option<Gap>) {
        let state = self.state();
        let standing = state.pipeline.stage(stage);
        let gap = state.pipeline.missed_gap(stage).map(|(first, last)| Gap { first, last });
        (gap.map_or(standing.cursor, |gap| gap.last), standing.state.clone(), gap)
    }
}
