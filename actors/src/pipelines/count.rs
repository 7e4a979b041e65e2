//! How far behind stages are, and what they read: pages of the log, and how many events of it are for them.

use std::sync::Arc;

use ostler_kernel::event::{Event, Published};
use ostler_kernel::port::{JournalError, Recorded, Seq};

use super::log::LogState;
use super::stage::PipelineEvent;
use crate::pipelines::log::Log;
use crate::storage::run_reader::READ_AT_ONCE;

/// Events that are counted at once, to know how many of them a stage hears.
const COUNTED_MAX: u64 = 8 * READ_AT_ONCE as u64;

/// Events that are read at once where nothing is made of them, or only an answer: at most so many of the largest are held.
pub(crate) const FEW_AT_ONCE: usize = 64;

/// Events that a stage is to hear.
pub(crate) struct Counted {
    /// How many.
    count: u64,
    /// Up to here.
    upto: u64,
    /// Up to here they were too many to count.
    uncounted: u64,
}

impl Log {
    /// Events that a stage is still to hear; where there are too many to count, those that it may have to hear.
    pub(crate) fn lag_of(&self, state: &LogState, stage: usize) -> u64 {
        let live = &state.live[stage];
        live.behind + live.uncounted.saturating_sub(self.place_of(state, stage))
    }

    /// Up to where a stage has heard everything.
    pub(crate) fn place_of(&self, state: &LogState, stage: usize) -> u64 {
        state.pipeline.stage(stage).cursor.max(state.seen[stage])
    }

    /// Up to where a stage has found nothing for it among the events that are kept.
    pub(crate) fn seen(&self, state: &LogState, stage: usize) -> u64 {
        match self.lag_of(state, stage) {
            0 => state.pipeline.head(),
            _ => state.seen[stage],
        }
    }

    /// Whether a stage has heard everything that will ever come, and nothing that is gone is still to be told to it; as far as is known:
    /// [`Log::is_through`] finds out.
    pub(crate) fn has_all_behind(&self, state: &LogState, stage: usize) -> bool {
        state.pipeline.upstreams_ended(stage)
            && state.pipeline.missed_gap(stage).is_none()
            && self.lag_of(state, stage) == 0
    }

    /// The same. Where there were too many events to count, it looks whether any of them is for the stage, and remembers up to where
    /// none is.
    pub(crate) fn is_through(&self, stage: usize) -> Result<bool, JournalError> {
        loop {
            let (life, place) = {
                let state = self.state();
                let (live, place) = (&state.live[stage], self.place_of(&state, stage));
                let is_open =
                    !state.pipeline.upstreams_ended(stage) || state.pipeline.missed_gap(stage).is_some();
                // Code of this process knows how far it has come.
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
            // Somebody may have moved it meanwhile.
            if state.live[stage].life == life && self.place_of(&state, stage) == place {
                state.seen[stage] = upto;
                self.relieve(&mut state, stage);
            }
        }
    }

    /// Events after `after`, from the journal.
    fn read(&self, after: u64, limit: usize) -> Result<Vec<PipelineEvent>, JournalError> {
        let records = self.journal.read(self.stream.log(), Seq(after), limit)?;
        records.into_iter().map(event_of).collect()
    }

    /// The event of this number; `None`: there is none, or it is gone.
    pub(crate) fn event(&self, seq: u64) -> Result<Option<PipelineEvent>, JournalError> {
        if seq < self.state().pipeline.oldest() {
            return Ok(None);
        }
        Ok(self.read(seq - 1, 1)?.pop().filter(|event| event.seq == seq))
    }

    /// A page of the log after `after`, of `limit` events at most: what of it a stage hears, and up to where it goes.
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

    /// How many events that a stage hears come after `after`, up to `upto`.
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

    /// Counts the events that a stage hears after `after`, up to `upto`, unless there are too many.
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

    /// Counts what came since, and lets those go on that waited.
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

/// The event that a record of a log is.
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
