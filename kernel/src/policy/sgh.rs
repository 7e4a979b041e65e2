//! Mode sgh: steps alone. After failures, once nothing can move, a planner rewrites the rest of the plan (SGH §6.2).

use std::collections::BTreeSet;

use super::answer::Step;
use super::graft::own_sources;
use super::{Mode, Role, View};
use crate::id::NodeId;
use crate::plan::Delta;
use crate::run::{NodeState, Run};

/// Makes the exits of the steps the outputs, beside outputs that are executed already. A later planner's steps replace all work
/// that has not started.
pub(super) fn rewrite(view: View<'_>, author: &NodeId, steps: &[&Step], delta: &mut Delta) {
    let named: BTreeSet<&NodeId> = steps.iter().flat_map(|step| own_sources(step, steps)).collect();
    let exits = steps.iter().map(|step| &step.id).filter(|id| !named.contains(id));
    let is_kept = |id: &&NodeId| view.is_work(id) && view.state(id) == Some(NodeState::Executed);
    let outputs: BTreeSet<&NodeId> = exits.chain(view.run.plan().outputs.iter().filter(is_kept)).collect();
    delta.outputs = Some(outputs.into_iter().cloned().collect());
    if *author != view.goal.opening() {
        let waits = |state| matches!(state, NodeState::Pending | NodeState::Blocked | NodeState::Ready);
        let open = view.work().filter(|(_, instance)| waits(instance.state()));
        delta.cancel = open.map(|(node, _)| node.id.clone()).collect();
    }
}

/// A planner for failures that none was asked about, once nothing can move and an output is missing.
pub(super) fn replan(view: View<'_>) -> Option<Delta> {
    let moves = |state| {
        matches!(
            state,
            NodeState::Ready | NodeState::Running | NodeState::WaitingHuman | NodeState::FailedRetryable
        )
    };
    let is_new = |id: &NodeId| !view.goal.asked_about.contains(id);
    let failed = view
        .work()
        .filter(|(node, instance)| instance.state() == NodeState::Failed && !view.is_earlier(&node.id));
    let is_due = !view.nodes().any(|(_, instance)| moves(instance.state()))
        && is_recovery_open(view)
        && !view.run.outputs_settled()
        && failed.into_iter().any(|(node, _)| is_new(&node.id))
        && view.fits(Role::Planner);
    is_due.then(|| {
        let id = view.next_id(Role::Planner);
        Delta { add: vec![view.control(Role::Planner, id, [])], ..Delta::default() }
    })
}

/// True while a planner could still bring the missing outputs. The failure of any planner ends recovery for good.
pub(super) fn is_recovery_open(view: View<'_>) -> bool {
    let opening = view.goal.opening();
    let mut planners = view.of_role(Role::Planner);
    let has_failed = planners.any(|(node, instance)| {
        instance.state() == NodeState::Failed || view.goal.refused.contains(&node.id)
    });
    let is_planning =
        || view.of_role(Role::Planner).any(|(node, instance)| node.id != opening && instance.is_live());
    view.goal.terms.mode == Mode::Sgh
        && !view.run.is_recovery_closed()
        && !view.run.is_cancelled()
        && !view.run.is_concluded()
        && !has_failed
        && (is_planning() || view.fits(Role::Planner))
}

impl Run {
    /// True if a planner of a goal run could still repair lost dependencies at `now`.
    pub(crate) fn goal_recovery_open(&self, now: crate::id::Ticks) -> bool {
        View::of(self, now).is_some_and(is_recovery_open)
    }
}
