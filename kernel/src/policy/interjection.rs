//! Interjections: the message of an operator to a running goal, and who decides about it (KAIJU §4).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Decision, Reflected};
use super::fault::Faults;
use super::judge::{check_reflection, describe};
use super::{Fault, Role, View};
use crate::id::NodeId;
use crate::json::{self, Json};
use crate::plan::{Approval, Delta, HumanDuration, Kind, Node};

/// Parameters of an interjection node: the message, who answers in place of the model, and the answer of an operator.
const MESSAGE: &str = "message";
const BY: &str = "by";
const PERSON: &str = "person";
const ANSWER: &str = "answer";
/// Reason why a model did not consider the message.
const UNCONSIDERED: &str = "unconsidered";

/// Who decides about an interjection into a goal run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Decider {
    /// A model considers the message; a person is asked if the model fails.
    #[default]
    Model,
    /// A person is asked: a yes goes on, a no and silence cancel the run.
    Person,
    /// The operator decides with the message itself, in the schema that a model answers in.
    Operator(OperatorAnswer),
}

/// An operator's decision about a goal run in place of a model. With `conclude` the message is the verdict, with `replan` what is
/// missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorAnswer {
    /// The decision.
    pub decision: Decision,
    /// Steps that have not started, to give up.
    #[serde(default)]
    pub cancel: Vec<NodeId>,
}

/// An answer that an operator may not give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterjectionError {
    /// The run has no goal, so its interjections ask a person for yes or no.
    #[error(
        "the run has no goal to decide about: interject without an answer, and approve or reject the question it asks"
    )]
    NoGoal,
    /// The answer has faults.
    #[error("the answer cannot be used: {}; give up only steps that have not started and are no output", describe(.0))]
    Faulty(Vec<Fault>),
    /// The operator gave up steps in an answer that also ends or changes the work.
    #[error("--cancel does not go with conclude, which gives up all that has not started: omit one of them")]
    CancelWithConclude,
}

/// The change that adds an interjection with an operator's message, and the interjection's node. A person has `wait_ms`
/// milliseconds to answer; at 0, a failed model asks no person and the run is cancelled.
/// Submit the change as
/// [`Operation::Interject`](crate::run::Operation::Interject).
///
/// # Errors
///
/// [`InterjectionError::Faulty`] if the operator's answer names a step that cannot be given up;
/// [`InterjectionError::CancelWithConclude`] if it gives up steps of a run that it concludes.
pub fn interjection(
    view: View<'_>,
    message: &str,
    wait_ms: i64,
    decider: &Decider,
) -> Result<(NodeId, Delta), InterjectionError> {
    let id = view.next_id(Role::Interject);
    let mut params = Map::from_iter([(MESSAGE.to_owned(), Value::from(message))]);
    let mut node = view.control(Role::Interject, id.clone(), []);
    if *decider != Decider::Model {
        params.insert(BY.to_owned(), PERSON.into());
        node.model = None;
    }
    match decider {
        Decider::Model => node.human_timeout = (wait_ms > 0).then_some(HumanDuration::Millis(wait_ms)),
        Decider::Person => {
            node.approval = Some(Approval::Before);
            node.human_timeout = Some(HumanDuration::Millis(wait_ms));
        }
        Decider::Operator(answer) => {
            params.insert(ANSWER.to_owned(), checked(view, message, answer)?);
        }
    }
    node.params = Some(params);
    Ok((id, Delta { add: vec![node], ..Delta::default() }))
}

/// The operator's answer in the schema of the role, without faults.
fn checked(view: View<'_>, message: &str, answer: &OperatorAnswer) -> Result<Value, InterjectionError> {
    let OperatorAnswer { decision, cancel } = answer;
    if *decision == Decision::Conclude && !cancel.is_empty() {
        return Err(InterjectionError::CancelWithConclude);
    }
    let says = |wanted: Decision| (*decision == wanted).then(|| message.to_owned());
    let (verdict, next) = (says(Decision::Conclude), says(Decision::Replan));
    let whole = json!({"decision": decision, "verdict": verdict, "next": next, "cancel": cancel});
    let answer = Reflected { decision: *decision, verdict, next, cancel: cancel.clone() };
    let mut faults = Faults::default();
    check_reflection(view, &answer, &mut faults);
    if faults.is_empty() { Ok(whole) } else { Err(InterjectionError::Faulty(faults.into_vec())) }
}

/// True for an interjection that becomes a question to a person if the model fails.
pub(crate) fn falls_back_to_person(node: &Node) -> bool {
    node.kind == Kind::Interjection && node.human_timeout.is_some() && !is_answered_by_person(node)
}

/// The change that asks a person about the message of an interjection after the model failed.
pub(crate) fn ask_person(view: View<'_>, failed: &Node, why: &str) -> Delta {
    let mut node = view.control(Role::Interject, view.next_id(Role::Interject), []);
    node.model = None;
    node.approval = Some(Approval::Before);
    node.human_timeout = failed.human_timeout.map(HumanDuration::Millis);
    let mut params = Map::from_iter([
        (BY.to_owned(), PERSON.into()),
        (UNCONSIDERED.to_owned(), format!("no model could consider the message: {why}").into()),
    ]);
    params.extend(failed.params.get(MESSAGE).map(|message| (MESSAGE.to_owned(), message.clone())));
    node.params = Some(params);
    Delta { add: vec![node], ..Delta::default() }
}

/// True for an interjection that a person answers.
pub(super) fn is_answered_by_person(node: &Node) -> bool {
    node.params.get(BY).and_then(|by| by.as_str()) == Some(PERSON)
}

/// The answer of an operator; of a person who was asked and said yes: to go on.
pub(super) fn answer_of_person(node: &Node) -> Json {
    let go_on = || json!({"decision": Decision::Continue, "verdict": null, "next": null, "cancel": []});
    let answer = node.params.get(ANSWER).cloned().unwrap_or_else(go_on);
    json::canonical(&answer).expect("parameters of a plan are canonical")
}
