//! Executors of nodes.

use serde::{Deserialize, Serialize};

/// Executor of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Kind {
    Tool,
    Model,
    Reflection,
    Observer,
    MicroPlanner,
    Interjection,
    Aggregator,
    HumanApproval,
    SubAgent,
    Earlier,
    Wait,
    Collector,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Tool,
        Kind::Model,
        Kind::Reflection,
        Kind::Observer,
        Kind::MicroPlanner,
        Kind::Interjection,
        Kind::Aggregator,
        Kind::HumanApproval,
        Kind::SubAgent,
        Kind::Earlier,
        Kind::Wait,
        Kind::Collector,
    ];

    /// The word used in plan files.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Tool => "tool",
            Kind::Model => "model",
            Kind::Reflection => "reflection",
            Kind::Observer => "observer",
            Kind::MicroPlanner => "micro_planner",
            Kind::Interjection => "interjection",
            Kind::Aggregator => "aggregator",
            Kind::HumanApproval => "human_approval",
            Kind::SubAgent => "sub_agent",
            Kind::Earlier => "earlier",
            Kind::Wait => "wait",
            Kind::Collector => "collector",
        }
    }

    /// True if nodes of the kind may name a model, which their attempts call.
    pub fn may_call_model(self) -> bool {
        match self {
            Kind::Model | Kind::Reflection | Kind::Observer | Kind::Interjection | Kind::Aggregator => true,
            Kind::Tool
            | Kind::MicroPlanner
            | Kind::HumanApproval
            | Kind::SubAgent
            | Kind::Earlier
            | Kind::Wait
            | Kind::Collector => false,
        }
    }

    /// See [`Node::is_control`](super::Node::is_control).
    pub fn is_control(self) -> bool {
        match self {
            Kind::Reflection
            | Kind::Observer
            | Kind::MicroPlanner
            | Kind::Interjection
            | Kind::Aggregator => true,
            Kind::Tool
            | Kind::Model
            | Kind::HumanApproval
            | Kind::SubAgent
            | Kind::Earlier
            | Kind::Wait
            | Kind::Collector => false,
        }
    }
}
