//! Applies records. The only code that mutates a pipeline, live and in recovery.

use super::state::{
    DEAD_LETTERS_KEPT_MAX, DeadLetter, FailedEvent, IllegalRecord, LogChunk, Pipeline, StageState, weight,
};
use crate::event::{PipelineRecord, Published};
use crate::id::StageId;

impl Pipeline {
    /// Applies a published event.
    pub fn publish(&mut self, event: &Published) {
        self.head += 1;
        self.open_bytes += weight(event);
    }

    /// Applies a record.
    ///  
    /// # Errors
    ///  
    /// The record contradicts the records before it; the pipeline is unchanged.
    pub fn apply(&mut self, record: &PipelineRecord) -> Result<(), IllegalRecord> {
        use PipelineRecord as P;
        if self.removed {
            return Err(IllegalRecord("it was removed before".into()));
        }
        match record {
            P::Created { .. } => Err(IllegalRecord("it is created a second time".into())),
            P::Acked { stage, upto, state } => {
                let stage_state = self.stage_state(stage)?;
                if *upto < stage_state.cursor {
                    let cursor = stage_state.cursor;
                    return Err(IllegalRecord(format!(
                        "stage {stage} is at {cursor} and acknowledges {upto}"
                    )));
                }
                stage_state.cursor = *upto;
                stage_state.clear_failure_upto(*upto);
                if state.is_some() {
                    stage_state.state.clone_from(state);
                }
                Ok(())
            }
            P::DeadLettered { stage, seq, reason, stops } => {
                let stage_state = self.stage_state(stage)?;
                stage_state.dead_letters_total += 1;
                stage_state.dead_letters.push_back(DeadLetter { seq: *seq, reason: reason.clone() });
                if stage_state.dead_letters.len() > DEAD_LETTERS_KEPT_MAX {
                    stage_state.dead_letters.pop_front();
                }
                (stage_state.stopped, stage_state.failed) = (*stops, None);
                if !stops {
                    stage_state.skip_event(*seq);
                }
                Ok(())
            }
            P::Released { stage } => {
                let stage_state = self.stage_state(stage)?;
                stage_state.stopped = false;
                let at = stage_state.dead_letters.back().map_or(0, |letter| letter.seq);
                stage_state.skip_event(at);
                Ok(())
            }
            P::Moved { stage, after, keeps_state } => self.move_to(stage, *after, *keeps_state),
            P::Lagged { stage, first, last } => {
                let stage_state = self.stage_state(stage)?;
                stage_state.missed += (last + 1).saturating_sub(*first);
                stage_state.cursor = stage_state.cursor.max(*last);
                stage_state.clear_failure_upto(*last);
                Ok(())
            }
            P::LogChunk { upto, bytes, oldest } => self.chunk(*upto, *bytes, *oldest),
            P::Ended { stage } => {
                let stage_state = self.stage_state(stage)?;
                (stage_state.ended, stage_state.failed) = (true, None);
                Ok(())
            }
            P::Failed { stage, seq, times, reason } => {
                let failed = FailedEvent { seq: *seq, times: *times, reason: reason.clone() };
                self.stage_state(stage)?.failed = Some(failed);
                Ok(())
            }
            P::Removed { upto } => self.remove(*upto),
        }
    }

    fn stage_state(&mut self, stage: &StageId) -> Result<&mut StageState, IllegalRecord> {
        let found = self.topology.find(stage.as_str());
        let found = found.ok_or_else(|| IllegalRecord(format!("there is no stage {stage}")))?;
        Ok(&mut self.stages[found])
    }

    /// Moves a cursor. The stage and all stages downstream that had ended reopen, because the events read again may produce new
    /// events for them.
    fn move_to(&mut self, stage: &StageId, after: u64, keeps_state: bool) -> Result<(), IllegalRecord> {
        let stage_state = self.stage_state(stage)?;
        (stage_state.cursor, stage_state.stopped, stage_state.failed) = (after, false, None);
        if !keeps_state {
            stage_state.state = None;
        }
        let Some(moved) = self.topology.find(stage.as_str()) else { return Ok(()) };
        let mut reopened = vec![moved];
        while let Some(stage) = reopened.pop() {
            if std::mem::take(&mut self.stages[stage].ended) || stage == moved {
                reopened.extend(self.topology.downstreams(stage));
            }
        }
        Ok(())
    }

    fn remove(&mut self, upto: u64) -> Result<(), IllegalRecord> {
        // During recovery the head is that of the last chunk, so the record may name later events.
        if upto < self.head {
            return Err(IllegalRecord(format!("it has {} events and is removed after {upto}", self.head)));
        }
        (self.head, self.oldest, self.removed) = (upto, upto + 1, true);
        (self.chunked_bytes, self.open_bytes) = (0, 0);
        self.chunks.clear();
        Ok(())
    }

    fn chunk(&mut self, upto: u64, bytes: u64, oldest: u64) -> Result<(), IllegalRecord> {
        if upto <= self.chunked_upto() || oldest < self.oldest || oldest > upto + 1 {
            return Err(IllegalRecord(format!("a chunk up to {upto} does not follow the one before it")));
        }
        // During recovery chunk records come first; the events behind the last chunk follow.
        if self.head < upto {
            (self.head, self.open_bytes) = (upto, 0);
        } else {
            self.open_bytes = self.open_bytes.saturating_sub(bytes);
        }
        self.chunks.push_back(LogChunk { upto, bytes });
        self.chunked_bytes += bytes;
        self.oldest = oldest;
        while let Some(first) = self.chunks.front().filter(|first| first.upto < oldest) {
            self.chunked_bytes -= first.bytes;
            self.chunks.pop_front();
        }
        Ok(())
    }
}

impl StageState {
    /// Clears a failure at an event up to `upto`. A failure at the end of the input (0) lies behind every event.
    fn clear_failure_upto(&mut self, upto: u64) {
        self.failed = self.failed.take().filter(|failed| failed.seq == 0 || failed.seq > upto);
    }

    /// Moves past a dead letter. A dead letter for the end of the input ends the stage.
    fn skip_event(&mut self, seq: u64) {
        match seq {
            0 => self.ended = true,
            seq => self.cursor = self.cursor.max(seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::canonical;
    use crate::pipeline::{Keep, PipelineSpec, StageSpec, Topology};

    fn topology() -> Topology {
        let spec = PipelineSpec::new("p").stage(StageSpec::new("a").publishes(["x"]));
        let spec = spec.stage(StageSpec::new("b").subscribes(["x"])).keep(Keep { events: 8, bytes: 1 << 20 });
        spec.validate().unwrap()
    }

    #[test]
    fn a_pipeline_after_a_removed_one_numbers_on_and_owes_nothing() {
        let publish = |pipeline: &mut Pipeline| {
            let event =
                Published { stage: "a".into(), kind: "x".into(), data: canonical(&1.into()).unwrap() };
            let records = pipeline.chunk_records(std::slice::from_ref(&event));
            pipeline.publish(&event);
            records.iter().for_each(|record| pipeline.apply(record).unwrap());
        };
        let mut first = Pipeline::new(topology());
        for _ in 0..20 {
            publish(&mut first);
        }
        assert!(first.apply(&PipelineRecord::Removed { upto: 19 }).is_err());
        first.apply(&PipelineRecord::Removed { upto: 20 }).unwrap();
        assert_eq!((first.is_removed(), first.bytes(), first.oldest()), (true, 0, 21));
        assert!(first.apply(&PipelineRecord::Ended { stage: "a".into() }).is_err());

        let mut next = Pipeline::after_removed(topology(), 20);
        assert_eq!((next.head(), next.oldest(), next.missed_gap(1)), (20, 21, None));
        publish(&mut next);
        assert_eq!((next.head(), next.oldest(), next.chunked_upto()), (21, 21, 21));
    }
}
