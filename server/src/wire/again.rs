//! Runs that repeat a run, and the invoice of an edit.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use ostler_kernel::lineage::StalePolicy;
use ostler_kernel::run;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The body of `POST /v1/runs/{id}/rerun`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// Executes this node and all nodes below the node; absent: executes the nodes without a recorded result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The body of `POST /v1/runs/{id}/fork`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The last record to take over.
    pub at: NonZeroU64,
    /// New values of parameters of nodes that have not started by then: node, parameter, value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Map<String, Value>>,
}

/// The body of `POST /v1/runs/{id}/nodes/{node}/edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The new content.
    pub value: Value,
    /// Digest of the result that the person saw; absent: no check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_digest: Option<String>,
    /// Treatment of the edit once the inputs of the node change.
    #[serde(default)]
    pub stale: StaleEdit,
}

/// Treatment of an edit once the inputs of the edited node change. A run asks no person about a stale edit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleEdit {
    /// The edit stays, and is reported as stale.
    #[default]
    Keep,
    /// The edit is dropped, and the node executed.
    Recompute,
}

impl From<StaleEdit> for StalePolicy {
    fn from(stale: StaleEdit) -> StalePolicy {
        match stale {
            StaleEdit::Keep => StalePolicy::Keep,
            StaleEdit::Recompute => StalePolicy::Recompute,
        }
    }
}

/// The answer to `GET /v1/runs/{id}/nodes/{node}/invoice`: nodes that an edit of the node executes again at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// Id of the run.
    pub run: String,
    /// The node.
    pub node: String,
    /// The nodes below the edited one, in ascending order.
    pub executes_at_most: Vec<String>,
    /// Credits that these nodes cost in the run.
    pub credits: u64,
    /// Tokens that these nodes used in the run.
    pub tokens: u64,
    /// The nodes among them that act on the world.
    pub effects: Vec<String>,
    /// The nodes among them that ask a person.
    pub approvals: Vec<String>,
}

impl Invoice {
    pub(crate) fn new(run: String, node: String, invoice: run::Invoice) -> Invoice {
        let run::Invoice { nodes, credits, tokens, effects, approvals } = invoice;
        let ids = |ids: Vec<ostler_kernel::id::NodeId>| ids.iter().map(ToString::to_string).collect();
        Invoice {
            run,
            node,
            executes_at_most: ids(nodes),
            credits,
            tokens,
            effects: ids(effects),
            approvals: ids(approvals),
        }
    }
}
