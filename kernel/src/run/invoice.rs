//! The invoice of an edit: what a changed result executes again at most.

use std::collections::BTreeMap;

use super::{ModelUsage, Run};
use crate::event::Event;
use crate::id::NodeId;
use crate::plan::{Approval, Kind, Node};

/// Credits and model calls of each node that had an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending(BTreeMap<NodeId, Spent>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Spent {
    credits: u64,
    models: ModelUsage,
}

impl Spending {
    pub(super) fn record(&mut self, event: &Event) {
        match event {
            Event::AttemptResult(result) | Event::LateResult(result) => {
                let spent = self.0.entry(result.node.clone()).or_default();
                spent.credits = spent.credits.saturating_add(result.cost);
            }
            Event::ModelCalled { node, call, .. } => self.0.entry(node.clone()).or_default().models.add(call),
            _ => {}
        }
    }
}

/// What an edit of a node's result executes again at most. A result that comes out equal spares the nodes below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    /// The nodes below the edited one, in ascending order of ids.
    pub nodes: Vec<NodeId>,
    /// Credits that these nodes cost in the run.
    pub credits: u64,
    /// Tokens that these nodes used in the run.
    pub tokens: u64,
    /// The nodes among them that act on the world.
    pub effects: Vec<NodeId>,
    /// The nodes among them that ask a person.
    pub approvals: Vec<NodeId>,
}

impl Run {
    /// The invoice of an edit of `node`, with what each node spent in this run; `None` for a node that the plan lacks.
    pub fn invoice(&self, node: &NodeId, spending: &Spending) -> Option<Invoice> {
        let below: Vec<&Node> =
            self.graph.below(self.position(node)?).into_iter().map(|at| &self.plan.nodes[at]).collect();
        let spent = || below.iter().filter_map(|node| spending.0.get(&node.id));
        let which = |is: fn(&Node) -> bool| {
            below.iter().filter(|node| is(node)).map(|node| node.id.clone()).collect()
        };
        Some(Invoice {
            credits: spent().fold(0, |sum: u64, spent| sum.saturating_add(spent.credits)),
            tokens: spent().fold(0, |sum: u64, spent| sum.saturating_add(spent.models.tokens())),
            effects: which(Node::acts),
            approvals: which(|node| {
                node.kind == Kind::HumanApproval || node.approval == Approval::Before || node.asks_after()
            }),
            nodes: below.iter().map(|node| node.id.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::plan::{PlanDraft, PolicyDraft, Settings};

    #[test]
    fn an_invoice_names_everything_below_a_node_and_nothing_else() {
        let mut nodes = json!([
            {"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "beside"},
            {"id": "ask", "kind": "human_approval", "human_timeout": 1, "deps": ["b"]},
            {"id": "last", "deps": ["ask", "beside"]}
        ]);
        for node in nodes.as_array_mut().unwrap() {
            node["contract"] = json!([{"method": "schema"}]);
        }
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": nodes})).unwrap();
        let plan = draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap();
        let run = Run::new(Arc::new(plan), 1, 0);
        let invoice = |node: &str| run.invoice(&node.into(), &Spending::default());
        let ids = |ids: &[&str]| ids.iter().map(|id| NodeId::from(*id)).collect::<Vec<_>>();
        let of_a = invoice("a").unwrap();
        assert_eq!((of_a.nodes, of_a.approvals), (ids(&["ask", "b", "last"]), ids(&["ask"])));
        assert_eq!(invoice("last").unwrap().nodes, ids(&[]));
        assert_eq!(invoice("nowhere"), None);
    }
}
