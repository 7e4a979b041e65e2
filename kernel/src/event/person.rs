//! What is written down of people: what they are asked, what they answer, and what an operator does.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, NodeId, Ticks};

/// See [`Event::HumanRequest`](super::Event::HumanRequest).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanRequest {
    /// The node.
    pub node: NodeId,
    /// What is asked.
    pub kind: HumanRequestKind,
    /// When silence cancels; `None` waits for ever (in doubt only).
    pub deadline: Option<Ticks>,
    /// Digest of what is shown; an answer is bound to it.
    pub shown: Option<Digest>,
}

/// What a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanRequestKind {
    /// May this be done?
    Before,
    /// May this result be published?
    After,
    /// The node itself is a question.
    Node,
    /// Was this done? The result of an effect was lost.
    InDoubt,
}

/// See [`Event::HumanAnswer`](super::Event::HumanAnswer).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanAnswer {
    /// The node.
    pub node: NodeId,
    /// Yes or no; for an attempt in doubt: done or failed, and `redo` beside it.
    pub approve: bool,
    /// In doubt only: do it again.
    pub redo: bool,
    /// Who answered.
    pub by: String,
    /// In their words.
    pub note: String,
}

/// What an operator did to a run, or what is done in the place of one when nobody is there to do it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperatorAct {
    /// Cancel all of it.
    CancelPlan,
    /// Cancel a node.
    Cancel(NodeId),
    /// Skip a node.
    Skip(NodeId),
    /// Nobody: the gate refused as many calls of the run as it may, see [`DENIALS_MAX`](crate::gate::DENIALS_MAX).
    StopDenied,
    /// Nobody: the deadline of the job that the run is for has passed.
    StopLate,
    /// Nobody: what opened the run has no use for it any more.
    StopUnwanted,
}

impl OperatorAct {
    /// Whether a person did it, and not the system by itself.
    pub fn is_by_person(&self) -> bool {
        match self {
            OperatorAct::CancelPlan | OperatorAct::Cancel(_) | OperatorAct::Skip(_) => true,
            OperatorAct::StopDenied | OperatorAct::StopLate | OperatorAct::StopUnwanted => false,
        }
    }
}
