//! What the answers given so far, and the mode itself, ask for.
//!
//! Both functions look at what is, never at what has just happened, and keep nothing between calls. After a crash they
//! therefore ask for the change that they would have asked for, and a change that is made is not asked for again.

use std::collections::BTreeSet;

use super::answer::{Answer, Decision, Observation, Observed, Reflected, Step};
use super::goal::Conclusion;
use super::role::ANSWER;
use super::view::Answered;
use super::{Mode, Role, View, graft, nreflect, react, sgh, tool_search};
use crate::event::ChangeCause;
use crate::id::NodeId;
use crate::plan::Delta;

/// A wish: a change of the plan, and the conclusion that follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Cause of the change.
    pub cause: ChangeCause,
    /// The change; `None` if the run only concludes.
    pub delta: Option<Delta>,
    /// The run concludes, whether or not the change is accepted.
    pub conclusion: Option<Conclusion>,
}

impl Wish {
    fn change(cause: ChangeCause, delta: Delta) -> Wish {
        Wish { cause, delta: Some(delta), conclusion: None }
    }
}

/// What the answers given so far ask for and have not got, the earliest answer first.
///
/// Ask after every commit, before any other node moves, until nothing is left: else steps would start that an answer cancels.
pub fn effects(view: View<'_>) -> Option<Wish> {
    if view.is_over() {
        return None;
    }
    let open = |answered: &Answered<'_>| !view.goal.refused.contains(answered.node);
    view.answers().iter().filter(|answered| open(answered)).find_map(|answered| effect(view, answered))
}

fn effect(view: View<'_>, answered: &Answered<'_>) -> Option<Wish> {
    let Answered { node, answer } = answered;
    match answer {
        Answer::Planned(_) | Answer::Thought(_) if answer.search().is_some() => {
            tool_search::successor(view, node)
                .map(|delta| Wish::change(ChangeCause::Node((*node).clone()), delta))
        }
        Answer::Planned(plan) => graft_of(view, node, &plan.steps),
        Answer::Thought(turn) => graft_of(view, node, &turn.steps(node)),
        Answer::Reflected(answer) if answer.decision == Decision::Conclude => Some(Wish {
            cause: ChangeCause::Node((*node).clone()),
            delta: Some(answer_node(view)),
            conclusion: Some(Conclusion::Node((*node).clone())),
        }),
        Answer::Reflected(Reflected { decision, cancel, .. }) => {
            replan(view, node, *decision == Decision::Replan, cancel)
        }
        Answer::Observed(Observed { decision, cancel, .. }) => {
            replan(view, node, *decision == Observation::Inject, cancel)
                .or_else(|| review(view, node).filter(|_| *decision == Observation::Reflect))
        }
    }
}

fn graft_of(view: View<'_>, author: &NodeId, steps: &[Step]) -> Option<Wish> {
    let is_due = !steps.is_empty() && !view.goal.accepted.contains(author);
    let runs = is_due && (view.goal.terms.mode != Mode::React || react::is_readable(view, steps.len()));
    runs.then(|| Wish::change(ChangeCause::Node(author.clone()), graft::graft(view, author, steps)))
}

/// A planner that has not been added yet, and the cancels of nodes that are still live, as one change.
fn replan(view: View<'_>, author: &NodeId, is_wanted: bool, cancel: &[NodeId]) -> Option<Wish> {
    let mut delta = Delta::default();
    if is_wanted && !view.has_planner(author) && view.fits(Role::Planner) {
        delta.add = vec![view.control(Role::Planner, view.next_id(Role::Planner), [author])];
    }
    let live: BTreeSet<&NodeId> = cancel.iter().filter(|node| view.is_live(node)).collect();
    delta.cancel = live.into_iter().cloned().collect();
    let is_empty = delta.add.is_empty() && delta.cancel.is_empty();
    (!is_empty).then(|| Wish::change(ChangeCause::Node(author.clone()), delta))
}

/// The reflection that an observer asks for, if its own node is not covered yet.
fn review(view: View<'_>, observer: &NodeId) -> Option<Wish> {
    let uncovered = view.uncovered();
    let observed = view.run.node(observer)?;
    let is_due = view.cover(observed).any(|node| uncovered.contains(&node)) && view.fits(Role::Reflect);
    is_due.then(|| {
        let reflection = view.control(Role::Reflect, view.next_id(Role::Reflect), uncovered);
        let delta = Delta { add: vec![reflection], ..Delta::default() };
        Wish::change(ChangeCause::Node(observer.clone()), delta)
    })
}

/// What the mode itself wants: a review that is due, a new plan, the answer, or the end because the time is up.
///
/// Ask when no node can move without an attempt. After an accepted change, [`effects`] comes first again.
pub fn extend(view: View<'_>) -> Option<Wish> {
    if view.is_over() {
        return None;
    }
    let mode = view.goal.terms.mode;
    let is_open = |role: Role| !view.goal.refused_families.contains(&role);
    if view.is_late() && view.has_live_nodes() {
        // SGH promises the outputs of the plan: it has no half answers.
        let delta = (mode != Mode::Sgh && is_open(Role::Answer)).then(|| answer_node(view));
        let cause = ChangeCause::Mode(Role::Answer);
        return Some(Wish { cause, delta, conclusion: Some(Conclusion::Wall) });
    }
    let wish = |role: Role, delta: Option<Delta>| {
        delta.filter(|_| is_open(role)).map(|delta| Wish::change(ChangeCause::Mode(role), delta))
    };
    let every = match mode {
        Mode::NReflect(results) => wish(Role::Reflect, nreflect::review(view, results)),
        Mode::Sgh => wish(Role::Planner, sgh::replan(view)),
        Mode::Reflect | Mode::Orchestrator | Mode::React | Mode::Auto => None,
    };
    every.or_else(|| {
        if view.has_live_nodes() || !view.is_opening_executed() {
            return None;
        }
        let last = wish(Role::Reflect, last_review(view));
        last.or_else(|| {
            let is_whole = mode != Mode::Sgh || view.run.outputs_settled();
            wish(Role::Answer, is_whole.then(|| answer_node(view)))
        })
    })
}

/// The final reflection, while evidence is uncovered (KAIJU §4.4).
fn last_review(view: View<'_>) -> Option<Delta> {
    let uncovered = view.uncovered();
    let is_due = view.goal.terms.mode.reviews() && !uncovered.is_empty() && view.fits(Role::Reflect);
    is_due.then(|| {
        let id = view.next_id(Role::Reflect);
        Delta { add: vec![view.control(Role::Reflect, id, uncovered)], ..Delta::default() }
    })
}

/// The node that holds the answer, behind all work, as the only output.
fn answer_node(view: View<'_>) -> Delta {
    let answer = NodeId::from(ANSWER);
    let work = view.work().map(|(node, _)| &node.id);
    let node = view.control(Role::Answer, answer.clone(), work);
    Delta { add: vec![node], outputs: Some(vec![answer]), ..Delta::default() }
}
