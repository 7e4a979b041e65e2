//! What is written down of an attempt and its steps.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, NodeId};
use crate::json::Json;
use crate::plan::Idempotency;
use crate::run::FailureCategory;

/// An attempt at a piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, 1 at first.
    pub generation: u32,
    /// Patches applied so far: each makes it other work.
    #[serde(rename = "phase")]
    pub patch_count: u32,
    /// 1 for the first attempt of the node.
    pub attempt: u32,
}

/// See [`Event::AttemptIntent`](super::Event::AttemptIntent).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptIntent {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, 1 at first.
    pub generation: u32,
    /// Patches applied so far.
    #[serde(rename = "phase")]
    pub patch_count: u32,
    /// 1 for the first attempt of the node.
    pub attempt: u32,
    /// Identity of the work (lineage `r`).
    pub reuse: Digest,
    /// What a receiver can recognise a repetition by.
    pub idempotency_key: Digest,
    /// The most impact allowed.
    pub intent: u8,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// Where the values came from: `user`, `plan`, `tool:<name>`; empty means untrusted.
    pub provenance: Vec<String>,
    /// Absolute values of the accounts after the charge; `None` if nothing was charged (a wait holds no slot).
    pub accounts: Option<Accounts>,
}

/// See [`Event::GateDecision`](super::Event::GateDecision).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateDecision {
    /// The node.
    pub node: NodeId,
    /// Which attempt.
    pub attempt: u32,
    /// Code of the denial.
    pub code: String,
    /// What was wrong, for operators; of bounded length.
    pub detail: String,
}

/// Absolute values of the scheduler's accounts after a charge: the last value per key is the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Accounts {
    /// Virtual time of the client.
    pub client_vruntime: i64,
    /// What its last division left over.
    pub client_remainder: u32,
    /// Its balance in credits, if it is metered.
    pub balance: Option<i64>,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Virtual time of the agent within its client.
    pub agent_vruntime: i64,
    /// What its last division left over.
    pub agent_remainder: u32,
    /// Virtual time of the tier.
    pub tier_vruntime: i64,
    /// What the marketplace is owed.
    pub owed: i128,
}

/// See [`Event::AttemptResult`](super::Event::AttemptResult).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The node.
    pub node: NodeId,
    /// Which attempt.
    pub attempt: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub duration_ms: u64,
    /// What it cost, in credits.
    pub cost: u64,
    /// Absolute values of the accounts after settlement; `None` if nothing was settled.
    pub accounts: Option<Accounts>,
}

impl AttemptResult {
    /// The end of an attempt that took no time and cost nothing.
    pub fn without_cost(node: NodeId, attempt: u32, outcome: Outcome) -> AttemptResult {
        AttemptResult { node, attempt, outcome, duration_ms: 0, cost: 0, accounts: None }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// An output that passed the node's contract.
    Ok(Output),
    /// A failure.
    Failed(Failure),
}

/// The output of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// Bytes of its content.
    pub bytes: u64,
    /// The value itself, where it is small; else it is in the artifact store.
    pub inline: Option<Json>,
    /// What else the outcome asks for: a conclusion, or a change of the plan.
    pub directive: Option<Box<Directive>>,
}

/// What the outcome of a node may ask for besides giving a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// End the run early.
    pub conclude: bool,
    /// A change of the plan, as JSON of `plan::Delta`.
    pub delta: Option<Json>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Which kind.
    pub category: FailureCategory,
    /// What happened, for people.
    pub message: String,
}

impl Failure {
    /// A failure of this kind; what happened, for people.
    pub fn new(category: FailureCategory, message: impl Into<String>) -> Failure {
        Failure { category, message: message.into() }
    }
}

/// See [`Event::AttemptProgress`](super::Event::AttemptProgress).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// Which attempt.
    pub of: AttemptRef,
    /// What the next attempt is given.
    pub token: Json,
}

/// What a step is memoized by, besides its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepKey {
    /// Version of the program that it is a step of.
    pub version: String,
    /// Digest of the canonical JSON of its input.
    pub input: Digest,
}

/// See [`Event::StepIntent`](super::Event::StepIntent).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepIntent {
    /// Which attempt.
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
    /// What else it is memoized by.
    pub key: StepKey,
    /// What a lost result permits.
    pub idem: Idempotency,
    /// What a receiver can recognise a repetition by.
    pub idempotency_key: Digest,
}

/// See [`Event::StepResult`](super::Event::StepResult).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Which attempt.
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
    /// What else it is memoized by.
    pub key: StepKey,
    /// What came of it. Failures are recorded of steps that act, to tell them from those whose result was lost.
    pub outcome: Outcome,
}
