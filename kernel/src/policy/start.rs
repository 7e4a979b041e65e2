//! The start of an attempt of a control node: a call of a model, or a result that needs none.

use super::final_answer::{FinalAnswer, ReadResult};
use super::interjection::{answer_of_person, is_answered_by_person};
use super::{CallIntent, Role, View};
use crate::id::NodeId;
use crate::json::Json;
use crate::plan::Node;

/// What an attempt of a control node does.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// Call the model. Record the intent with [`Run::begin_call`](crate::run::Run::begin_call) first.
    Call(Box<CallIntent>),
    /// The result needs no call: end the attempt with it at once.
    Result(Json),
    /// The budgets do not allow the call: end the attempt at once as `resource_exhaustion`, with this message.
    Exhausted(String),
}

/// Decides what the attempt does that a control node has just started; `None` for work.
///
/// Evidence is what it is now. Call in the order in which nodes were dispatched, and record each call before the next.
pub fn start(view: View<'_>, node: &NodeId, read: &ReadResult<'_>) -> Option<Start> {
    let (role, known) = (view.role(node)?, view.run.node(node)?);
    Some(match role {
        Role::Reflect | Role::Observe if view.covered_evidence(known).next().is_none() => {
            Start::Result(Json::null())
        }
        Role::Interject if is_answered_by_person(known) => Start::Result(answer_of_person(known)),
        Role::Answer if !view.model_answers() => {
            let stands_in = view.asked_for_answer();
            Start::Result(FinalAnswer { stands_in, ..view.template(read) }.to_json())
        }
        Role::Answer => call(view, known, role).map_or_else(
            |_| Start::Result(FinalAnswer { stands_in: true, ..view.template(read) }.to_json()),
            Start::Call,
        ),
        Role::Planner | Role::Reflect | Role::Observe | Role::Micro | Role::Think | Role::Interject => {
            call(view, known, role).map_or_else(Start::Exhausted, Start::Call)
        }
    })
}

/// False if an attempt of the control node would call no model, whatever its prompt, so it needs no turn of the model. True for work.
pub fn may_call(view: View<'_>, node: &Node) -> bool {
    match view.role(&node.id) {
        None => true,
        Some(Role::Answer) if !view.model_answers() => false,
        Some(Role::Interject) if is_answered_by_person(node) => false,
        Some(_) => view.affords_call(0),
    }
}

/// The call of an attempt.
///
/// # Errors
///
/// The budgets do not allow the call; the message names the required and the remaining amounts.
fn call<'a>(view: View<'a>, node: &'a Node, role: Role) -> Result<Box<CallIntent>, String> {
    let context = view.context(node, role);
    let asks_tainted =
        role == Role::Planner && view.asker(node).is_some_and(|asker| view.is_author_tainted(asker));
    let is_tainted = asks_tainted
        || view.is_told_tainted()
        || context.shown.iter().any(|shown| view.is_tainted(&shown.node));
    let input_tokens = view.tokens(role, &context);
    if let Some(shortage) = view.shortage(input_tokens) {
        return Err(shortage);
    }
    let attempt = view.run.instance(&node.id).map_or(0, |instance| instance.attempts);
    let (node, signature) = (node.id.clone(), None);
    Ok(Box::new(CallIntent { role, node, attempt, context, input_tokens, is_tainted, signature }))
}
