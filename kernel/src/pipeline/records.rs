//! Proposes the records of a change. Nothing here mutates the pipeline.

use super::spec::OnFailure;
use super::state::{
    DEAD_LETTER_REASON_CHARS_MAX, LOG_CHUNK_BYTES_MAX, LOG_CHUNK_EVENTS_MAX, LOG_CHUNKS_MIN, LogChunk,
    Pipeline, weight,
};
use crate::event::{PipelineRecord, Published};

impl Pipeline {
    /// The chunk records to append together with these events.
    ///  
    /// Retention works on chunks, so that one record sums up many events. A chunk closes after a number of events or bytes that is
    /// a fraction of the retention. When a chunk closes, the oldest chunks are dropped as long as the rest still satisfies the
    /// retention, in events or in bytes. Hence the log keeps at least the retention and at most about two chunks more.
    pub fn chunk_records(&self, events: &[Published]) -> Vec<PipelineRecord> {
        let keep = self.topology.keep();
        let events_max = (keep.events / LOG_CHUNKS_MIN).clamp(1, LOG_CHUNK_EVENTS_MAX);
        let bytes_max = (keep.bytes / LOG_CHUNKS_MIN).clamp(1, LOG_CHUNK_BYTES_MAX);
        let (mut head, mut oldest, mut bytes) = (self.head, self.oldest, self.bytes());
        let (mut begun, mut open_bytes) = (self.chunked_upto(), self.open_bytes);
        let mut closed: Vec<LogChunk> = Vec::new();
        let mut dropped = 0;
        let mut records = Vec::new();
        for event in events {
            (head, open_bytes, bytes) = (head + 1, open_bytes + weight(event), bytes + weight(event));
            if head - begun < events_max && open_bytes < bytes_max {
                continue;
            }
            closed.push(LogChunk { upto: head, bytes: open_bytes });
            // Drop the oldest chunk only if what remains is still enough.
            loop {
                let older = self.chunks.get(dropped);
                let older = older.or_else(|| closed.get(dropped.checked_sub(self.chunks.len())?));
                let Some(older) = older.filter(|older| older.upto < head) else { break };
                if head - older.upto < keep.events && bytes - older.bytes < keep.bytes {
                    break;
                }
                (oldest, bytes, dropped) = (older.upto + 1, bytes - older.bytes, dropped + 1);
            }
            records.push(PipelineRecord::LogChunk { upto: head, bytes: open_bytes, oldest });
            (begun, open_bytes) = (head, 0);
        }
        records
    }

    /// Acknowledgements to append together with `records`; they spare stages a false gap notice.
    ///  
    /// Stages do not acknowledge events of other types one by one. A cursor can therefore lie in a chunk dropped by `records` even
    /// though the stage has read past the chunk and found nothing. Without an acknowledgement the stage would be told of missed
    /// events. `seen` gives the last position up to which a stage found no event of its types. A stage with a gap ahead
    /// stays behind, because the dropped events may have been of subscribed types.
    pub fn skip_records(
        &self,
        records: &[PipelineRecord],
        seen: impl Fn(usize) -> u64,
    ) -> Vec<PipelineRecord> {
        let oldest = records.iter().rev().find_map(|record| match record {
            PipelineRecord::LogChunk { oldest, .. } => Some(*oldest),
            _ => None,
        });
        let Some(oldest) = oldest else { return Vec::new() };
        let subscribers = (0..self.topology.len()).filter(|stage| !self.topology.is_source(*stage));
        subscribers
            .filter_map(|stage| {
                let (cursor, upto) = (self.cursor_with(stage, records), seen(stage));
                let passes = cursor + 1 >= self.oldest && cursor + 1 < oldest && upto > cursor;
                let name = || self.topology.name(stage).clone();
                passes.then(|| PipelineRecord::Acked { stage: name(), upto, state: None })
            })
            .collect()
    }

    /// The stage's cursor after these records.
    fn cursor_with(&self, stage: usize, records: &[PipelineRecord]) -> u64 {
        let this = self.topology.name(stage);
        let moves = records.iter().filter_map(|record| match record {
            PipelineRecord::Acked { stage, upto, .. } if stage == this => Some(*upto),
            PipelineRecord::DeadLettered { stage, seq, stops: false, .. } if stage == this => Some(*seq),
            PipelineRecord::Lagged { stage, last, .. } if stage == this => Some(*last),
            _ => None,
        });
        moves.fold(self.stages[stage].cursor, u64::max)
    }

    /// The record of a failure at event `seq`; 0 denotes the end of the stage's input.
    pub fn failure_record(&self, stage: usize, seq: u64, reason: &str) -> PipelineRecord {
        let before = self.stages[stage].failed.as_ref().filter(|failed| failed.seq == seq);
        PipelineRecord::Failed {
            stage: self.topology.name(stage).clone(),
            seq,
            times: before.map_or(0, |failed| failed.times) + 1,
            reason: reason.chars().take(DEAD_LETTER_REASON_CHARS_MAX).collect(),
        }
    }

    /// The record that turns event `seq` into a dead letter; 0 denotes the end of the stage's input.
    pub fn dead_letter_record(&self, stage: usize, seq: u64, reason: &str) -> PipelineRecord {
        PipelineRecord::DeadLettered {
            stage: self.topology.name(stage).clone(),
            seq,
            reason: reason.chars().take(DEAD_LETTER_REASON_CHARS_MAX).collect(),
            stops: self.topology.on_failure(stage) == OnFailure::Stop,
        }
    }
}
