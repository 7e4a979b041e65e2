//! Finds the records of a live pipeline that compaction may delete without changing the recovered state.

use std::collections::{BTreeMap, VecDeque};

use crate::event::PipelineRecord;
use crate::id::StageId;

/// Collects obsolete records from a pipeline's records in order.
///  
/// Three kinds become obsolete:
///  
/// - An acknowledgement, once a later one of the same stage supersedes its cursor. An acknowledgement with a state is also
///   superseded by the next one with a state, but not by one without: the state is still the newest.
/// - A log chunk, once the whole chunk lies before the oldest retained event.
///  
/// - Everything before the record of a removal, which alone tells where the numbers of a later pipeline of the name begin.
///
/// Any other record of a stage (failure, dead letter, move, gap, end) is a barrier. Its meaning may depend on the cursor at
/// that point, so acknowledgements in front of the barrier stay.
///  
/// # Examples
///  
/// ```
/// use ostler_kernel::{event::PipelineRecord, pipeline::Compaction};
///
/// let mut compaction = Compaction::default();
/// for (number, upto) in [(2, 10), (3, 20), (4, 30)] {
///     compaction.apply(number, &PipelineRecord::Acked { stage: "load".into(), upto, state: None });
/// }
/// assert_eq!(compaction.obsolete(), [2, 3]);
/// ```
#[derive(Debug, Default)]
pub struct Compaction {
    /// Number of the first record; 0 before it.
    first: u64,
    oldest: u64,
    obsolete: Vec<u64>,
    last: BTreeMap<StageId, LastAcks>,
    /// Chunks with retained events: the last event of each, and the number of its record.
    chunks: VecDeque<(u64, u64)>,
}

/// The newest acknowledgements of a stage since the last barrier.
#[derive(Debug, Default)]
struct LastAcks {
    /// The newest one without a state, if nothing superseded it.
    without_state: Option<u64>,
    with_state: Option<u64>,
}

impl Compaction {
    /// Adds the record with this sequence number.
    pub fn apply(&mut self, number: u64, record: &PipelineRecord) {
        use PipelineRecord as P;
        if self.first == 0 {
            self.first = number;
        }
        match record {
            P::Acked { stage, state, .. } => {
                let last = self.last.entry(stage.clone()).or_default();
                self.obsolete.extend(last.without_state.take());
                if state.is_some() {
                    self.obsolete.extend(last.with_state.replace(number));
                } else {
                    last.without_state = Some(number);
                }
            }
            P::LogChunk { upto, oldest, .. } => {
                self.oldest = *oldest;
                self.chunks.push_back((*upto, number));
                let over = self.chunks.iter().take_while(|(upto, _)| upto < oldest).count();
                self.obsolete.extend(self.chunks.drain(..over).map(|(_, number)| number));
            }
            // Barriers.
            P::DeadLettered { stage, .. }
            | P::Released { stage }
            | P::Moved { stage, .. }
            | P::Lagged { stage, .. }
            | P::Ended { stage }
            | P::Failed { stage, .. } => drop(self.last.remove(stage)),
            P::Removed { upto } => {
                let (first, oldest, obsolete) = (self.first, upto + 1, (self.first..number).collect());
                *self = Compaction { first, oldest, obsolete, ..Compaction::default() };
            }
            P::Created { .. } => {}
        }
    }

    /// The oldest retained event; 0 if all are.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Sequence numbers of the obsolete records, unordered.
    pub fn obsolete(&self) -> &[u64] {
        &self.obsolete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_removed_pipeline_only_the_removal_is_needed() {
        use PipelineRecord as P;
        let created = || P::Created { spec: crate::json::Json::null() };
        let acked = |upto| P::Acked { stage: "b".into(), upto, state: None };
        let records = [
            created(),
            acked(3),
            acked(5),
            P::Removed { upto: 7 },
            created(),
            acked(9),
            P::Ended { stage: "b".into() },
            P::Removed { upto: 9 },
            created(),
        ];
        let mut compaction = Compaction::default();
        for (number, record) in (1..).zip(&records) {
            compaction.apply(number, record);
        }
        assert_eq!((compaction.obsolete(), compaction.oldest()), (&[1, 2, 3, 4, 5, 6, 7][..], 10));
    }
}
