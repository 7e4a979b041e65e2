//! Lag of stages, and pages of the log for them.

use std::sync::Arc;

use ostler_kernel::event::{Event, Published};
use ostler_kernel::port::{JournalError, Recorded, Seq};

use super::log::LogState;
use super::stage::PipelineEvent;
use crate::pipelines::log::Log;
use crate::storage::run_reader::READ_AT_ONCE;

/// Events in one exact count of a stage's lag.
const COUNTED_MAX: u64 = 8 * READ_AT_ONCE as u64;

/// Events in one read that keeps few of them: bounds the memory of large events.
pub(crate) const FEW_AT_ONCE: usize = 64;

pub(crate) struct Counted {
    count: u64,
    upto: u64,
    /// Up to here there were too many to count.
    uncounted: u64,
}

impl Log {
    /// Lag of a stage; an upper bound where there are too many events to count.
    pub(crate) fn lag_of(&self, state: &LogState, stage: usize) -> u64 {
        let live = &state.live[stage];
        live.behind + live.uncounted.saturating_sub(self.place_of(state, stage))
    }

    /// Position up to which a stage has received everything.
    pub(crate) fn place_of(&self, state: &LogState, stage: usize) -> u64 {
        state.pipeline.stage(stage).cursor.max(state.seen[stage])
    }

    /// Position up to which no kept event is for the stage.
    pub(crate) fn seen(&self, state: &LogState, stage: usize) -> u64 {
        match self.lag_of(state, stage) {
            0 => state.pipeline.head(),
            _ => state.seen[stage],
        }
    }

    /// True if a stage has received everything that will come and knows all gaps, as far as is known;
    /// [`Log::is_through`] finds out.
    pub(crate) fn has_all_behind(&self, state: &LogState, stage: usize) -> bool {
        state.pipeline.upstreams_ended(stage)
            && state.pipeline.missed_gap(stage).is_none()
            && self.lag_of(state, stage) == 0
    }

    /// Like the estimate, but exact: searches the events if there were too many to count, and remembers the result.
    pub(crate) fn is_through(&self, stage: usize) -> Result<bool, JournalError> {
        loop {
            let (life, place) = {
                let state = self.state();
                let (live, place) = (&state.live[stage], self.place_of(&state, stage));
                let is_open =
                    !state.pipeline.upstreams_ended(stage) || state.pipeline.missed_gap(stage).is_some();
                // A stage with code here knows its own position.
                if is_open || live.behind > 0 || live.uncounted <= place || live.is_live() {
                    return Ok(self.has_all_behind(&state, stage));
                }
                (live.life, place)
            };
            let (heard, upto) = self.page(stage, place, FEW_AT_ONCE)?;
            if !heard.is_empty() || upto == place {
                return Ok(false);
            }
            let mut state = self.state();
            // The cursor may have been moved meanwhile.
            if state.live[stage].life == life && self.place_of(&state, stage) == place {
                state.seen[stage] = upto;
                self.relieve(&mut state, stage);
            }
        }
    }

    /// Reads events after `after` from the journal.
    fn read(&self, after: u64, limit: usize) -> Result<Vec<PipelineEvent>, JournalError> {
        let records = self.journal.read(self.stream.log(), Seq(after), limit)?;
        records.into_iter().map(event_of).collect()
    }

    /// An event by number; `None` if unknown or deleted.
    pub(crate) fn event(&self, seq: u64) -> Result<Option<PipelineEvent>, JournalError> {
        if seq < self.state().pipeline.oldest() {
            return Ok(None);
        }
        Ok(self.read(seq - 1, 1)?.pop().filter(|event| event.seq == seq))
    }

    /// A page of the log after `after`, of at most `limit` events: those for the stage, and the page's end.
    pub(crate) fn page(
        &self,
        stage: usize,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<PipelineEvent>>, u64), JournalError> {
        let events = self.read(after, limit)?;
        let upto = events.last().map_or(after, |event| event.seq);
        let heard = events.into_iter().filter(|event| self.topology.subscribes_to(stage, &event.kind));
        Ok((heard.map(Arc::new).collect(), upto))
    }

    /// Number of events for the stage after `after`, up to `upto`.
    pub(crate) fn count(&self, stage: usize, after: u64, upto: u64) -> Result<u64, JournalError> {
        let (mut at, mut count) = (after, 0);
        while at < upto {
            let page = self.read(at, FEW_AT_ONCE)?;
            let Some(last) = page.last() else { break };
            at = last.seq;
            let heard = page
                .iter()
                .filter(|event| event.seq <= upto && self.topology.subscribes_to(stage, &event.kind));
            count += heard.count() as u64;
        }
        Ok(count)
    }

    /// Counts events for the stage after `after`, up to `upto`, unless they are too many.
    pub(crate) fn count_on(&self, stage: usize, after: u64, upto: u64) -> Result<Counted, JournalError> {
        Ok(match upto.saturating_sub(after) {
            few @ 0..=COUNTED_MAX => Counted {
                count: if few > 0 { self.count(stage, after, upto)? } else { 0 },
                upto,
                uncounted: 0,
            },
            _ => Counted { count: 0, upto, uncounted: upto },
        })
    }

    pub(crate) fn recount(
        &self,
        state: &mut LogState,
        stage: usize,
        counted: Counted,
    ) -> Result<(), JournalError> {
        let Counted { count, upto, uncounted } = counted;
        let since = self.count(stage, upto, state.pipeline.head())?;
        let live = &mut state.live[stage];
        (live.behind, live.uncounted) = (count + since, uncounted);
        self.relieve(state, stage);
        Ok(())
    }
}

pub(crate) fn event_of(record: Recorded) -> Result<PipelineEvent, JournalError> {
    match record.event {
        Event::Published(Published { stage, kind, data }) => {
            Ok(PipelineEvent { seq: record.seq.0, at_ms: record.at_ms, stage, kind, data })
        }
        _ => Err(JournalError::Damaged {
            place: format!("record {} of a pipeline's log", record.seq.0),
            what: "it is no event".to_owned(),
        }),
    }
}
