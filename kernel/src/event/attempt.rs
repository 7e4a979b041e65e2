//! Records of attempts and their steps.

use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};

use crate::id::{Digest, NodeId};
use crate::json::Json;
use crate::plan::Idempotency;
use crate::run::FailureCategory;

/// Identifies an attempt within its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, from 1.
    pub generation: u32,
    /// Patches of the node before this attempt. Each patch makes other work.
    #[serde(rename = "phase")]
    pub patch_count: u32,
    /// Number of the attempt, from 1 per node.
    pub attempt: u32,
}

/// Record of [`Event::AttemptIntent`](super::Event::AttemptIntent).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptIntent {
    /// The node.
    pub node: NodeId,
    /// Instance of the node in this run, from 1.
    pub generation: u32,
    /// Patches of the node so far.
    #[serde(rename = "phase")]
    pub patch_count: u32,
    /// Number of the attempt, from 1 per node.
    pub attempt: u32,
    /// Identity of the work (`r` of the Execution Lineage paper).
    pub reuse: Digest,
    /// Key by which a receiver recognises a repetition.
    pub idempotency_key: Digest,
    /// The highest impact that the gate allows, 0..=2.
    pub intent: u8,
    /// Edition of the gate's policy.
    pub policy_epoch: u64,
    /// Origin of the values: `user`, `plan`, `tool:<name>`; empty means untrusted.
    pub provenance: Vec<String>,
    /// Accounts after the charge; `None` for an attempt without a slot (a wait).
    pub accounts: Option<Accounts>,
}

/// Record of [`Event::GateDecision`](super::Event::GateDecision).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateDecision {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Code of the denial.
    pub code: String,
    /// The reason, for operators; of bounded length.
    pub detail: String,
}

/// Absolute values of the scheduler's accounts after a charge. The last record of a key is the account's state, so a lost
/// record loses one charge at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Accounts {
    /// Virtual time of the client.
    pub client_vruntime: i64,
    /// Remainder of the client's last division.
    pub client_remainder: u32,
    /// Balance of a metered client, in credits.
    pub balance: Option<i64>,
    /// Virtual time of the client's queue of agents.
    pub agents_vruntime: i64,
    /// Virtual time of the agent within its client.
    pub agent_vruntime: i64,
    /// Remainder of the agent's last division.
    pub agent_remainder: u32,
    /// Virtual time of the tier.
    pub tier_vruntime: i64,
    /// Service owed to the marketplace tier.
    pub owed: i128,
}

/// Record of [`Event::AttemptResult`](super::Event::AttemptResult).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// The outcome.
    pub outcome: Outcome,
    /// Duration of the attempt.
    pub duration_ms: u64,
    /// Cost in credits.
    pub cost: u64,
    /// Accounts after settlement; `None` if nothing was settled.
    pub accounts: Option<Accounts>,
}

impl AttemptResult {
    /// The end of an attempt without duration and cost.
    pub fn without_cost(node: NodeId, attempt: u32, outcome: Outcome) -> AttemptResult {
        AttemptResult { node, attempt, outcome, duration_ms: 0, cost: 0, accounts: None }
    }
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// An output that passed the node's contract.
    Ok(Output),
    /// A failure.
    Failed(Failure),
}

/// Output of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Digest of the artifact.
    pub artifact: Digest,
    /// Size of the artifact's content in bytes.
    pub bytes: u64,
    /// A small value itself; `None`: the value is in the artifact store.
    pub inline: Option<Json>,
    /// A conclusion or a change of the plan that the outcome asks for.
    pub directive: Option<Box<Directive>>,
}

/// Record of [`Event::CandidateKept`](super::Event::CandidateKept): the output of an attempt that its contract refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefusedOutput {
    /// The node.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// The broken rules.
    pub why: String,
    /// The output.
    pub output: Output,
}

/// Consequences of an outcome for the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// Conclude the run early.
    pub conclude: bool,
    /// A change of the plan, as JSON of `plan::Delta`.
    pub delta: Option<Json>,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of the failure; decides about recovery.
    pub category: FailureCategory,
    /// Description for people.
    pub message: String,
}

impl Failure {
    /// A failure of this category with a description for people.
    pub fn new(category: FailureCategory, message: impl Into<String>) -> Failure {
        Failure { category, message: message.into() }
    }
}

/// A missing or forbidden file is a structural failure; every other I/O error is transient.
///
/// ```
/// use ostler_kernel::event::Failure;
/// use ostler_kernel::run::FailureCategory;
/// use std::io::{Error, ErrorKind};
/// assert_eq!(Failure::from(Error::from(ErrorKind::NotFound)).category, FailureCategory::Structural);
/// assert_eq!(Failure::from(Error::from(ErrorKind::TimedOut)).category, FailureCategory::Transient);
/// ```
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let category = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::Unsupported => FailureCategory::Structural,
            _ => FailureCategory::Transient,
        };
        Failure { category, message: error.to_string() }
    }
}

/// Record of [`Event::AttemptProgress`](super::Event::AttemptProgress).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// The attempt.
    pub of: AttemptRef,
    /// Resume token for the next attempt.
    pub token: Json,
}

/// Memo key of a step, besides its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepKey {
    /// Version of the program.
    pub version: String,
    /// Digest of the canonical JSON of the step's input.
    pub input: Digest,
}

/// Record of [`Event::StepIntent`](super::Event::StepIntent).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepIntent {
    /// The attempt.
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
    /// Memo key of the step.
    pub key: StepKey,
    /// Reaction to a lost result.
    pub idem: Idempotency,
    /// Key by which a receiver recognises a repetition.
    pub idempotency_key: Digest,
}

/// Record of [`Event::StepResult`](super::Event::StepResult).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The attempt.
    pub of: AttemptRef,
    /// Id of the step.
    pub step: String,
    /// Memo key of the step.
    pub key: StepKey,
    /// The outcome. Failures are recorded only for steps with an intent, to tell a failure from a lost result.
    pub outcome: Outcome,
}
