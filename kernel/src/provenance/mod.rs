//! Provenance of a run: the attempts of its nodes, their results, and what each result was made from. Folded from the
//! records, for exports. Holds names, digests and sizes, and no content: no parameter, no result, no message.

mod trace;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::{Parent, RecordPlace};
use crate::id::{AgentId, ClientId, Digest, NodeId, RunId, Ticks};
use crate::port::{CageRung, ModelCall};
use crate::run::RunOutcome;

pub use trace::Tracer;

/// A time, and the number of the record that was written then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub at: Ticks,
    /// Sequence number in the stream of the run.
    pub seq: u64,
}

/// Provenance of a run up to a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The run.
    pub run: RunId,
    /// The client that pays.
    pub client: ClientId,
    /// The agent that executes the run.
    pub agent: AgentId,
    /// Id of the plan.
    pub plan: String,
    /// Digest of the normalised text of version 1.
    pub plan_digest: Digest,
    /// The last version.
    pub version: u32,
    /// The opening.
    pub opened: Moment,
    /// The end, if the run has ended.
    pub closed: Option<(Moment, RunOutcome)>,
    /// The attempt of another run that opened this one.
    pub parent: Option<Parent>,
    /// Nodes with an attempt, a question or an end.
    pub nodes: BTreeMap<NodeId, NodeTrace>,
}

/// The history of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeTrace {
    /// Executor kind, such as `tool`.
    pub kind: String,
    /// Tool or model.
    pub uses: Option<String>,
    /// Nodes whose results the node reads.
    pub used: Vec<NodeId>,
    /// Direct predecessors.
    pub after: Vec<NodeId>,
    /// Attempts in the order of their starts.
    pub attempts: Vec<AttemptTrace>,
    /// Answers of people, in order.
    pub answers: Vec<AnswerTrace>,
    /// Terminal state and its time.
    pub end: Option<(Moment, String)>,
    /// The result.
    pub result: Option<ResultTrace>,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptTrace {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Earlier starts of this attempt, which were lost with their process.
    pub lost: u32,
    /// The start.
    pub started: Moment,
    /// The end; `None`: unknown.
    pub ended: Option<Moment>,
    /// Category of the failure.
    pub failure: Option<String>,
    /// The node had moved on before the end.
    pub is_late: bool,
    /// Cost in credits.
    pub cost: u64,
    /// Identity of the work.
    pub reuse: Digest,
    /// The highest impact that the gate allows, 0..=2.
    pub intent: u8,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// The cage in which its programs ran.
    pub cage: Option<CageRung>,
    /// Calls of models.
    pub calls: Vec<ModelCall>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTrace {
    /// Time of the answer.
    pub at: Moment,
    /// Name of the person; empty for an anonymous sender of a value.
    pub by: String,
    /// Yes, or the accepted value.
    pub approve: bool,
    /// Digest of the document that the person saw.
    pub shown: Option<Digest>,
    /// The answer in the repeated run that counts here; `None`: the person answered in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<CarriedTrace>,
}

/// An answer of a person in another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedTrace {
    /// The run in which the person answered.
    pub from: RunId,
    /// Time of that answer.
    pub at: Ticks,
}

/// The result of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultTrace {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// Bytes of the artifact.
    pub bytes: u64,
    /// Origin of the result.
    pub origin: Origin,
    /// Number of the record that offers the result for reuse.
    pub recorded: Option<u64>,
}

/// Origin of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The last attempt, or a node that needs none.
    Executed,
    /// A recorded result of equal work.
    Reused {
        /// The record.
        from: RecordPlace,
        /// A model produced the result.
        sampled: bool,
        /// `reused`, `cut_off` or `revalidated`.
        basis: String,
    },
    /// The result of the same node in an earlier run, of which this one is a repetition.
    Kept {
        /// The run that made the result.
        from: RunId,
    },
    /// A person's artifact.
    Edited {
        /// The person.
        author: String,
    },
    /// An answer from outside.
    Answered {
        /// Name of the operator; empty for an anonymous sender.
        by: String,
    },
}
