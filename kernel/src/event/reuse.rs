//! Records of reuse: decisions to reuse or execute, recorded results, and edited artifacts.

use serde::{Deserialize, Serialize};

use super::Output;
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::json::Json;
use crate::lineage::{Frontier, Manifest, Reason, Reuse, StalePolicy};

/// Record of [`Event::ReuseTerms`](super::Event::ReuseTerms).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseTerms {
    /// Nodes to execute even where a record exists.
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

/// Nodes that ignore recorded results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fresh {
    /// No node.
    #[default]
    Nothing,
    /// The listed nodes.
    Nodes(Vec<NodeId>),
    /// Every node.
    Everything,
}

/// Position of a [`ResultRecorded`] in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordPlace {
    /// Run that executed the work.
    pub run: RunId,
    /// Sequence number of the record in the stream of the run.
    pub seq: u64,
}

/// Record of [`Event::ReuseDecided`](super::Event::ReuseDecided).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReuseDecided {
    /// The node.
    pub node: NodeId,
    /// Identity of the work; `None` if the decision did not need the identity.
    pub reuse: Option<Digest>,
    /// The decision.
    pub decision: ReuseDecision,
}

/// Decision about the result of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ReuseDecision {
    /// The node ends with a recorded result.
    Reused(ReusedResult),
    /// The node is executed, for this reason.
    Recomputed(Reason),
    /// The node ends with a person's artifact.
    Edited {
        /// The artifact.
        output: Output,
        /// The person.
        author: String,
        /// The inputs of the node changed since the edit.
        stale: bool,
    },
    /// The node ends with the result that it had in the repeated run. Nothing is executed, and no person is asked again.
    Kept {
        /// The result; `None` for a person's yes.
        output: Option<Output>,
        /// The run that made the result.
        from: RunId,
    },
}

impl ReuseDecision {
    /// The decision as one word; `None` for an execution of work that is new or never reused.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            ReuseDecision::Reused(result) => Some(result.basis.word()),
            ReuseDecision::Edited { .. } => Some("edited"),
            ReuseDecision::Kept { .. } => Some("kept"),
            ReuseDecision::Recomputed(reason) => reason.is_change().then_some("recomputed"),
        }
    }
}

/// A recorded result that a node ends with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReusedResult {
    /// Reason why the recorded result may stand in.
    pub basis: ReuseBasis,
    /// Position of the record.
    pub from: RecordPlace,
    /// The result.
    pub output: Output,
    /// A model produced the result; another call might produce another one.
    pub sampled: bool,
}

/// Reason why a recorded result may stand in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReuseBasis {
    /// Equal work produced the result.
    Same,
    /// Early cutoff: the listed executed ancestors changed, but the changes came out equal on the way, so the node's last
    /// result stands.
    CutOff(Vec<NodeId>),
    /// The contract changed, and the result satisfies the new one.
    Revalidated,
    /// A recorded read is still fresh.
    Fresh {
        /// Age of the record in milliseconds.
        age: Ticks,
        /// Highest age in milliseconds; `None`: any age.
        most: Option<Ticks>,
    },
}

impl ReuseBasis {
    /// The basis as one word.
    pub fn word(&self) -> &'static str {
        match self {
            ReuseBasis::Same | ReuseBasis::Fresh { .. } => "reused",
            ReuseBasis::CutOff(_) => "cut_off",
            ReuseBasis::Revalidated => "revalidated",
        }
    }

    /// The basis of a reuse. `same_as_last`: the work is that of the node's last result; `beyond`: the nearest executed ancestors, which
    /// came out equal then.
    pub fn new(reuse: Reuse, same_as_last: bool, beyond: &Frontier) -> ReuseBasis {
        match reuse {
            Reuse::Revalidated => ReuseBasis::Revalidated,
            Reuse::Known if same_as_last && !beyond.is_empty() => {
                ReuseBasis::CutOff(beyond.iter().cloned().collect())
            }
            Reuse::Known => ReuseBasis::Same,
        }
    }
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
    /// Identity of the work whose result the person edited; `None` if unknown.
    pub base: Option<Digest>,
    /// Policy for the edit once the inputs of the node change. A repetition that may change them asks before it is opened; within a
    /// run [`StalePolicy::Ask`] keeps the edit, because a run cannot ask in the middle.
    pub stale: StalePolicy,
}

/// Record of [`Event::ResultKept`](super::Event::ResultKept).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultKept {
    /// The node.
    pub node: NodeId,
    /// The result; `None` for a person's yes.
    pub output: Option<Output>,
    /// The run that made the result: the repeated one, or the one from which that had kept it.
    pub from: RunId,
}

/// Record of [`Event::KeptIdentity`](super::Event::KeptIdentity).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptIdentity {
    /// The node.
    pub node: NodeId,
    /// Identity of the work.
    pub reuse: Digest,
    /// Key by which a receiver recognises a repetition.
    pub idempotency_key: Digest,
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
    /// Manifest of the work; see [`Manifest::abridged`].
    pub manifest: Manifest,
    /// Canonical text of the contract that the result satisfied.
    pub contract: Json,
    /// The result.
    pub output: Output,
}
