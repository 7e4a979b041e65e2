//! Compiled contracts, shared by nodes with equal rules.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use ostler_kernel::contract::{Contract, ContractError};
use ostler_kernel::plan::Rule;

use crate::base::lock::lock;

const RECENT_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Contracts(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_text: BTreeMap<String, Arc<Contract>>,
    /// Bytes of their texts and patterns.
    bytes: usize,
    /// The last used contracts, with the rules they were asked for.
    recent: VecDeque<(Vec<Rule>, Arc<Contract>)>,
}

impl Contracts {
    /// Returns the compiled contract. At most `most` are cached, with at most `bytes` of texts and patterns.
    pub(crate) fn compiled(
        &self,
        rules: &[Rule],
        most: usize,
        bytes_most: usize,
    ) -> Result<Arc<Contract>, ContractError> {
        if let Some(contract) = lock(&self.0).recent(rules) {
            return Ok(contract);
        }
        let text = serde_json::to_string(rules).expect("rules hold names, numbers and JSON");
        let known = lock(&self.0).by_text.get(&text).cloned();
        let contract = match known {
            Some(known) => known,
            None => Arc::new(Contract::compile(rules)?),
        };
        let mut kept = lock(&self.0);
        let bytes = kept.bytes.saturating_add(text.len()).saturating_add(contract.pattern_bytes());
        if kept.by_text.len() < most && bytes <= bytes_most && !kept.by_text.contains_key(&text) {
            kept.bytes = bytes;
            kept.by_text.insert(text, Arc::clone(&contract));
        }
        kept.recent.truncate(RECENT_MAX - 1);
        kept.recent.push_front((rules.to_vec(), Arc::clone(&contract)));
        Ok(contract)
    }
}

impl Kept {
    fn recent(&self, rules: &[Rule]) -> Option<Arc<Contract>> {
        let mut recent = self.recent.iter();
        recent.find(|(kept, _)| are_same(kept, rules)).map(|(_, contract)| Arc::clone(contract))
    }
}

/// True if rules share their specs, which is cheaper to see than equality. Nodes of one tool share its result schema.
fn are_same(some: &[Rule], others: &[Rule]) -> bool {
    let is_same = |(one, other): (&Rule, &Rule)| {
        let same_spec = match (&one.spec, &other.spec) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_spec && one.method == other.method && one.p == other.p
    };
    some.len() == others.len() && some.iter().zip(others).all(is_same)
}

#[cfg(test)]
mod tests {
    use ostler_kernel::plan::Method;
    use serde_json::json;

    use super::*;

    fn at_most(most: u32) -> Vec<Rule> {
        let spec = Some(json!({"type": "integer", "maximum": most}));
        vec![Rule { method: Method::Schema, p: None, spec: spec.map(Arc::new) }]
    }

    #[test]
    fn compiled_contracts_are_kept_up_to_the_limit_and_compiled_anew_beyond() {
        let contracts = Contracts::default();
        for most in 0..5 {
            let [first, second] =
                [(); 2].map(|()| contracts.compiled(&at_most(most), 2, usize::MAX).unwrap());
            assert_eq!(Arc::ptr_eq(&first, &second), most < 2, "contract {most}");
            assert!(first.judge(&json!(most)).holds() && !second.judge(&json!(most + 1)).holds());
        }
        assert_eq!(lock(&contracts.0).by_text.len(), 2);
    }

    #[test]
    fn contracts_are_kept_as_long_as_their_texts_and_patterns_have_room() {
        let matches = |pattern: &str| {
            let spec = Some(Arc::new(json!({"check": "matches", "value": pattern})));
            vec![Rule { method: Method::Code, p: None, spec }]
        };
        let [small, large] = [matches("a"), matches("[a-z]{1000}")];
        let bytes = |rules: &[Rule]| {
            let contracts = Contracts::default();
            contracts.compiled(rules, 1, usize::MAX).unwrap();
            lock(&contracts.0).bytes
        };
        assert!(bytes(&large) > 10 * bytes(&small), "{} {}", bytes(&small), bytes(&large));
        let most = bytes(&small) + bytes(&large);
        for (room, kept) in [(most, 2), (most - 1, 1)] {
            let contracts = Contracts::default();
            for rules in [&small, &large, &small, &large] {
                contracts.compiled(rules, 9, room).unwrap();
            }
            assert_eq!(lock(&contracts.0).by_text.len(), kept);
            assert!(lock(&contracts.0).bytes <= room);
        }
    }

    #[test]
    fn the_last_contracts_are_known_by_the_specs_they_hold() {
        let contracts = Contracts::default();
        let rules: Vec<Vec<Rule>> = (0..2 * RECENT_MAX as u32).map(at_most).collect();
        let first: Vec<_> = rules.iter().map(|rules| contracts.compiled(rules, 0, 0).unwrap()).collect();
        assert_eq!(lock(&contracts.0).recent.len(), RECENT_MAX);
        let known = |at: usize| Arc::ptr_eq(&first[at], &contracts.compiled(&rules[at], 0, 0).unwrap());
        assert!((RECENT_MAX..2 * RECENT_MAX).all(known));
        assert!(!known(0));
    }
}
