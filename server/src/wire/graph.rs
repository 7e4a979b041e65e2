//! The graph of a run.

use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/runs/{id}/graph`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphView {
    /// The run as a UUID.
    pub run: String,
    /// Id of the plan.
    pub plan: String,
    /// Version of the plan.
    pub version: u32,
    /// Nodes sorted by level, then id.
    pub nodes: Vec<GraphNode>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
    /// Ids of the output nodes.
    pub outputs: Vec<String>,
}

/// A node of a graph and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Id of the node.
    pub id: String,
    /// Executor kind, such as `tool`.
    pub kind: String,
    /// Tool or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Length of the longest path to the node.
    pub level: u32,
    /// State of the node.
    pub state: String,
    /// Reason of the last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the last transition, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
    /// The attempt ended with its process; a resumed run repeats it.
    #[serde(rename = "cut_off", default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Duration of the last attempt in milliseconds, up to now if it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<i64>,
    /// Message of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Digest of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Bytes of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `reused`, `cut_off`, `revalidated`, `kept`, `edited`, or `recomputed` because of a change; `withdrawn`: by a retraction in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<String>,
    /// The node is on the longest chain of attempts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub critical: bool,
    /// End of the wait for an answer, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// The collector of the list for whose element the node was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The undone node, for an undo node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Number of the undo, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
}

/// An edge of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// The dependency.
    pub from: String,
    /// The dependent node.
    pub to: String,
    /// `success` or `terminal`.
    pub on: String,
}
