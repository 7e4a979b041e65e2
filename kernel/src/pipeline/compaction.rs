//! Which records of a pipeline nobody needs any more, though it goes on: without them it stands as it does with them.

use std::collections::{BTreeMap, VecDeque};

use crate::event::PipelineRecord;
use crate::id::StageId;

/// What the records of a pipeline, taken in one after the other, make obsolete.
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
    oldest: u64,
    obsolete: Vec<u64>,
    last: BTreeMap<StageId, Last>,
    /// Stretches of the log of which something is within the quota: the last event of each, and the number of the record that
    /// says so.
    stretches: VecDeque<(u64, u64)>,
}

/// The acknowledgements of a stage since anything else was recorded of it, as far as they are needed.
#[derive(Debug, Default)]
struct Last {
    /// The last one, if it keeps no state.
    bare: Option<u64>,
    /// The last one that keeps a state.
    keeping: Option<u64>,
}

impl Compaction {
    /// Takes in the record of this number.
    pub fn apply(&mut self, number: u64, record: &PipelineRecord) {
        use PipelineRecord as P;
        match record {
            P::Acked { stage, state, .. } => {
                let last = self.last.entry(stage.clone()).or_default();
                self.obsolete.extend(last.bare.take());
                if state.is_some() {
                    self.obsolete.extend(last.keeping.replace(number));
                } else {
                    last.bare = Some(number);
                }
            }
            P::LogChunk { upto, oldest, .. } => {
                self.oldest = *oldest;
                self.stretches.push_back((*upto, number));
                let over = self.stretches.iter().take_while(|(upto, _)| upto < oldest).count();
                self.obsolete.extend(self.stretches.drain(..over).map(|(_, number)| number));
            }
            // What follows such a record may count on what is before it.
            P::DeadLettered { stage, .. }
            | P::Released { stage }
            | P::Moved { stage, .. }
            | P::Lagged { stage, .. }
            | P::Ended { stage }
            | P::Failed { stage, .. } => drop(self.last.remove(stage)),
            P::Created { .. } => {}
        }
    }

    /// The oldest event that is within the quota; 0: all are.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The numbers of the records that are obsolete, in no order: acknowledgements that a later one says again, and stretches of the
    /// log that are over the quota.
    pub fn obsolete(&self) -> &[u64] {
        &self.obsolete
    }
}
