//! Edges, references and contract rules of a node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::is_default;
use crate::id::NodeId;

/// An edge, seen from the consumer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the id of a node, or {n: id, on: success | terminal}")]
pub struct Dep {
    /// The source.
    pub n: NodeId,
    /// The state required of the source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on: On,
}

/// Condition that satisfies an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// The source is executed.
    #[default]
    Success,
    /// The source is in any terminal state. Carries no data and creates no demand.
    Terminal,
}

/// Rule that combines edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every edge holds.
    AllOf,
    /// At least one candidate is executed.
    AnyOf,
}

/// Start order of the candidates of an `any_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// All at once.
    #[default]
    Parallel,
    /// In list order, each after the ones before have failed.
    Ordered,
}

/// A parameter taken from another node's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a reference: {from: NODE, path: PATH}")]
pub struct ParamRef {
    /// A node id, or `$winner` in an `any_of` node.
    pub from: NodeId,
    /// Dot path into the result: keys, and list indices without leading zeros.
    pub path: Option<String>,
    /// Text with `{}` in place of the value.
    #[serde(default)]
    pub template: Option<String>,
}

impl ParamRef {
    /// The source "the candidate that won".
    pub const WINNER: &'static str = "$winner";
}

/// A rule of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Method of judging.
    pub method: Method,
    /// P(correct | accepted), in (0, 1]; `None` means unknown (1 for `schema`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub p: Option<f64>,
    /// The requirement; the form depends on the method. Nodes of one tool share the tool's result schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spec: Option<Arc<Value>>,
}

/// Method of judging a contract rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Method {
    Schema,
    Code,
    Test,
    Model,
    Human,
}
