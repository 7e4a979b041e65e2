//! Outputs of attempts that did not become results.

use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/runs/{run}/nodes/{node}/candidates`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateList {
    /// Id of the run.
    pub run: String,
    /// The node.
    pub node: String,
    /// The candidates, in the order of the records.
    pub candidates: Vec<CandidateRow>,
}

/// An output of an attempt that did not become the result of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateRow {
    /// Number of the attempt.
    pub attempt: u32,
    /// `contract_refused`, `rejected` (by a person), `unapproved` (the node ended before an approval), or `late` (the node had moved on).
    pub reason: String,
    /// The broken rules, or the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Digest of the output.
    pub artifact: String,
    /// Size of the output.
    pub bytes: u64,
}
