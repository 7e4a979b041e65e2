//! How a pipeline stands, to be shown.

use ostler_kernel::id::{EventType, PipelineId, StageId};
use ostler_kernel::pipeline::{DeadLetter, Keep};
use ostler_kernel::port::Position;

use super::log::LogState;
use super::stage::Gap;
use crate::pipelines::log::Log;

/// A pipeline, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineRow {
    /// Its name.
    pub pipeline: PipelineId,
    /// The number of its last event; 0: it has none.
    pub head: u64,
    /// The number of the oldest event that is kept.
    pub oldest: u64,
    /// What the events that are kept count for, in bytes.
    pub bytes: u64,
    /// How much is kept.
    pub keep: Keep,
    /// Its stages.
    pub stages: Vec<StageRow>,
}

/// A stage, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRow {
    /// Its name.
    pub stage: StageId,
    /// What it publishes.
    pub publishes: Vec<EventType>,
    /// What it hears.
    pub subscribes: Vec<EventType>,
    /// `source`: driven from outside. `live`: code of this process deals with it. `external`: somebody reads and acknowledges, or
    /// nobody does yet. `stopped`: at an event that was parked. `down`: its actor failed too often. `ended`.
    pub state: &'static str,
    /// Why it is stopped or down.
    pub reason: Option<String>,
    /// The last event that it has dealt with.
    pub cursor: u64,
    /// Events that it is still to hear, and where that is not known those that it may have to hear.
    pub lag: u64,
    /// Events that were gone before it had come to them, as far as it was told of them.
    pub missed: u64,
    /// Events that are gone, and that it is still to be told of.
    pub gap: Option<Gap>,
    /// The newest of the events that were parked for it.
    pub parked: Vec<DeadLetter>,
    /// How many were in all.
    pub parked_total: u64,
}

impl Log {
    /// Where what is known here stands in the journal.
    pub(crate) fn position(&self) -> Position {
        self.state().position
    }

    /// Whether every stage has ended; or which one does not go on by itself, and why.
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

    /// How it stands.
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
            state: word,
            reason,
            cursor: if self.topology.is_source(stage) { 0 } else { standing.cursor },
            lag: self.lag_of(state, stage),
            missed: standing.missed,
            gap: state.pipeline.missed_gap(stage).map(|(first, last)| Gap { first, last }),
            parked: standing.dead_letters.iter().cloned().collect(),
            parked_total: standing.dead_letters_total,
        }
    }
}
