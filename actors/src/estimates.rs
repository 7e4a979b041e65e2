//! What attempts are expected to cost: what those before them did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::plan::Node;

use crate::toolbox::Toolbox;

/// What an attempt is expected to cost as long as none has ended, in credits (milliseconds of a slot).
pub(crate) const ESTIMATE: u64 = 100;

/// How much the last cost counts among those before it, in tenths.
const ALPHA_TENTHS: u64 = 3;

/// The cost of an attempt by its tool, an exponentially weighted mean of what attempts cost. An estimate is charged while the
/// attempt runs, so one that is far too high keeps its client from the slots it is entitled to for as long (theorem T1).
pub(crate) struct Estimates {
    /// In thousandths of a credit, for each tool there is.
    by_tool: BTreeMap<String, AtomicU64>,
    /// For what uses no tool.
    other: AtomicU64,
}

impl Estimates {
    pub(crate) fn new(toolbox: &Toolbox) -> Estimates {
        let first = || AtomicU64::new(ESTIMATE * 1_000);
        let by_tool = toolbox.iter().map(|tool| (tool.spec().name.clone(), first())).collect();
        Estimates { by_tool, other: first() }
    }

    /// What an attempt of the node is expected to cost, in credits; at least one.
    pub(crate) fn of(&self, node: &Node) -> u64 {
        self.mean(node).load(Ordering::Relaxed).div_ceil(1_000).max(1)
    }

    /// An attempt of the node has ended that cost so much.
    pub(crate) fn learn(&self, node: &Node, cost: u64) {
        let mean = self.mean(node);
        let before = mean.load(Ordering::Relaxed);
        let last = cost.saturating_mul(1_000);
        let after =
            (before / 10).saturating_mul(10 - ALPHA_TENTHS) + (last / 10).saturating_mul(ALPHA_TENTHS);
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
        let check = |cost, expected| {
            estimates.learn(node, cost);
            assert_eq!(estimates.of(node), expected, "after {cost}");
        };
        check(100, 100);
        check(200, 130);
        check(1, 92);
        (0..100).for_each(|_| estimates.learn(node, 0));
        check(0, 1);
        check(u64::MAX, u64::MAX / 10 * 3 / 1_000 + 1);
    }
}
