//! Records of questions to people, their answers, and acts of operators.

use serde::{Deserialize, Serialize};

use super::Output;
use crate::id::{Digest, NodeId, RunId, Ticks};
use crate::policy::Conclusion;

/// Record of [`Event::HumanRequest`](super::Event::HumanRequest).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanRequest {
    /// The node.
    pub node: NodeId,
    /// Kind of the question.
    pub kind: HumanRequestKind,
    /// Time at which the node is cancelled without an answer; `None` for an attempt in doubt.
    pub deadline: Option<Ticks>,
    /// Digest of the document that the person sees; the answer must name the digest.
    pub shown: Option<Digest>,
}

/// Kind of a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanRequestKind {
    /// May the attempt start?
    Before,
    /// May the result be published?
    After,
    /// The question of a human_approval node.
    Node,
    /// Did an attempt with a lost result take effect?
    InDoubt,
    /// May a call of a model exceed the budget? Yes raises the budget, no goes on within it.
    Budget,
    /// Wait for an external answer with a value.
    Wait,
}

/// Verdict on an external answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// The answer is the result of the node.
    Accepted,
    /// The answer breaks the contract of the node; the node goes on waiting.
    Invalid,
    /// The node does not wait yet: the answer is kept and judged when the wait begins.
    Kept,
    /// The node does not wait yet, and already keeps the maximum number of answers.
    Full,
    /// A repeated delivery of the accepted answer.
    Duplicate,
    /// The node has ended, or its deadline has passed.
    Late,
    /// The plan has no such node, or the node is no wait.
    Unknown,
}

impl AnswerVerdict {
    /// The name in files, journals and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerVerdict::Accepted => "accepted",
            AnswerVerdict::Invalid => "invalid",
            AnswerVerdict::Kept => "kept",
            AnswerVerdict::Full => "full",
            AnswerVerdict::Duplicate => "duplicate",
            AnswerVerdict::Late => "late",
            AnswerVerdict::Unknown => "unknown",
        }
    }
}

/// Record of [`Event::WaitAnswered`](super::Event::WaitAnswered).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitAnswer {
    /// The node.
    pub node: NodeId,
    /// Sender's id of the answer.
    pub id: Option<String>,
    /// The verdict.
    pub verdict: AnswerVerdict,
    /// The value of an accepted or kept answer.
    pub output: Option<Output>,
    /// Name of the operator; empty for an anonymous sender.
    pub by: String,
    /// The verdict is about the oldest kept answer of the node.
    pub was_kept: bool,
}

/// Record of [`Event::HumanAnswer`](super::Event::HumanAnswer).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanAnswer {
    /// The node.
    pub node: NodeId,
    /// Yes or no. For an attempt in doubt: done or failed; see `redo`.
    pub approve: bool,
    /// Run an attempt in doubt again.
    pub redo: bool,
    /// Name of the person.
    pub by: String,
    /// Comment of the person.
    pub note: String,
}

/// Record of [`Event::ApprovalKept`](super::Event::ApprovalKept).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalKept {
    /// The node.
    pub node: NodeId,
    /// Kind of the question.
    pub kind: HumanRequestKind,
    /// Digest of everything that the person approved.
    pub material: Digest,
    /// Digest of the document or result that the question showed.
    pub shown: Digest,
    /// The approved result; `None` for an approval before an attempt.
    pub output: Option<Output>,
    /// Name of the person.
    pub by: String,
    /// Time of the answer.
    pub at: Ticks,
    /// The run in which the person answered.
    pub from: RunId,
    /// The reason why a person is asked again whatever the question shows; `None`: the approval holds for equal material.
    pub void: Option<ApprovalVoid>,
}

/// The reason why an approval of an earlier run does not hold, although the question may show the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVoid {
    /// The node, or one below it, changes the world: an effect needs an approval of its own.
    Effect,
    /// The node rests on a result that was withdrawn.
    Withdrawn,
    /// The caller wants the node anew.
    AskedFor,
    /// A grant covered the call; a grant that is still in force covers the next call itself.
    Grant,
}

/// Record of [`Event::ApprovalCarried`](super::Event::ApprovalCarried).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalCarried {
    /// The node.
    pub node: NodeId,
    /// Name of the person who approved.
    pub by: String,
    /// Time of that answer.
    pub at: Ticks,
    /// The run in which the person answered.
    pub from: RunId,
}

/// An act of an operator, or of the system in an operator's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperatorAct {
    /// A person cancelled the run.
    CancelPlan,
    /// A person cancelled a node.
    Cancel(NodeId),
    /// A person skipped a node.
    Skip(NodeId),
    /// The gate denied [`DENIALS_MAX`](crate::gate::DENIALS_MAX) calls of the run.
    StopDenied,
    /// The deadline of the run's market job passed.
    StopLate,
    /// The attempt that opened the run no longer needs it.
    StopUnwanted,
    /// A goal run concluded: live nodes but the answer are skipped.
    Conclude(Conclusion),
}

impl OperatorAct {
    /// True for an act of a person.
    pub fn is_by_person(&self) -> bool {
        match self {
            OperatorAct::CancelPlan | OperatorAct::Cancel(_) | OperatorAct::Skip(_) => true,
            OperatorAct::StopDenied
            | OperatorAct::StopLate
            | OperatorAct::StopUnwanted
            | OperatorAct::Conclude(_) => false,
        }
    }
}
