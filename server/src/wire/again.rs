//! Runs that repeat a run, and the invoice of an edit.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use ostler_actors::Charge;
use ostler_kernel::id::NodeId;
use ostler_kernel::lineage::StalePolicy;
use ostler_kernel::plan::PlanDraft;
use ostler_kernel::run::{EarlierApproval, ModelUsage, RecomputationCause};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The body of `POST /v1/runs/{id}/rerun` and of `POST /v1/runs/{id}/rerun/invoice`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// Executes this node and all nodes below the node; absent: executes the nodes without a recorded result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The plan in the place of that of the run, whose edits stay; absent: the same plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanDraft>,
    /// The fate of earlier edits whose policy is to ask, where what they rest on may change; `ask` refuses the request then.
    #[serde(default)]
    pub earlier_edits: StaleEdit,
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

/// The body of `POST /v1/runs/{id}/nodes/{node}/edit` and `.../invoice`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The new content.
    pub value: Value,
    /// Digest of the result that the person saw, or its first eight hex digits or more; absent: no check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_digest: Option<String>,
    /// Treatment of the edit once the inputs of the node change.
    #[serde(default)]
    pub stale: StaleEdit,
    /// The fate of earlier edits; see [`RerunRequest::earlier_edits`].
    #[serde(default)]
    pub earlier_edits: StaleEdit,
}

/// Treatment of an edit once the inputs of the edited node change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleEdit {
    /// A repetition that may change them is refused until it says what becomes of the edit.
    #[default]
    Ask,
    /// The edit stays, and is reported as stale.
    Keep,
    /// The edit is dropped, and the node executed.
    Recompute,
}

impl From<StaleEdit> for StalePolicy {
    fn from(stale: StaleEdit) -> StalePolicy {
        match stale {
            StaleEdit::Ask => StalePolicy::Ask,
            StaleEdit::Keep => StalePolicy::Keep,
            StaleEdit::Recompute => StalePolicy::Recompute,
        }
    }
}

/// The answer to `POST /v1/runs/{id}/nodes/{node}/invoice` and `/v1/runs/{id}/rerun/invoice`: what the repetition executes at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    /// Id of the run.
    pub run: String,
    /// The edited node; absent: the run is repeated without an edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The nodes, in the order of the plan.
    pub executes_at_most: Vec<InvoiceLine>,
    /// Credits that the nodes cost when they were executed last.
    pub credits: u64,
    /// Tokens that the nodes used then.
    pub tokens: u64,
    /// Price of their calls of models then, in billionths of a US dollar.
    pub nano_usd: u64,
    /// Calls of models of unknown price.
    pub unpriced: u32,
    /// Nodes that were never executed, or whose run is gone: their cost is unknown.
    pub unknown: Vec<String>,
    /// The nodes among them that act on the world.
    pub effects: Vec<String>,
    /// The nodes among them that ask a person.
    pub approvals: Vec<String>,
    /// The nodes among them that a person had approved: no person is asked again, if what was approved comes out the same.
    #[serde(default)]
    pub approvals_kept: Vec<String>,
    /// The nodes among them that a person had approved: the approval is void.
    #[serde(default)]
    pub approvals_void: Vec<String>,
    /// Nodes with an earlier edit that stays, although what the node rests on may come out changed.
    #[serde(default)]
    pub stale_edits: Vec<String>,
    /// Nodes with such an edit about which the repetition asks: it stays, or is dropped.
    #[serde(default)]
    pub asked_edits: Vec<String>,
    /// Highest impact of the nodes, 0 to 2.
    #[serde(default)]
    pub impact: u8,
    /// Duration of the longest chain of them, by their last attempts, in milliseconds. Answers of people take longer.
    #[serde(default)]
    pub expected_ms: i64,
}

/// A node that a repetition executes, unless its inputs come out as they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceLine {
    /// The node.
    pub node: String,
    /// The cause that lies in the node itself; absent: its inputs may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<RecomputationCause>,
    /// The nodes that it depends on, among the edited one and those that are executed.
    pub inputs: Vec<String>,
    /// Impact, 0 to 2.
    #[serde(default)]
    pub impact: u8,
    /// Duration of the last attempt in milliseconds; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<i64>,
}

impl Invoice {
    pub(crate) fn new(run: String, node: Option<String>, invoice: &ostler_actors::Invoice) -> Invoice {
        let charges = &invoice.charges;
        let ids = |is: fn(&Charge) -> bool| {
            charges.iter().filter(|charge| is(charge)).map(|charge| charge.line.node.to_string()).collect()
        };
        let (mut credits, mut models) = (0_u64, ModelUsage::default());
        for spent in charges.iter().filter_map(|charge| charge.spent) {
            credits = credits.saturating_add(spent.credits);
            models = models.plus(&spent.models);
        }
        Invoice {
            run,
            node,
            executes_at_most: charges.iter().map(InvoiceLine::new).collect(),
            credits,
            tokens: models.tokens(),
            nano_usd: models.nano_usd,
            unpriced: models.unpriced,
            unknown: ids(|charge| charge.spent.is_none()),
            effects: ids(|charge| charge.line.acts),
            approvals: ids(|charge| charge.line.asks),
            approvals_kept: ids(|charge| charge.line.approved == Some(EarlierApproval::Holds)),
            approvals_void: ids(|charge| charge.line.approved == Some(EarlierApproval::Void)),
            stale_edits: invoice.stale_edits.iter().map(ToString::to_string).collect(),
            asked_edits: invoice.asked_edits.iter().map(ToString::to_string).collect(),
            impact: charges.iter().map(|charge| charge.line.impact).max().unwrap_or(0),
            expected_ms: longest_chain(charges),
        }
    }
}

/// Duration of the longest chain of nodes, each behind its inputs. The nodes are in the order of the plan.
fn longest_chain(charges: &[Charge]) -> i64 {
    let mut ends: BTreeMap<&NodeId, i64> = BTreeMap::new();
    for Charge { line, took_ms, .. } in charges {
        let begins = line.inputs.iter().filter_map(|input| ends.get(input)).max().copied().unwrap_or(0);
        ends.insert(&line.node, begins.saturating_add(took_ms.unwrap_or(0)));
    }
    ends.into_values().max().unwrap_or(0)
}

impl InvoiceLine {
    fn new(charge: &Charge) -> InvoiceLine {
        let line = &charge.line;
        InvoiceLine {
            node: line.node.to_string(),
            cause: line.cause,
            inputs: line.inputs.iter().map(ToString::to_string).collect(),
            impact: line.impact,
            took_ms: charge.took_ms,
        }
    }
}
