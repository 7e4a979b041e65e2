//! The fate of one node in a repetition.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::run::Doubt;

/// What a repetition does about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The node ends with the result that it had.
    Keep,
    /// The node ends with a recorded result of the same work, or with the result that it had.
    Reuse,
    /// The node is executed, unless its inputs come out as they were.
    Execute(Recomputation),
    /// The node would be executed, but may have acted already: a person has to find out first.
    Ask(Doubt),
}

/// A node that a repetition of a run executes, unless its inputs come out as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recomputation {
    /// The node.
    pub node: NodeId,
    /// The cause that lies in the node itself; `None`: its inputs may change.
    pub cause: Option<RecomputationCause>,
    /// The nodes that it depends on among the edited one and those that are executed.
    pub inputs: Vec<NodeId>,
    /// Impact, 0 to 2.
    pub impact: u8,
    /// The node acts on the world.
    pub acts: bool,
    /// The node asks a person.
    pub asks: bool,
    /// Worth of the approval that a person gave in the repeated run; `None` without one.
    pub approved: Option<EarlierApproval>,
    /// `human_approval` nodes above an effect that keep their answer: a person is asked about the effect instead.
    pub guards: Vec<NodeId>,
}

/// Worth of an approval of the repeated run for a node that is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierApproval {
    /// No person is asked, if the question comes out as it was.
    Holds,
    /// A person is asked again.
    Void,
}

/// The cause of a recomputation that lies in the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecomputationCause {
    /// The plan describes other work.
    Changed,
    /// The node is new in the plan.
    New,
    /// The caller asks for it.
    AskedFor,
    /// A retraction withdrew the result.
    Withdrawn,
    /// An undo took the effect back, so the node acts again.
    Undone,
    /// The node failed, was cancelled, or was not reached: there is no result.
    NoResult,
    /// The run is repeated without a change: what acts, reads or asks does so again.
    Repeats,
    /// The tool, or the configuration of the model, is another one now.
    OtherTool,
    /// The result does not satisfy the contract that the node has now.
    ContractFailed,
    /// The stored result is damaged or gone.
    Damaged,
    /// The recorded read is too old, or another one is the newest; only without a change.
    Expired,
}

impl RecomputationCause {
    /// True if the caller changes something, so that nodes it does not reach keep their results.
    pub(super) fn is_a_change(self) -> bool {
        use RecomputationCause as Cause;
        match self {
            Cause::Changed | Cause::New | Cause::AskedFor | Cause::Withdrawn => true,
            Cause::Undone
            | Cause::NoResult
            | Cause::Repeats
            | Cause::OtherTool
            | Cause::ContractFailed
            | Cause::Damaged
            | Cause::Expired => false,
        }
    }
}
