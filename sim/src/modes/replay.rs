//! Replay of a goal run: the records applied again give the same run, and every wish is asked for again at its place.

use std::collections::BTreeSet;

use ostler_kernel::event::{ChangeCause, Event, PlanVersion};
use ostler_kernel::id::NodeId;
use ostler_kernel::plan::{Node, Revision};
use ostler_kernel::policy::{View, effects, extend};
use ostler_kernel::run::Run;

use super::simulated_goal::SimulatedGoal;

/// The first difference between a run and a replay of its records. Before each version that the policy asked for, the replay is
/// a run that has just recovered: it has to ask for the same change.
pub(super) fn difference(simulated: &SimulatedGoal<'_>) -> Option<String> {
    let mut again = Run::with_goal(std::sync::Arc::clone(&simulated.first), 0, 0, simulated.goal.clone());
    for (number, (at, event)) in simulated.journal.iter().enumerate() {
        if let Event::PlanVersion(version) = event
            && !is_asked_for(&again, *at, version)
        {
            let version = version.version;
            return Some(format!("record {}: nothing asks for version {version}", number + 1));
        }
        if let Err(illegal) = again.apply(event, *at) {
            return Some(format!("record {}: {illegal}", number + 1));
        }
    }
    let labels = |run: &Run| View::of(run, simulated.now).map(|view| view.labels());
    let same = again.plan() == simulated.run.plan()
        && again.outcome() == simulated.run.outcome()
        && labels(&again) == labels(&simulated.run)
        && again.instances().eq(simulated.run.instances());
    (!same).then(|| "the records applied again do not give the state they came from".to_owned())
}

fn is_asked_for(run: &Run, at: i64, version: &PlanVersion) -> bool {
    if !matches!(version.cause, ChangeCause::Node(_) | ChangeCause::Mode(_)) {
        return true;
    }
    let Some(view) = View::of(run, at) else { return false };
    let Some(wish) = effects(view).or_else(|| extend(view)) else { return false };
    let revision: Revision =
        serde_json::from_str(version.revision.as_str()).expect("the run has applied the revision");
    let wished = wish.delta.unwrap_or_default();
    let is_new = |node: &&Node| run.node(&node.id).is_none();
    let made: BTreeSet<&NodeId> = revision.nodes.iter().filter(is_new).map(|node| &node.id).collect();
    wish.cause == version.cause
        && wished.add.iter().map(|node| &node.id).collect::<BTreeSet<_>>() == made
        && wished.cancel.iter().collect::<BTreeSet<_>>() == revision.cancel.iter().collect()
        && (revision.outputs.is_none() || revision.outputs == wished.outputs)
}
