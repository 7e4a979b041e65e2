//! Judging answers on arrival.

use serde_json::Value;

use super::answer::{Decision, Observation, Observed, Planned, Reflected, Thought, Written};
use super::fault::{FaultCode, Faults};
use super::final_answer::{FinalAnswer, Source};
use super::schema::{WHOLE, violations};
use super::tool_search::SEARCH_TOOL;
use super::{Fault, Role, View, step_faults};
use crate::id::NodeId;
use crate::json::{self, Json};
use crate::plan::Node;
use crate::run::NodeState;

/// Verdict on the answer of a control node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The result of the node.
    Good(Json),
    /// The result of the node. The citations were faulty on the last try, so they are dropped.
    Forgiven(Json, Vec<Fault>),
    /// The attempt fails as `invalid_output`.
    Faulty(Vec<Fault>),
}

/// Judges the answer of a control node whose attempt is running. `is_cut`: the model stopped at its limit of output.
///
/// Call before the attempt's result is decided, and only for the current attempt: the run does not wait for any other.
pub fn judge(view: View<'_>, node: &NodeId, answer: &Value, is_cut: bool) -> Judged {
    let (Some(role), Some(known)) = (view.role(node), view.run.node(node)) else {
        return Judged::Faulty(Faults::one(FaultCode::F02, WHOLE));
    };
    if let Err(faults) = check_form(role, answer, is_cut) {
        return Judged::Faulty(faults);
    }
    let mut faults = Faults::default();
    match role {
        Role::Planner => check_plan(view, node, &typed(answer), &mut faults),
        Role::Think => check_turn(view, node, &typed(answer), &mut faults),
        Role::Reflect | Role::Interject => check_reflection(view, &typed(answer), &mut faults),
        Role::Observe => check_observation(view, &typed(answer), &mut faults),
        Role::Answer => return judge_text(view, known, typed(answer)),
        Role::Micro => {}
    }
    match json::canonical(answer) {
        Ok(result) if faults.is_empty() => Judged::Good(result),
        Ok(_) => Judged::Faulty(faults.into_vec()),
        Err(_) => Judged::Faulty(Faults::one(FaultCode::F02, WHOLE)),
    }
}

/// F01 and F02.
pub(super) fn check_form(role: Role, answer: &Value, is_cut: bool) -> Result<(), Vec<Fault>> {
    if is_cut {
        return Err(Faults::one(FaultCode::F01, WHOLE));
    }
    let mut faults = Faults::default();
    violations(role, answer).into_iter().for_each(|path| faults.add(FaultCode::F02, path));
    if faults.is_empty() { Ok(()) } else { Err(faults.into_vec()) }
}

pub(super) fn typed<T: serde::de::DeserializeOwned>(answer: &Value) -> T {
    serde_json::from_value(answer.clone()).expect("the schema has been checked")
}

fn check_plan(view: View<'_>, node: &NodeId, plan: &Planned, faults: &mut Faults) {
    let Planned { answer, missing, search, steps } = plan;
    if let Some(words) = search {
        let is_alone = answer.is_none() && missing.is_none() && steps.is_empty();
        if !may_search(view, node) {
            // A field that the request did not ask for.
            faults.add(FaultCode::F02, "search");
        } else if !is_alone || words.trim().is_empty() {
            faults.add(FaultCode::F03, "search");
        }
    } else {
        match (answer, missing, steps.is_empty()) {
            (Some(_), missing, is_empty) if missing.is_some() || !is_empty => {
                faults.add(FaultCode::F03, "answer");
            }
            (None, None, true) => faults.add(FaultCode::F03, "steps"),
            _ => {}
        }
    }
    step_faults::check(view, node, &plan.steps, faults);
}

fn may_search(view: View<'_>, node: &NodeId) -> bool {
    view.run.node(node).is_some_and(|node| view.may_search(node))
}

fn check_turn(view: View<'_>, node: &NodeId, turn: &Thought, faults: &mut Faults) {
    if turn.calls.is_empty() && turn.direct_text().is_none() {
        faults.add(FaultCode::F03, "text");
    }
    let is_blank = turn.search().is_some_and(|words| words.is_empty());
    for search in turn.calls_as_steps(node).iter().filter(|call| call.tool == SEARCH_TOOL) {
        if !may_search(view, node) {
            faults.add_with(FaultCode::F05, search.id.as_str(), format!("{SEARCH_TOOL:?}"));
        } else if is_blank {
            faults.add(FaultCode::F06, format!("{}.words", search.id));
        }
    }
    step_faults::check(view, node, &turn.steps(node), faults);
}

pub(super) fn check_reflection(view: View<'_>, answer: &Reflected, faults: &mut Faults) {
    let Reflected { decision, verdict, next, cancel } = answer;
    if next.is_some() != (*decision == Decision::Replan) {
        faults.add(FaultCode::F03, "next");
    }
    if *decision == Decision::Conclude {
        if verdict.is_none() {
            faults.add(FaultCode::F03, "verdict");
        }
        if !cancel.is_empty() {
            faults.add(FaultCode::F03, "cancel");
        }
    }
    check_cancel(view, cancel, faults);
}

fn check_observation(view: View<'_>, answer: &Observed, faults: &mut Faults) {
    let Observed { decision, next, cancel } = answer;
    if next.is_some() != (*decision == Observation::Inject) {
        faults.add(FaultCode::F03, "next");
    }
    if cancel.is_empty() == (*decision == Observation::Cancel) {
        faults.add(FaultCode::F03, "cancel");
    }
    check_cancel(view, cancel, faults);
}

/// An answer may cancel work that has not started and is no output.
fn check_cancel(view: View<'_>, cancel: &[NodeId], faults: &mut Faults) {
    for node in cancel {
        let waits = matches!(view.state(node), Some(NodeState::Pending | NodeState::Blocked));
        if !waits || !view.is_work(node) || view.run.plan().outputs.contains(node) {
            faults.add(FaultCode::F07, format!("cancel:{node}"));
        }
    }
}

fn judge_text(view: View<'_>, node: &Node, written: Written) -> Judged {
    let Written { answer, citations } = written;
    let mut faults = Faults::default();
    for cited in &citations {
        if view.state(cited) != Some(NodeState::Executed) || !view.is_work(cited) {
            faults.add(FaultCode::F07, format!("citations:{cited}"));
        }
    }
    let result =
        |citations| FinalAnswer { source: Source::Model, answer, citations, stands_in: false }.to_json();
    let retries = view.run.instance(&node.id).map_or(0, |instance| i64::from(instance.retries));
    if faults.is_empty() {
        Judged::Good(result(citations))
    } else if retries >= node.retries {
        Judged::Forgiven(result(Vec::new()), faults.into_vec())
    } else {
        Judged::Faulty(faults.into_vec())
    }
}

/// The message of a failure for faulty answers.
pub fn describe(faults: &[Fault]) -> String {
    let told = |fault: &Fault| {
        let Fault { code, named, detail } = fault;
        let more = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        if named == WHOLE {
            format!("{code}: {}{more}", code.says())
        } else {
            format!("{code} {named}: {}{more}", code.says())
        }
    };
    faults.iter().map(told).collect::<Vec<_>>().join("; ")
}
