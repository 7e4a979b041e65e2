//! Record of a run that continues another one from an earlier record.

use serde::{Deserialize, Serialize};

use super::RecordPlace;
use crate::id::{NodeId, RunId};

/// Record of [`Event::Forked`](super::Event::Forked).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The other run.
    pub from: RunId,
    /// Sequence number of the last record taken over.
    pub at: u64,
    /// Nodes that were executed by then, each with the position of the record behind its result, if the result was recorded for reuse.
    pub done: Vec<(NodeId, Option<RecordPlace>)>,
    /// Operator who forked the run.
    pub by: String,
}
