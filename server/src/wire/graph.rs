//! The graph of a run, as it is told.

use serde::{Deserialize, Serialize};

/// The answer to `GET /v1/runs/{id}/graph`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphView {
    /// The run, as a UUID.
    pub run: String,
    /// Id of its plan.
    pub plan: String,
    /// Version of the plan.
    pub version: u32,
    /// The nodes, in the order of their levels, then of their ids.
    pub nodes: Vec<GraphNode>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
    /// What the run is for.
    pub outputs: Vec<String>,
}

/// A node of a graph, with where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// What executes it.
    pub kind: String,
    /// Its tool or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Longest path to it.
    pub level: u32,
    /// Where it stands.
    pub state: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it came there, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// Attempts so far.
    pub attempts: u32,
    /// Its attempt ended with its process, and is done again when the run goes on.
    #[serde(rename = "cut_off", default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Time spent in the last attempt, so far if it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<i64>,
    /// What its last failed attempt met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Digest of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Bytes of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// An edge of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// The source.
    pub from: String,
    /// The consumer.
    pub to: String,
    /// `success` or `terminal`.
    pub on: String,
}
