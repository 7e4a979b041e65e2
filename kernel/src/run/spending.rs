//! The price of a repetition: what each node spent when it was executed last.

use std::collections::BTreeMap;

use super::ModelUsage;
use crate::event::Event;
use crate::id::NodeId;

/// What each node of a run spent. [`NodeInstance::made_in`](super::NodeInstance::made_in) names the run that paid for a result which a
/// node was given without an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    spent: BTreeMap<NodeId, Spent>,
}

/// Credits and model calls of all attempts of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Credits.
    pub credits: u64,
    /// Calls of models.
    pub models: ModelUsage,
}

impl Spending {
    pub(super) fn record(&mut self, event: &Event) {
        match event {
            Event::AttemptResult(result) | Event::LateResult(result) => {
                let spent = self.spent.entry(result.node.clone()).or_default();
                spent.credits = spent.credits.saturating_add(result.cost);
            }
            Event::ModelCalled { node, call, .. } => {
                self.spent.entry(node.clone()).or_default().models.add(call);
            }
            _ => {}
        }
    }

    /// What a node spent in this run; `None` without an attempt.
    pub fn of(&self, node: &NodeId) -> Option<Spent> {
        self.spent.get(node).copied()
    }
}
