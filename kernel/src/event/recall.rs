//! Records of recalls: results withdrawn by an operator.

use serde::{Deserialize, Serialize};

use super::RecordPlace;
use crate::id::{ClientId, NodeId, RunId};
use crate::json::Json;

/// Maximum number of retractions in force.
pub const RETRACTIONS_MAX: usize = 1_024;

/// Record of [`Event::Retracted`](super::Event::Retracted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retraction {
    /// Name, unique among all retractions.
    pub id: String,
    /// Client with the record in its stream.
    pub client: ClientId,
    /// The withdrawn results.
    pub what: Withdrawn,
    /// Operator who withdrew the results.
    pub by: String,
}

/// Results that never stand in for an execution again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Withdrawn {
    /// The result of one node. A later result of the same work counts.
    Result {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
        /// Position of the record behind the result, possibly in another run; `None`: the result was not recorded for reuse.
        place: Option<RecordPlace>,
    },
    /// Results of all executables with these fields, past and future ones, of all clients.
    Executable(Json),
}
