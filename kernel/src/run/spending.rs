//! The price of a repetition: what each node spent when it was executed last.

use std::collections::BTreeMap;

use super::ModelUsage;
use crate::event::{Event, ReuseDecision};
use crate::id::{NodeId, RunId};

/// What each node of a run spent, and which run made the results that nodes were given without an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    spent: BTreeMap<NodeId, Spent>,
    made_in: BTreeMap<NodeId, RunId>,
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
            Event::ReuseDecided(decided) => {
                let run = match &decided.decision {
                    ReuseDecision::Reused(result) => result.from.run,
                    ReuseDecision::Kept { from, .. } => *from,
                    ReuseDecision::Recomputed(_) | ReuseDecision::Edited { .. } => return,
                };
                self.made_in.insert(decided.node.clone(), run);
            }
            _ => {}
        }
    }

    /// What a node spent in this run; `None` without an attempt.
    pub fn of(&self, node: &NodeId) -> Option<Spent> {
        self.spent.get(node).copied()
    }

    /// The earlier run that made the result of a node.
    pub fn made_in(&self, node: &NodeId) -> Option<RunId> {
        self.made_in.get(node).copied()
    }
}
