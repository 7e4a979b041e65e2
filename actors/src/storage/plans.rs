//! Plans of driven runs. Runs of one plan share it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use ostler_kernel::id::Digest;
use ostler_kernel::json::{self, Json, JsonError};
use ostler_kernel::lineage;
use ostler_kernel::plan::Plan;

use crate::base::lock::lock;

const SWEEP_AT_MIN: usize = 64;

/// Nodes of recent plans that are kept without a run: twice the default limit of one plan.
const RECENT_NODES_MAX: usize = 20_000;

const RECENT_PLANS_MAX: usize = 16;

/// Plans by the digest of their text: those in use, and the most recent.
#[derive(Default)]
pub(crate) struct Plans(Mutex<Held>);

#[derive(Default)]
struct Held {
    plans: BTreeMap<Digest, Weak<Plan>>,
    sweep_at: usize,
    recent: VecDeque<Spelled>,
    recent_nodes: usize,
}

#[derive(Clone)]
struct Spelled {
    text: Json,
    plan: Arc<Plan>,
}

impl Plans {
    /// Returns the plan of a text, shared with other runs.
    pub(crate) fn read(&self, text: &Json) -> Result<Arc<Plan>, serde_json::Error> {
        if let Some(plan) = self.recently_spelled(text) {
            return Ok(plan);
        }
        let key = lineage::value(text);
        if let Some(plan) = lock(&self.0).plans.get(&key).and_then(Weak::upgrade) {
            return Ok(plan);
        }
        Ok(lock(&self.0).keep(key, text, Arc::new(serde_json::from_str(text.as_str())?)))
    }

    /// Finds a recently used plan by its whole text: comparing is cheaper than hashing.
    fn recently_spelled(&self, text: &Json) -> Option<Arc<Plan>> {
        let text = text.as_str();
        let as_long: Vec<Spelled> = {
            let held = lock(&self.0);
            let as_long = held.recent.iter().filter(|recent| recent.text.as_str().len() == text.len());
            as_long.cloned().collect()
        };
        let same = as_long.into_iter().find(|recent| recent.text.as_str() == text);
        same.map(|same| same.plan)
    }

    /// Returns the canonical text of a plan, and keeps the plan for the run that is about to read the text. A plan that
    /// is submitted again is serialised once.
    pub(crate) fn spell(&self, mut plan: Arc<Plan>) -> Result<Json, JsonError> {
        let recent: Vec<Spelled> = {
            let held = lock(&self.0);
            if let Some(same) = held.recent.iter().find(|recent| Arc::ptr_eq(&recent.plan, &plan)) {
                return Ok(same.text.clone());
            }
            held.recent.iter().cloned().collect()
        };
        if let Some(same) = recent.into_iter().find(|recent| recent.plan == plan) {
            return Ok(same.text);
        }
        if !plan.has_canonical_numbers() {
            Arc::make_mut(&mut plan).canonicalize_numbers();
        }
        let text = json::to_canonical(&*plan)?;
        debug_assert_eq!(serde_json::from_str::<Plan>(text.as_str()).ok().as_ref(), Some(&*plan));
        lock(&self.0).keep(lineage::value(&text), &text, plan);
        Ok(text)
    }
}

impl Held {
    fn keep(&mut self, key: Digest, text: &Json, plan: Arc<Plan>) -> Arc<Plan> {
        if let Some(plan) = self.plans.get(&key).and_then(Weak::upgrade) {
            return plan;
        }
        if self.plans.len() >= self.sweep_at.max(SWEEP_AT_MIN) {
            self.plans.retain(|_, plan| plan.strong_count() > 0);
            self.sweep_at = self.plans.len() * 2;
        }
        self.plans.insert(key, Arc::downgrade(&plan));
        self.recent_nodes += plan.nodes.len();
        self.recent.push_back(Spelled { text: text.clone(), plan: Arc::clone(&plan) });
        while self.recent_nodes > RECENT_NODES_MAX || self.recent.len() > RECENT_PLANS_MAX {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_nodes -= oldest.plan.nodes.len();
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::json;

    use super::*;

    fn text(number: usize) -> Json {
        let plan = serde_json::json!({
            "id": format!("plan {number}"), "version": 1, "nodes": [], "outputs": [], "outputs_declared": false,
            "policy": ostler_kernel::plan::Policy::SIMULATION,
        });
        json::canonical(&plan).unwrap()
    }

    #[test]
    fn runs_of_one_plan_share_it() {
        let plans = Plans::default();
        let [one, same, other] = [0, 0, 1].map(|number| plans.read(&text(number)).unwrap());
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(other.id, "plan 1");
    }

    #[test]
    fn a_plan_that_is_run_again_is_not_spelled_again() {
        let plans = Plans::default();
        let plan = plans.read(&text(0)).unwrap();
        let [one, same] = [(); 2].map(|()| plans.spell(Arc::new(Plan::clone(&plan))).unwrap());
        assert_eq!(one, text(0));
        assert!(std::ptr::eq(one.as_str(), same.as_str()));
        // The same plan again, and a shared plan is not changed in place.
        assert!(std::ptr::eq(plans.spell(Arc::clone(&plan)).unwrap().as_str(), one.as_str()));
        let mut other = Plan::clone(&plan);
        other.version = 2;
        assert_eq!(plans.spell(Arc::new(other.clone())).unwrap(), json::to_canonical(&other).unwrap());
    }

    #[test]
    fn plans_that_no_run_has_any_more_are_forgotten() {
        let plans = Plans::default();
        (0..10 * SWEEP_AT_MIN).for_each(|number| drop(plans.read(&text(number)).unwrap()));
        let held = lock(&plans.0);
        assert!(held.plans.len() <= SWEEP_AT_MIN);
        assert_eq!(held.recent.len(), RECENT_PLANS_MAX);
    }

    #[test]
    fn no_more_nodes_are_kept_than_the_limit() {
        let node = serde_json::json!({"id": "n", "kind": "tool", "tool": "t", "timeout": 1});
        let mut plan: Plan = serde_json::from_str(text(0).as_str()).unwrap();
        plan.nodes = vec![serde_json::from_value(node).unwrap(); RECENT_NODES_MAX / 2];
        let plans = Plans::default();
        for number in 0..3 {
            plan.id = number.to_string();
            plans.spell(Arc::new(plan.clone())).unwrap();
        }
        assert_eq!(lock(&plans.0).recent_nodes, RECENT_NODES_MAX);
        let kept = lock(&plans.0).plans.values().filter(|plan| plan.strong_count() > 0).count();
        assert_eq!(kept, 2);
    }
}
