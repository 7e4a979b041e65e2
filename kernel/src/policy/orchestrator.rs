//! Mode orchestrator: an observer beside each step (KAIJU §5). Consumers of a step do not wait for its observer.

use std::collections::BTreeMap;

use super::answer::Step;
use super::room::Room;
use super::{Role, View};
use crate::id::NodeId;
use crate::plan::Delta;

/// Adds an observer of each step, as far as observers fit.
pub(super) fn observe(view: View<'_>, steps: &[&Step], room: &mut Room<'_>, delta: &mut Delta) {
    let mut taken: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for step in steps {
        if room.take(Role::Observe) {
            let id = view.observer_id(&step.id, &taken);
            delta.add.push(view.control(Role::Observe, id.clone(), [&step.id]));
            taken.insert(id, step.id.clone());
        }
    }
}

/// True if every step of a planner has an observer.
pub(super) fn is_observed(view: View<'_>) -> bool {
    let is_planned =
        |node: &NodeId| view.written_by(node).is_some_and(|author| view.role(author) == Some(Role::Planner));
    let is_observed =
        |step: &NodeId| view.of_role(Role::Observe).any(|(node, _)| view.cover(node).any(|of| of == step));
    view.work().all(|(node, _)| !is_planned(&node.id) || is_observed(&node.id))
}
