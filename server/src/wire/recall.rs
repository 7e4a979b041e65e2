//! Recalls: withdrawn results, and everything that rests on them.

use serde::{Deserialize, Serialize};

use super::UnreadableRun;

/// The body of `POST /v1/retractions`. Either `run` and `node`, or `tool`, or `model`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetractRequest {
    /// Name of the run of a withdrawn result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Node of the withdrawn result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Tool of the withdrawn results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Version of the tool or of the model; absent: all versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Configured model of the withdrawn results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Changes nothing, and answers what would be found.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to `POST /v1/retractions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallReport {
    /// The retraction; absent after a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retraction: Option<RetractionRow>,
    /// Number of withdrawn records.
    pub records: usize,
    /// Nodes with a withdrawn result, or one that rests on withdrawn ones; the first thousand.
    pub reached: Vec<ReachedRow>,
    /// Number of all such nodes.
    pub reached_total: usize,
    /// Cancelled nodes of open runs: an approval of theirs rests on withdrawn results.
    pub voided: Vec<NodeRef>,
    /// Ids of revoked grants, which approved such nodes.
    pub grants: Vec<String>,
    /// Runs that compute anew when they are repeated: the newest of each plan.
    pub again: Vec<String>,
    /// Runs that cannot be read or changed.
    pub unreadable: Vec<UnreadableRun>,
}

/// A node of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRef {
    /// Id of the run.
    pub run: String,
    /// The node.
    pub node: String,
}

/// A node with a withdrawn result, or one that rests on withdrawn ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachedRow {
    /// Id of the run.
    pub run: String,
    /// The node.
    pub node: String,
    /// State of the node.
    pub state: String,
    /// The node's own result is withdrawn.
    pub withdrawn: bool,
    /// The node changed the world, or may have.
    pub effect: bool,
}

/// A retraction in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetractionRow {
    /// Id of the retraction.
    pub id: String,
    /// Operator of the retraction.
    pub by: String,
    /// Run of the withdrawn result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Node of the withdrawn result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Tool of the withdrawn results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Version of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The answer to `GET /v1/retractions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetractionList {
    /// The retractions in force, the oldest first.
    pub retractions: Vec<RetractionRow>,
}
