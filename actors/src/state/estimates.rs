//! Expected costs of attempts, from the costs of earlier ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_kernel::plan::Node;
use ostler_kernel::text::TOKEN_BYTES;
use ostler_scheduler::{AMOUNT_MAX, COST_MAX, Price};

use crate::base::lock::lock;
use crate::state::toolbox::Toolbox;

/// Credits (milliseconds of a slot) held by a running attempt of a metered client: a client with less does not start one.
/// The same for all, because the mean of a tool says little about its next call: after calls of 5 ms, sixteen programs of a
/// second would start on a balance of 80. A client with a balance of `b` runs at most `b / ATTEMPT_CREDITS` attempts at
/// once, and its debt is at most what these cost beyond their holds.
pub const ATTEMPT_CREDITS: u64 = 100;

/// Charge of an attempt without history. Too high a charge keeps the client, and later ones, from their entitled slots
/// while it runs (theorem T1); too low a charge is corrected at settlement.
const UNKNOWN_CHARGE: u64 = 1;

pub(crate) const UNKNOWN: Price = Price { charge: UNKNOWN_CHARGE, ..Price::flat(ATTEMPT_CREDITS) };

const ALPHA_TENTHS: u64 = 3;

/// Expected tokens of an answer without history.
pub(crate) const ANSWER_TOKENS: u64 = 512;

pub(crate) struct Estimates {
    /// Thousandths of a credit; 0 before the first end.
    by_tool: BTreeMap<String, AtomicU64>,
    other: AtomicU64,
    /// Mean tokens of the calls of a tool in a role: as many entries as models times roles.
    tokens: Mutex<BTreeMap<(String, String), u64>>,
}

impl Estimates {
    pub(crate) fn new(toolbox: &Toolbox) -> Estimates {
        let by_tool = toolbox.iter().map(|tool| (tool.spec().name.clone(), AtomicU64::new(0)));
        Estimates { by_tool: by_tool.collect(), other: AtomicU64::new(0), tokens: Mutex::default() }
    }

    /// The price of an attempt of `node`.
    pub(crate) fn of(&self, node: &Node) -> Price {
        match self.mean(node).load(Ordering::Relaxed) {
            0 => UNKNOWN,
            mean => {
                let charge = mean.div_ceil(1_000);
                Price { charge, ..Price::flat(ATTEMPT_CREDITS) }
            }
        }
    }

    /// Expected tokens of a call of a model by a tool in a role, prompt and answer together.
    pub(crate) fn tokens(&self, tool: &str, role: &str, prompt_bytes: u64) -> u64 {
        let known = lock(&self.tokens).get(&(tool.to_owned(), role.to_owned())).copied();
        known
            .unwrap_or_else(|| prompt_bytes.div_ceil(TOKEN_BYTES).saturating_add(ANSWER_TOKENS))
            .min(AMOUNT_MAX)
    }

    pub(crate) fn learn_tokens(&self, tool: &str, role: &str, tokens: u64) {
        let last = tokens.min(AMOUNT_MAX);
        if last > 0 {
            let mut means = lock(&self.tokens);
            let mean = means.entry((tool.to_owned(), role.to_owned())).or_insert(last);
            *mean = (*mean * (10 - ALPHA_TENTHS) + last * ALPHA_TENTHS).div_ceil(10);
        }
    }

    pub(crate) fn learn(&self, node: &Node, cost: u64) {
        let mean = self.mean(node);
        let last = cost.clamp(1, COST_MAX) * 1_000;
        let after = match mean.load(Ordering::Relaxed) {
            0 => last,
            before => (before * (10 - ALPHA_TENTHS) + last * ALPHA_TENTHS) / 10,
        };
        // A concurrent update may be lost; an estimate tolerates that.
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
            assert_eq!((charge, credits), (expected, ATTEMPT_CREDITS), "after {cost}");
        };
        check(100, 100);
        check(200, 130);
        check(0, 92);
        (0..100).for_each(|_| estimates.learn(node, 0));
        check(0, 1);
        check(u64::MAX, (COST_MAX * 3).div_ceil(10) + 1);
    }
}
