//! How a pipeline stands: what its log keeps, and how far each stage has come. A fold of its records; whoever changes it
//! asks here what to record, records it, and applies it.

use std::collections::VecDeque;

use super::output::OUTPUT_BYTES_MAX;
use super::spec::OnFailure;
use super::topology::Topology;
use crate::event::{PipelineRecord, Published};
use crate::id::StageId;
use crate::json::Json;

/// Bytes of the data of an event, as canonical JSON, at most.
pub const EVENT_BYTES_MAX: usize = 256 * 1_024;

/// Bytes of the state of a stage, as canonical JSON, at most.
pub const STATE_BYTES_MAX: usize = 1 << 20;

/// What an event counts for besides its data and its type, in bytes.
pub const EVENT_BYTES_FLAT: u64 = 32;

/// Times that a stage may fail at an event before the event is parked.
pub const TRIES_MAX: u32 = 3;

/// Parked events of a stage that are listed, the newest; the others are only counted.
pub const DEAD_LETTERS_KEPT_MAX: usize = 100;

/// Characters of the reason for which an event is parked.
pub const DEAD_LETTER_REASON_CHARS_MAX: usize = 1_000;

/// Events after which a chunk of the log is complete.
pub const LOG_CHUNK_EVENTS_MAX: u64 = 1_024;

/// Bytes of events after which a chunk of the log is complete.
pub const LOG_CHUNK_BYTES_MAX: u64 = 4 << 20;

/// Stretches that a quota is divided into, so that what is dropped at once is a small part of it.
pub(super) const LOG_CHUNKS_MIN: u64 = 8;

/// How a pipeline stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    topology: Topology,
    /// The number of the last event; 0: there is none.
    head: u64,
    /// The number of the oldest event that is kept, or of the first that comes.
    oldest: u64,
    /// Complete chunks that are kept, the oldest first.
    chunks: VecDeque<LogChunk>,
    /// Bytes of the complete chunks.
    chunked_bytes: u64,
    /// Bytes of the events behind them.
    open_bytes: u64,
    stages: Vec<StageState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogChunk {
    /// Its last event.
    upto: u64,
    bytes: u64,
}

/// How far a stage has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageState {
    /// It has dealt with everything up to here.
    pub cursor: u64,
    /// What it gets back when it starts again.
    pub state: Option<Json>,
    /// The newest of the events that were parked for it.
    pub dead_letters: VecDeque<DeadLetter>,
    /// How many there were in all.
    pub dead_letters_total: u64,
    /// Events that were gone before it had come to them.
    pub missed: u64,
    /// It waits for a person at an event that was parked: at the next one after its cursor, or at the end.
    pub stopped: bool,
    /// It publishes nothing more.
    pub ended: bool,
    /// What it failed at last, unless it has got past that.
    pub failed: Option<FailedEvent>,
}

/// An event that a stage failed at, and tries again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedEvent {
    /// Its number; 0: the end of what the stage hears.
    pub seq: u64,
    /// How often it failed.
    pub times: u32,
    /// What happened the last time.
    pub reason: String,
}

impl FailedEvent {
    /// Whether it is to be parked: it failed [`TRIES_MAX`] times.
    pub fn is_exhausted(&self) -> bool {
        self.times >= TRIES_MAX
    }
}

/// An event that was too much for a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number; 0: the end of what the stage hears.
    pub seq: u64,
    /// What happened the last time.
    pub reason: String,
}

/// What a stage is to do that has dealt with everything up to a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRead {
    /// Read the log after that point.
    Read,
    /// Hear that these events are gone, and go on behind them.
    Gap {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// Wait: there is nothing.
    Wait,
    /// Hear that nothing more comes.
    End,
    /// Nothing: it stopped at an event that was parked.
    Stopped,
    /// Nothing: it has ended.
    Over,
}

/// Why an event is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishRefusal {
    /// The type is not among those that the stage publishes.
    #[error(
        "stage {stage} does not publish {kind}: it declares {}",
        if declared.is_empty() { "nothing".to_owned() } else { declared.join(", ") }
    )]
    UnauthorizedPublish {
        /// Which stage.
        stage: StageId,
        /// The type.
        kind: String,
        /// What it may publish.
        declared: Vec<String>,
    },
    /// The data is too large.
    #[error(
        "an event of {bytes} bytes, expected at most {EVENT_BYTES_MAX}: publish where it is, not what it is"
    )]
    TooLarge {
        /// How large.
        bytes: usize,
    },
    /// With what is published besides, it is too much for one append.
    #[error(
        "events of {bytes} bytes at once, expected at most {OUTPUT_BYTES_MAX}: publish fewer, or smaller ones"
    )]
    TooMuch {
        /// How large they are in all.
        bytes: usize,
    },
    /// The stage has said that it publishes nothing more.
    #[error("stage {0} has ended: it publishes nothing more")]
    Ended(StageId),
}

/// A record that does not follow from those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a record of the pipeline makes no sense: {0}")]
pub struct IllegalRecord(pub String);

/// What an event counts for in the quota of its pipeline, in bytes.
fn weight(event: &Published) -> u64 {
    event.data.as_str().len() as u64 + event.kind.as_str().len() as u64 + EVENT_BYTES_FLAT
}

impl Pipeline {
    /// A pipeline in which nothing has happened yet.
    pub fn new(topology: Topology) -> Pipeline {
        let stages = vec![StageState::default(); topology.len()];
        Pipeline {
            topology,
            head: 0,
            oldest: 1,
            chunks: VecDeque::new(),
            chunked_bytes: 0,
            open_bytes: 0,
            stages,
        }
    }

    /// Who hears whom.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The number of the last event; 0: there is none.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The number of the oldest event that is kept, or of the first that comes.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// What the events that are kept count for.
    pub fn bytes(&self) -> u64 {
        self.chunked_bytes + self.open_bytes
    }

    /// The last event that need not be read again to know how the log stands.
    pub fn chunked_upto(&self) -> u64 {
        self.chunks.back().map_or(self.oldest - 1, |chunk| chunk.upto)
    }

    /// How far a stage has come.
    pub fn stage(&self, stage: usize) -> &StageState {
        &self.stages[stage]
    }

    /// Whether a stage may publish anything now. What it may publish at all, its [topology](Topology::check_publish) says.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn check_open(&self, stage: usize) -> Result<(), PublishRefusal> {
        match self.stages[stage].ended {
            true => Err(PublishRefusal::Ended(self.topology.name(stage).clone())),
            false => Ok(()),
        }
    }

    /// Whether nothing more comes for a stage than what is in the log: those before it have ended.
    pub fn upstreams_ended(&self, stage: usize) -> bool {
        self.topology.upstreams(stage).iter().all(|upstream| self.stages[*upstream].ended)
    }

    /// Events that are gone, and that a stage is still to be told of.
    pub fn missed_gap(&self, stage: usize) -> Option<(u64, u64)> {
        let first = self.stages[stage].cursor + 1;
        let owed = !self.topology.is_source(stage) && first < self.oldest;
        owed.then(|| (first, self.oldest - 1))
    }

    /// The gap that somebody was told of who acknowledges for a stage what comes after `after`; `None`: nothing is gone before
    /// that.
    ///
    /// # Errors
    ///
    /// The cursor: neither is it there, nor are just those events gone that lie between.
    pub fn gap_before(&self, stage: usize, after: u64) -> Result<Option<(u64, u64)>, u64> {
        let cursor = self.stages[stage].cursor;
        match self.missed_gap(stage) {
            _ if after == cursor => Ok(None),
            Some((first, last)) if (first..=last).contains(&after) => Ok(Some((first, after))),
            _ => Err(cursor),
        }
    }

    /// What a stage is to do that has dealt with everything up to `after`: its cursor, or beyond it what it has not
    /// acknowledged yet.
    pub fn next(&self, stage: usize, after: u64) -> NextRead {
        let stage_state = &self.stages[stage];
        if stage_state.stopped {
            return NextRead::Stopped;
        }
        if after + 1 < self.oldest {
            return NextRead::Gap { first: after + 1, last: self.oldest - 1 };
        }
        if after < self.head {
            return NextRead::Read;
        }
        if stage_state.ended {
            return NextRead::Over;
        }
        if self.upstreams_ended(stage) && !self.topology.is_source(stage) {
            NextRead::End
        } else {
            NextRead::Wait
        }
    }

    /// What is to be recorded with these events: where chunks of the log become complete, and what is over the quota then.
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
            // What is left without the oldest chunk must be as much as is to be kept.
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

    /// What is to be recorded besides `records`, chunks among them: where old events go, a stage that has only not yet
    /// acknowledged that none of them is for it passes over them, and is not told of a gap. `seen`: up to where a stage has
    /// found nothing for it among the events that are kept. Of those that are gone nobody knows that any more, so who is
    /// still to be told of a gap is told.
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
        let hearing = (0..self.topology.len()).filter(|stage| !self.topology.is_source(*stage));
        hearing
            .filter_map(|stage| {
                let (cursor, upto) = (self.cursor_with(stage, records), seen(stage));
                let passes = cursor + 1 >= self.oldest && cursor + 1 < oldest && upto > cursor;
                let name = || self.topology.name(stage).clone();
                passes.then(|| PipelineRecord::Acked { stage: name(), upto, state: None })
            })
            .collect()
    }

    /// Where the cursor of a stage is when these records have taken effect.
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

    /// What is to be recorded when a stage failed at an event; `seq` 0: the end of what it hears.
    pub fn failure_record(&self, stage: usize, seq: u64, reason: &str) -> PipelineRecord {
        let before = self.stages[stage].failed.as_ref().filter(|failed| failed.seq == seq);
        PipelineRecord::Failed {
            stage: self.topology.name(stage).clone(),
            seq,
            times: before.map_or(0, |failed| failed.times) + 1,
            reason: reason.chars().take(DEAD_LETTER_REASON_CHARS_MAX).collect(),
        }
    }

    /// What is to be recorded of an event that was too much for a stage; `seq` 0: the end of what it hears.
    pub fn dead_letter_record(&self, stage: usize, seq: u64, reason: &str) -> PipelineRecord {
        PipelineRecord::DeadLettered {
            stage: self.topology.name(stage).clone(),
            seq,
            reason: reason.chars().take(DEAD_LETTER_REASON_CHARS_MAX).collect(),
            stops: self.topology.on_failure(stage) == OnFailure::Stop,
        }
    }

    /// Lets an event take effect.
    pub fn publish(&mut self, event: &Published) {
        self.head += 1;
        self.open_bytes += weight(event);
    }

    /// Lets a record take effect.
    ///
    /// # Errors
    ///
    /// It does not follow from those before it; nothing has changed.
    pub fn apply(&mut self, record: &PipelineRecord) -> Result<(), IllegalRecord> {
        use PipelineRecord as P;
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
                let at = stage_state.dead_letters.back().map_or(0, |parked| parked.seq);
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
        }
    }

    fn stage_state(&mut self, stage: &StageId) -> Result<&mut StageState, IllegalRecord> {
        let found = self.topology.find(stage.as_str());
        let found = found.ok_or_else(|| IllegalRecord(format!("there is no stage {stage}")))?;
        Ok(&mut self.stages[found])
    }

    /// What is heard again may have more to say, and so may whoever hears that.
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

    fn chunk(&mut self, upto: u64, bytes: u64, oldest: u64) -> Result<(), IllegalRecord> {
        if upto <= self.chunked_upto() || oldest < self.oldest || oldest > upto + 1 {
            return Err(IllegalRecord(format!("a chunk up to {upto} does not follow the one before it")));
        }
        // Where the records are read again, the events come behind the last chunk.
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
    /// It has dealt with everything up to there; the end, where it may have failed, comes behind it all.
    fn clear_failure_upto(&mut self, upto: u64) {
        self.failed = self.failed.take().filter(|failed| failed.seq == 0 || failed.seq > upto);
    }

    /// Goes on behind an event that was parked, or ends without having heard the end.
    fn skip_event(&mut self, seq: u64) {
        match seq {
            0 => self.ended = true,
            seq => self.cursor = self.cursor.max(seq),
        }
    }
}
