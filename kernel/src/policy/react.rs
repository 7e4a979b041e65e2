//! Mode react: a model calls tools, and the next turn reads every result (ReAct, as KAIJU §3 describes it).

use super::answer::Step;
use super::room::Room;
use super::{Role, View};
use crate::plan::Delta;

/// Adds the turn that reads the results of the steps. [`is_readable`] has made sure of its room.
pub(super) fn next_turn(view: View<'_>, steps: &[&Step], room: &mut Room<'_>, delta: &mut Delta) {
    if room.take(Role::Think) {
        let id = view.next_id(Role::Think);
        delta.add.push(view.control(Role::Think, id, steps.iter().map(|step| &step.id)));
    }
}

/// True if a turn could read the results of so many steps. Steps without a reader are not run.
pub(super) fn is_readable(view: View<'_>, steps: usize) -> bool {
    Room::new(view, steps).fits(Role::Think)
}
