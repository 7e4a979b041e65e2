//! The rules of plans. Every fault is found, not the first; a plan with any is rejected whole.

mod bounds;
mod contracts;

use super::fault::{Fault, in_order};
use super::table::Table;
use super::{Plan, Settings, Unchecked};

/// Gives the plan, its nodes in ascending order of their ids, or every fault, sorted by code and name.
pub fn validate(unchecked: Unchecked, settings: &Settings<'_>) -> Result<Plan, Vec<Fault>> {
    let Unchecked { plan, mut faults } = unchecked;
    judge(&plan, settings, &mut faults);
    if faults.is_empty() { Ok(plan) } else { Err(in_order(faults)) }
}

/// The faults of a running plan that was changed: V05 does not apply.
pub(super) fn changed(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Fault>) {
    judge(plan, settings, faults);
}

fn judge(plan: &Plan, settings: &Settings<'_>, faults: &mut Vec<Fault>) {
    let table = Table::new(&plan.nodes);
    contracts::judge(plan, faults);
    bounds::judge(plan, faults);
    let _ = (table, settings);
}
