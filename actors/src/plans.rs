//! The plans of the runs that go on here. Runs of one plan share it: what differs between them is where they stand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use ostler_kernel::id::Digest;
use ostler_kernel::json::Json;
use ostler_kernel::lineage;
use ostler_kernel::plan::Plan;

use crate::services::lock;

/// Entries below which nobody looks for plans that no run has any more.
const SWEEP_AT_MIN: usize = 64;

/// Plans by the digest of their text, as long as somebody holds them.
#[derive(Default)]
pub(crate) struct Plans(Mutex<Held>);

#[derive(Default)]
struct Held {
    plans: BTreeMap<Digest, Weak<Plan>>,
    sweep_at: usize,
}

impl Plans {
    /// The plan that a text spells: the one that another run has, if there is one.
    pub(crate) fn read(&self, text: &Json) -> Result<Arc<Plan>, serde_json::Error> {
        let key = lineage::value(text);
        if let Some(plan) = lock(&self.0).plans.get(&key).and_then(Weak::upgrade) {
            return Ok(plan);
        }
        let read = Arc::new(serde_json::from_str(text.as_str())?);
        let mut held = lock(&self.0);
        if let Some(plan) = held.plans.get(&key).and_then(Weak::upgrade) {
            return Ok(plan); // read twice at once
        }
        if held.plans.len() >= held.sweep_at.max(SWEEP_AT_MIN) {
            held.plans.retain(|_, plan| plan.strong_count() > 0);
            held.sweep_at = held.plans.len() * 2;
        }
        held.plans.insert(key, Arc::downgrade(&read));
        Ok(read)
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
    fn plans_that_no_run_has_any_more_are_forgotten() {
        let plans = Plans::default();
        (0..10 * SWEEP_AT_MIN).for_each(|number| drop(plans.read(&text(number)).unwrap()));
        assert!(lock(&plans.0).plans.len() <= SWEEP_AT_MIN);
    }
}
