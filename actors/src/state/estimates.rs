//! What attempts are expected to cost: what those before them did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::plan::Node;
use ostler_scheduler::{COST_MAX, Price};

use crate::state::toolbox::Toolbox;

/// The most that an attempt holds of its client's credits (milliseconds of a slot) while it runs, and what one holds of which
/// nothing is known: with less than that left it does not start.
pub const ATTEMPT_CREDITS: u64 = 100;

/// What it uses up of its client's share meanwhile. Too much would keep the client, and whoever comes after it, from the slots
/// that they are entitled to, for as long as attempts run (theorem T1); what was too little is made up for at its end.
const UNKNOWN_CHARGE: u64 = 1;

/// What an attempt of which nothing is known is expected to cost.
pub(crate) const UNKNOWN: Price = Price { charge: UNKNOWN_CHARGE, ..Price::flat(ATTEMPT_CREDITS) };

/// How much the last cost counts among those before it, in tenths.
const ALPHA_TENTHS: u64 = 3;

/// The cost of an attempt by its tool: an exponentially weighted mean of what attempts cost.
pub(crate) struct Estimates {
    /// In thousandths of a credit, for each tool there is; 0: none has ended yet.
    by_tool: BTreeMap<String, AtomicU64>,
    /// For what uses no tool.
    other: AtomicU64,
}

impl Estimates {
    pub(crate) fn new(toolbox: &Toolbox) -> Estimates {
        let by_tool = toolbox.iter().map(|tool| (tool.spec().name.clone(), AtomicU64::new(0)));
        Estimates { by_tool: by_tool.collect(), other: AtomicU64::new(0) }
    }

    /// What an attempt of the node is expected to cost.
    pub(crate) fn of(&self, node: &Node) -> Price {
        match self.mean(node).load(Ordering::Relaxed) {
            0 => UNKNOWN,
            mean => {
                let charge = mean.div_ceil(1_000);
                // Who has as much as this left may go on, however long others took with the same tool.
                Price { charge, ..Price::flat(charge.min(ATTEMPT_CREDITS)) }
            }
        }
    }

    /// An attempt of the node has ended that cost so much.
    pub(crate) fn learn(&self, node: &Node, cost: u64) {
        let mean = self.mean(node);
        let last = cost.clamp(1, COST_MAX) * 1_000;
        let after = match mean.load(Ordering::Relaxed) {
            0 => last,
            before => (before * (10 - ALPHA_TENTHS) + last * ALPHA_TENTHS) / 10,
        };
        // Of two that end at once one may be forgotten.
        mean.store(after, Ordering::Relaxed);
    }

    fn mean(&self, node: &Node) -> &AtomicU64 {
        node.tool.as_deref().and_then(|tool| self.by_tool.get(tool)).unwrap_or(&self.other)
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::plan::PlanDraft;

    use super::*;

    #[test]
    fn an_estimate_follows_what_attempts_cost_and_stays_in_range() {
        let estimates = Estimates::new(&Toolbox::new(Vec::new()).unwrap());
        let draft = serde_json::json!({"id": "p", "nodes": [{"id": "n", "kind": "human_approval", "human_timeout": "1h"}]});
        let draft: PlanDraft = serde_json::from_value(draft).unwrap();
        let toolbox = Toolbox::new(Vec::new()).unwrap();
        let plan = draft.validate(&ostler_kernel::plan::Settings::real(1, &toolbox)).unwrap();
        let node = &plan.nodes[0];
        assert_eq!(estimates.of(node), UNKNOWN);
        let check = |cost, expected: u64| {
            estimates.learn(node, cost);
            let Price { charge, credits, .. } = estimates.of(node);
            assert_eq!((charge, credits), (expected, expected.min(ATTEMPT_CREDITS)), "after {cost}");
        };
        check(100, 100);
        check(200, 130);
        check(0, 92);
        (0..100).for_each(|_| estimates.learn(node, 0));
        check(0, 1);
        check(u64::MAX, (COST_MAX * 3).div_ceil(10) + 1);
    }
}
