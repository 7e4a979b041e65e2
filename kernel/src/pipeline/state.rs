//! The state of a pipeline: retained log, and cursor, state and dead letters per stage.
//!  
//! A fold over the pipeline's records. A change takes three steps: propose the record (`records.rs`), append the record to
//! the journal, apply the record (`apply.rs`). Recovery repeats only the third.

use std::collections::VecDeque;

use super::output::OUTPUT_BYTES_MAX;
use super::topology::Topology;
use crate::event::Published;
use crate::id::StageId;
use crate::json::Json;

/// Maximum bytes of an event's data, as canonical JSON.
pub const EVENT_BYTES_MAX: usize = 256 * 1_024;

/// Maximum bytes of a stage's state, as canonical JSON.
pub const STATE_BYTES_MAX: usize = 1 << 20;

/// Bytes that an event counts towards retention beside its data and its type.
pub const EVENT_BYTES_FLAT: u64 = 32;

/// Failures at one event after which the event becomes a dead letter.
pub const TRIES_MAX: u32 = 3;

/// Newest dead letters listed per stage; older ones are only counted.
pub const DEAD_LETTERS_KEPT_MAX: usize = 100;

/// Maximum characters of a dead letter's reason.
pub const DEAD_LETTER_REASON_CHARS_MAX: usize = 1_000;

/// Events after which a log chunk closes.
pub const LOG_CHUNK_EVENTS_MAX: u64 = 1_024;

/// Bytes of events after which a log chunk closes.
pub const LOG_CHUNK_BYTES_MAX: u64 = 4 << 20;

/// Chunks into which the retention is divided at least, so that a dropped chunk is a small part of the log.
pub(super) const LOG_CHUNKS_MIN: u64 = 8;

/// State of a pipeline. Events carry sequence numbers from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub(super) topology: Topology,
    /// Last event; 0 before the first.
    pub(super) head: u64,
    /// Oldest retained event; `head + 1` if none is.
    pub(super) oldest: u64,
    pub(super) chunks: VecDeque<LogChunk>,
    pub(super) chunked_bytes: u64,
    /// Bytes of the events behind the last closed chunk.
    pub(super) open_bytes: u64,
    pub(super) stages: Vec<StageState>,
    pub(super) removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogChunk {
    pub(super) upto: u64,
    pub(super) bytes: u64,
}

/// Progress of a stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageState {
    /// Last acknowledged event. The stage has handled every event up to here.
    pub cursor: u64,
    /// State kept with the last acknowledgement; the stage starts with this state after a restart.
    pub state: Option<Json>,
    /// Newest dead letters, at most [`DEAD_LETTERS_KEPT_MAX`].
    pub dead_letters: VecDeque<DeadLetter>,
    /// All dead letters ever.
    pub dead_letters_total: u64,
    /// Events dropped from the log before the stage read them.
    pub missed: u64,
    /// The stage waits for an operator behind a dead letter.
    pub stopped: bool,
    /// The stage publishes no further events.
    pub ended: bool,
    /// Latest failure, until the stage passes the event.
    pub failed: Option<FailedEvent>,
}

/// An event at which a stage failed and which the stage retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedEvent {
    /// Sequence number; 0 denotes the end of the stage's input.
    pub seq: u64,
    /// Failures so far.
    pub times: u32,
    /// Error of the last failure.
    pub reason: String,
}

impl FailedEvent {
    /// True after [`TRIES_MAX`] failures: the event becomes a dead letter.
    pub fn is_exhausted(&self) -> bool {
        self.times >= TRIES_MAX
    }
}

/// An event that a stage failed to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Sequence number; 0 denotes the end of the stage's input.
    pub seq: u64,
    /// Error of the last failure.
    pub reason: String,
}

/// Outcome of a stage's next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRead {
    /// Events follow: read the log.
    Read,
    /// Events were dropped: report the gap, then continue behind it.
    Gap {
        /// First dropped event.
        first: u64,
        /// Last dropped event.
        last: u64,
    },
    /// No event yet: wait.
    Wait,
    /// The input ended: no further event will come.
    End,
    /// The stage waits for an operator.
    Stopped,
    /// The stage has ended.
    Over,
}

/// Reasons to refuse an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishRefusal {
    /// The stage does not declare the type.
    #[error(
        "stage {stage} does not publish {kind}: it declares {}",
        if declared.is_empty() { "nothing".to_owned() } else { declared.join(", ") }
    )]
    UnauthorizedPublish {
        /// Publishing stage.
        stage: StageId,
        /// Type of the event.
        kind: String,
        /// Types that the stage declares.
        declared: Vec<String>,
    },
    /// The event's data exceeds [`EVENT_BYTES_MAX`].
    #[error(
        "an event of {bytes} bytes, expected at most {EVENT_BYTES_MAX}: publish where it is, not what it is"
    )]
    TooLarge {
        /// Bytes of the data.
        bytes: usize,
    },
    /// The append would exceed [`OUTPUT_BYTES_MAX`].
    #[error(
        "events of {bytes} bytes at once, expected at most {OUTPUT_BYTES_MAX}: publish fewer, or smaller ones"
    )]
    TooMuch {
        /// Bytes of the append.
        bytes: usize,
    },
    /// The stage has ended.
    #[error("stage {0} has ended: it publishes nothing more")]
    Ended(StageId),
}

/// A record that contradicts the records before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("illegal pipeline record: {0}")]
pub struct IllegalRecord(pub String);

/// Bytes that an event counts towards retention.
pub(super) fn weight(event: &Published) -> u64 {
    event.data.as_str().len() as u64 + event.kind.as_str().len() as u64 + EVENT_BYTES_FLAT
}

impl Pipeline {
    /// A pipeline before its first event.
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
            removed: false,
        }
    }

    /// A pipeline declared under the name of a removed one with events up to `upto`.
    pub fn after_removed(topology: Topology, upto: u64) -> Pipeline {
        let mut pipeline = Pipeline::new(topology);
        (pipeline.head, pipeline.oldest) = (upto, upto + 1);
        pipeline.stages.iter_mut().for_each(|stage| stage.cursor = upto);
        pipeline
    }

    /// True after the record of its removal: no other record follows.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// The subscription graph.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Last event; 0 before the first.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Oldest retained event; `head + 1` if none is.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Bytes of the retained events.
    pub fn bytes(&self) -> u64 {
        self.chunked_bytes + self.open_bytes
    }

    /// Last event of the last closed chunk. Recovery needs to read only later events, since chunk records sum up the earlier
    /// ones.
    pub fn chunked_upto(&self) -> u64 {
        self.chunks.back().map_or(self.oldest - 1, |chunk| chunk.upto)
    }

    /// Progress of a stage.
    pub fn stage(&self, stage: usize) -> &StageState {
        &self.stages[stage]
    }

    /// Checks that a stage may still publish. [`Topology::check_publish`] checks type and size.
    ///  
    /// # Errors
    ///  
    /// [`PublishRefusal::Ended`].
    pub fn check_open(&self, stage: usize) -> Result<(), PublishRefusal> {
        match self.stages[stage].ended {
            true => Err(PublishRefusal::Ended(self.topology.name(stage).clone())),
            false => Ok(()),
        }
    }

    /// True if every upstream stage has ended, so the log holds the stage's whole input.
    pub fn upstreams_ended(&self, stage: usize) -> bool {
        self.topology.upstreams(stage).iter().all(|upstream| self.stages[*upstream].ended)
    }

    /// First and last dropped event behind the stage's cursor; the stage still needs the gap notice.
    pub fn missed_gap(&self, stage: usize) -> Option<(u64, u64)> {
        let first = self.stages[stage].cursor + 1;
        let owed = !self.topology.is_source(stage) && first < self.oldest;
        owed.then(|| (first, self.oldest - 1))
    }

    /// Checks the position that a remote consumer acknowledges from, and returns the gap before it.
    ///  
    /// `after` must be the stage's cursor (no gap, `None`), or lie in the range of dropped events behind the cursor: the consumer
    /// got a gap notice up to `after` and read on from there.
    ///  
    /// # Errors
    ///  
    /// The cursor, if `after` is neither: the consumer's position is stale.
    pub fn gap_before(&self, stage: usize, after: u64) -> Result<Option<(u64, u64)>, u64> {
        let cursor = self.stages[stage].cursor;
        match self.missed_gap(stage) {
            _ if after == cursor => Ok(None),
            Some((first, last)) if (first..=last).contains(&after) => Ok(Some((first, after))),
            _ => Err(cursor),
        }
    }

    /// Outcome of the next read behind `after`: the stage's cursor, or a later position read but not yet acknowledged.
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
}
