//! Records of reuse: what stood in for an execution, what may, and why work was executed.

use serde::{Deserialize, Serialize};

use super::Output;
use crate::id::{Digest, NodeId, RunId};
use crate::json::Json;
use crate::lineage::{Manifest, Reason, StalePolicy};

/// Record of [`Event::ReuseTerms`](super::Event::ReuseTerms).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseTerms {
    /// What is executed although a record may exist.
    pub fresh: Fresh,
}

impl ReuseTerms {
    /// True if a recorded result may stand in for this node.
    pub fn looks_up(&self, node: &NodeId) -> bool {
        match &self.fresh {
            Fresh::Nothing => true,
            Fresh::Nodes(nodes) => !nodes.contains(node),
            Fresh::Everything => false,
        }
    }
}

/// Nodes whose results are computed anew.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fresh {
    /// None.
    #[default]
    Nothing,
    /// These.
    Nodes(Vec<NodeId>),
    /// All.
    Everything,
}

/// Place of a [`ResultRecorded`] in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordPlace {
    /// The run that executed the work.
    pub run: RunId,
    /// Number of the record in the stream of the run.
    pub seq: u64,
}

/// Record of [`Event::ReuseDecided`](super::Event::ReuseDecided).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReuseDecided {
    /// The node.
    pub node: NodeId,
    /// Identity of the work; `None` if it was not needed.
    pub reuse: Option<Digest>,
    /// The decision.
    pub decision: ReuseDecision,
}

/// What stands for the result of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ReuseDecision {
    /// A recorded result. The node ends with it.
    Reused(ReusedResult),
    /// Nothing, for this reason: the node is executed.
    Recomputed(Reason),
    /// A person's artifact. The node ends with it.
    Edited {
        /// The artifact.
        output: Output,
        /// The person.
        author: String,
        /// The inputs of the node changed since the edit.
        stale: bool,
    },
}

/// A recorded result that a node ends with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedResult {
    /// Why it may stand in.
    pub basis: ReuseBasis,
    /// The record.
    pub from: RecordPlace,
    /// The result.
    pub output: Output,
    /// A model answered, which may answer otherwise when asked again.
    pub sampled: bool,
}

/// Why a recorded result may stand in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReuseBasis {
    /// It is the result of equal work.
    Same,
    /// It is the result that the node had the last time, because what these executed ancestors changed came out equal on the way.
    CutOff(Vec<NodeId>),
    /// The contract is another one, and holds.
    Revalidated,
}

/// Record of [`Event::ArtifactEdited`](super::Event::ArtifactEdited).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArtifactEdited {
    /// The node.
    pub node: NodeId,
    /// The artifact.
    pub output: Output,
    /// The person.
    pub author: String,
    /// Identity of the work whose result was edited, if it is known.
    pub base: Option<Digest>,
    /// What becomes of the edit once the inputs of the node change. A run cannot ask in the middle: it keeps the edit then.
    pub stale: StalePolicy,
}

/// Record of [`Event::ResultRecorded`](super::Event::ResultRecorded).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRecorded {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Identity of the work.
    pub reuse: Digest,
    /// What the work was done with; see [`Manifest::abridged`].
    pub manifest: Manifest,
    /// Canonical text of the contract that the result passed.
    pub contract: Json,
    /// The result.
    pub output: Output,
}
