//! What was asked for, or due, and is not done. An answer over a run with something undone is incomplete.

use std::collections::BTreeSet;

use super::answer::{Answer, Decision, Observation};
use super::view::{Answered, is_stopped_by_person};
use super::{Mode, Role, View, orchestrator};
use crate::run::NodeState;

/// True if anything is undone. What operators and patches asked for does not count.
pub(super) fn is_undone(view: View<'_>) -> bool {
    view.answers().iter().any(|answered| is_unmet(view, answered))
        || view.goal.terms.mode == Mode::Orchestrator && !orchestrator::is_observed(view)
        || lacks_final_review(view)
        || !view.goal.refused.is_empty()
        || !view.goal.refused_families.is_empty()
        || was_stopped(view)
}

fn is_unmet(view: View<'_>, answered: &Answered<'_>) -> bool {
    let Answered { node, answer } = answered;
    let lacks_graft = || !view.goal.accepted.contains(*node);
    match answer {
        Answer::Planned(_) | Answer::Thought(_) if answer.search().is_some() => view.is_search_open(node),
        Answer::Planned(plan) => !plan.steps.is_empty() && lacks_graft(),
        Answer::Thought(turn) => !turn.calls.is_empty() && lacks_graft(),
        Answer::Reflected(answer) => answer.decision == Decision::Replan && !view.has_planner(node),
        Answer::Observed(answer) => match answer.decision {
            Observation::Inject => !view.has_planner(node),
            Observation::Reflect => {
                let uncovered: BTreeSet<_> = view.uncovered().into_iter().collect();
                view.run.node(node).is_some_and(|known| view.cover(known).any(|of| uncovered.contains(of)))
            }
            Observation::Continue | Observation::Cancel => false,
        },
    }
}

fn lacks_final_review(view: View<'_>) -> bool {
    view.goal.terms.mode.reviews() && !view.uncovered().is_empty() && !has_conclusion(view)
}

/// True if a reflection or an interjection concluded the run. The end of the time does not count as one.
pub(super) fn has_conclusion(view: View<'_>) -> bool {
    view.answers().iter().any(
        |answered| matches!(&answered.answer, Answer::Reflected(answer) if answer.decision == Decision::Conclude),
    )
}

/// True if a person stopped a planner, a turn, a reflection or an observer.
fn was_stopped(view: View<'_>) -> bool {
    let roles = [Role::Planner, Role::Think, Role::Reflect, Role::Observe];
    roles.into_iter().flat_map(|role| view.of_role(role)).any(|(_, instance)| {
        matches!(instance.state(), NodeState::Skipped | NodeState::Cancelled)
            && is_stopped_by_person(instance)
    })
}
