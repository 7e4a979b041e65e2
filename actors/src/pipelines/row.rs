//! State of pipelines, as shown.

use std::borrow::Cow;

use ostler_kernel::id::{EventType, PipelineId, StageId};
use ostler_kernel::pipeline::{DeadLetter, Keep};
use ostler_kernel::port::Position;
use serde::{Deserialize, Serialize};

use super::log::LogState;
use super::stage::Gap;
use crate::pipelines::log::Log;

/// State of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineRow {
    /// The name.
    pub pipeline: PipelineId,
    /// Number of the last event; 0 without events.
    pub head: u64,
    /// Number of the oldest kept event.
    pub oldest: u64,
    /// Bytes of the kept events.
    pub bytes: u64,
    /// The quota.
    pub keep: Keep,
    /// The stages.
    pub stages: Vec<StageRow>,
}

/// State of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRow {
    /// The name.
    pub stage: StageId,
    /// Published types.
    pub publishes: Vec<EventType>,
    /// Subscribed types.
    pub subscribes: Vec<EventType>,
    /// `source`: fed from outside. `live`: code of the process. `external`: read and acknowledged by others, or unused
    /// so far. `stopped`: at a dead-lettered event. `down`: its actor failed too often. `ended`.
    pub state: Cow<'static, str>,
    /// The reason for `stopped` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last acknowledged event.
    pub cursor: u64,
    /// Events to receive; an upper bound where they were not counted.
    pub lag: u64,
    /// Removed events that the stage was told of.
    pub missed: u64,
    /// Removed events that the stage is still to be told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// The newest dead-lettered events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parked: Vec<DeadLetterRow>,
    /// Number of all dead-lettered events.
    pub parked_total: u64,
}

/// A dead-lettered event of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterRow {
    /// Sequence number; 0: the end of the stage's input.
    pub seq: u64,
    /// Error of the last failure.
    pub reason: String,
    /// Type of the event, while the log keeps it. Only
    /// [`PipelineHandle::read_dead_letters`](crate::PipelineHandle::read_dead_letters) fills the field and the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The first 200 characters of the event's JSON; `…` marks a cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// The log has removed the event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl Log {
    pub(crate) fn position(&self) -> Position {
        self.state().position
    }

    /// True if every stage has ended; the error names a stage that needs a person, and why.
    pub(crate) fn is_over(&self) -> Result<bool, (String, String)> {
        let state = self.state();
        for stage in 0..self.topology.len() {
            let row = self.stage_row(&state, stage);
            if let Some(reason) = row.reason {
                return Err((row.stage.to_string(), reason));
            }
        }
        Ok((0..self.topology.len()).all(|stage| state.pipeline.stage(stage).ended))
    }

    pub(crate) fn row(&self) -> PipelineRow {
        let state = self.state();
        PipelineRow {
            pipeline: self.topology.id().clone(),
            head: state.pipeline.head(),
            oldest: state.pipeline.oldest(),
            bytes: state.pipeline.bytes(),
            keep: self.topology.keep(),
            stages: (0..self.topology.len()).map(|stage| self.stage_row(&state, stage)).collect(),
        }
    }

    fn stage_row(&self, state: &LogState, stage: usize) -> StageRow {
        let (standing, live) = (state.pipeline.stage(stage), &state.live[stage]);
        let parked_at = || standing.dead_letters.back().map(|parked| parked.reason.clone());
        let (word, reason) = match &live.down {
            _ if standing.ended => ("ended", None),
            _ if standing.stopped => ("stopped", parked_at().or_else(|| Some(String::new()))),
            Some(reason) => ("down", Some(reason.clone())),
            None if self.topology.is_source(stage) => ("source", None),
            None if live.is_live() => ("live", None),
            None => ("external", None),
        };
        StageRow {
            stage: self.topology.name(stage).clone(),
            publishes: self.topology.publishes(stage).iter().cloned().collect(),
            subscribes: self.topology.subscribes(stage).iter().cloned().collect(),
            state: word.into(),
            reason,
            cursor: if self.topology.is_source(stage) { 0 } else { standing.cursor },
            lag: self.lag_of(state, stage),
            missed: standing.missed,
            gap: state.pipeline.missed_gap(stage).map(|(first, last)| Gap { first, last }),
            parked: standing.dead_letters.iter().map(dead_letter_row).collect(),
            parked_total: standing.dead_letters_total,
        }
    }
}

fn dead_letter_row(DeadLetter { seq, reason }: &DeadLetter) -> DeadLetterRow {
    DeadLetterRow { seq: *seq, reason: reason.clone(), kind: None, excerpt: None, gone: false }
}
