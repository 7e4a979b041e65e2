//! The inputs of a run.

use crate::event::{AttemptResult, ReuseDecided};
use crate::id::NodeId;
use crate::ledger::{Amounts, Shortfall};
use crate::plan::Delta;
use crate::run::planner::Patch;
use crate::run::{OutsideAnswer, ReadResult};

/// An input to [`Run::decide`](super::Run::decide).
#[derive(Debug, Clone, PartialEq)]
pub enum RunInput {
    /// Nothing from outside: the nodes make the steps they can make by themselves. For a run that was just opened or recovered.
    Propagate,
    /// An attempt ended.
    Result(Box<AttemptResult>),
    /// An attempt ended, and its result reports a low confidence (see [`is_unsure`](crate::agent::is_unsure)).
    Unsure(Box<AttemptResult>),
    /// An attempt ended because a call of a model does not fit the budget.
    OverBudget(Box<AttemptResult>, Box<Shortfall>),
    /// The call of the micro-planner about this node does not fit the budget.
    AdviceOverBudget(NodeId, Box<Shortfall>),
    /// A recorded result stands in for an attempt of a ready node.
    Reused(Box<ReuseDecided>),
    /// The backoff before a retry of this node is over.
    RetryDue(NodeId),
    /// A person answered an approval request.
    HumanAnswer {
        /// The node that asks.
        node: NodeId,
        /// Number of the request, counted per node from 1.
        request: u32,
        /// Yes or no.
        approve: bool,
        /// Name of the person.
        by: String,
        /// The person's comment.
        note: String,
        /// Tokens and money that an approved budget grows by; 0 for any other question.
        raise: Amounts,
    },
    /// The deadline of an approval request passed without an answer.
    HumanTimeout {
        /// The node that asks.
        node: NodeId,
        /// Number of the request.
        request: u32,
    },
    /// The planner answered a request for a patch of this node; `None` refuses.
    Patched(NodeId, Option<Box<Patch>>),
    /// The planner answered a replan request; `None` refuses.
    Replanned(Option<Box<Delta>>),
    /// The plan's contract was checked for the current version: `true` if the contract holds.
    ContractJudged(bool),
    /// The operator asks for a change.
    Operator(Operation),
    /// A person settled an attempt that is in doubt.
    Resolved {
        /// The node.
        node: NodeId,
        /// The person's decision.
        how: Resolution,
        /// Name of the person.
        by: String,
    },
    /// The process of this node's attempt died, so the result may be lost.
    AttemptLost(NodeId),
    /// A lost attempt cannot be repeated: its tool or program has changed since.
    WorkChanged {
        /// The node.
        node: NodeId,
        /// Description of the difference.
        what: String,
    },
    /// The attempt of this node is not what a person approved: the call, the policy or what confines programs has changed since. Nothing
    /// of it was begun, or its process died.
    Unapproved {
        /// The node.
        node: NodeId,
        /// Description of the difference.
        what: String,
    },
    /// Results requested by [`Run::unread`](super::Run::unread), by node.
    ResultsRead(Vec<(NodeId, ReadResult)>),
    /// An answer from outside came for a wait.
    WaitAnswer(Box<OutsideAnswer>),
    /// The oldest kept answer of a waiting node was judged.
    KeptAnswer {
        /// The node.
        node: NodeId,
        /// The answer passes the contract.
        holds: bool,
    },
}

/// A person's decision about an attempt in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// The attempt took effect, with this result.
    Done(Box<AttemptResult>),
    /// The attempt did not take effect: run it again.
    Redo,
    /// The attempt counts as failed.
    Fail,
}

/// A request of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Cancel the whole run.
    CancelPlan(Canceller),
    /// Cancel one node.
    Cancel(NodeId),
    /// Skip one node.
    Skip(NodeId),
    /// Undo the executed effects of a run that has ended.
    Undo {
        /// Most impact that the undo may have; `None` for the intent of the run.
        intent: Option<u8>,
    },
    /// Change the plan.
    Delta(Box<Delta>),
    /// Add nodes that hold every other node until their end; see [`Run::interjection`](super::Run::interjection). A failed,
    /// rejected or timed-out interjection cancels the run.
    Interject(Box<Delta>),
}

/// The cause of a cancelled run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceller {
    /// An operator asked for it.
    Operator,
    /// The deadline of the run's market job passed.
    Deadline,
    /// The attempt behind the child run no longer needs it.
    Parent,
}
