//! Calls of models: what a run remembers of them.

use serde::{Deserialize, Serialize};

use super::{Context, Role};
use crate::id::NodeId;

/// Tokens of an answer that a run reserves before a call. The usage is settled when the call ends.
pub const ANSWER_TOKENS_RESERVED: u64 = 2_048;

/// Cause of a failure, as far as asking the micro-planner again about the same cause is in question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The tool.
    pub tool: String,
    /// Category of the failure.
    pub category: crate::run::FailureCategory,
    /// The message without what differs from failure to failure; see [`normalised`](super::micro::normalised).
    pub message: String,
}

/// A call that is about to be made. Journal it before the call, as part of the attempt's intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallIntent {
    /// Role of the model.
    pub role: Role,
    /// The node whose attempt makes the call; for the micro-planner the failed node.
    pub node: NodeId,
    /// Number of the node's attempt, from 1; for the micro-planner of the failed attempt.
    pub attempt: u32,
    /// The part of the run shown to the model.
    pub context: Context,
    /// Tokens of the context.
    pub input_tokens: u64,
    /// True if the context has a tainted result or the wish of a tainted author.
    pub is_tainted: bool,
    /// The failure that the micro-planner is asked about.
    pub signature: Option<Signature>,
}

/// The end of a call. Journal it with the attempt's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallEnd {
    /// Tokens of the prompt as the provider counted them; `None`: as estimated before the call.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Faults of the answer; 0 for a good one and for a failed call.
    pub faults: u32,
    /// The micro-planner answered skip.
    pub is_skip: bool,
    /// The budget did not allow the call: it was not made, and does not count.
    pub is_unmade: bool,
}

/// A call of a model as the run knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The call.
    pub intent: CallIntent,
    /// Tokens of the answer: reserved before the call, settled after it.
    pub output_tokens: u64,
    /// The end; `None` while the call is under way, and if it was lost.
    pub end: Option<CallEnd>,
    /// A patch came of the call of the micro-planner.
    pub became_patch: bool,
}

impl Call {
    /// False for a call that the budget did not allow.
    pub(super) fn is_made(&self) -> bool {
        !self.end.is_some_and(|end| end.is_unmade)
    }

    /// True for a call of the micro-planner about `node`.
    pub(super) fn is_about(&self, node: &NodeId) -> bool {
        self.intent.role == Role::Micro && self.intent.node == *node
    }

    /// True for a call that an attempt of `node` made.
    pub(super) fn is_by(&self, node: &NodeId) -> bool {
        self.intent.role != Role::Micro && self.intent.node == *node
    }
}
