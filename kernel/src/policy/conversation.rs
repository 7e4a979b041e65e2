//! Turns of a model as a conversation.
//!
//! A turn is told what it needs in one message. Some providers give opaque data with their calls (Gemini's thought signatures,
//! Anthropic's signed thinking) and think on only if they get the data back, in the message that they came with. Where a turn
//! has such data, the turns are told as messages of the model, with the results of their calls behind each.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Answer, Step, Thought};
use super::prompt::{body, goal, request, results};
use super::{CallIntent, ReadResult, Role, Shown, View};
use crate::id::NodeId;
use crate::run::NodeState;

/// Field of a turn's result that holds its marks. No answer of a model has the field.
const FIELD: &str = "provider";

/// The result of a call that was not made.
const NOT_RUN: &str = "not run";

/// What the provider of a turn wants back with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnMarks {
    /// Opaque data of the provider.
    data: Value,
    /// The provider's id of each call, in order.
    ids: Vec<Option<String>>,
}

impl TurnMarks {
    /// The result of a turn with its marks.
    pub fn attach(self, mut result: Value) -> Value {
        if let (Some(fields), Ok(marks)) = (result.as_object_mut(), serde_json::to_value(self)) {
            fields.insert(FIELD.to_owned(), marks);
        }
        result
    }
}

/// Takes the marks out of a turn's answer, which then has the form that every turn has. `None` without data of the provider or
/// without calls: then nothing depends on them.
pub fn detach_marks(answer: &mut Value) -> Option<TurnMarks> {
    let data = answer.as_object_mut()?.remove("provider_data");
    let calls = answer.get_mut("calls").and_then(Value::as_array_mut)?;
    let id = |call: &mut Value| match call.as_object_mut()?.remove("id")? {
        Value::String(id) => Some(id),
        _ => None,
    };
    let ids: Vec<Option<String>> = calls.iter_mut().map(id).collect();
    data.filter(|_| !ids.is_empty()).map(|data| TurnMarks { data, ids })
}

/// The result of a turn as the model gave it: with the ids of its calls and the data of its provider.
pub fn restore_marks(result: &mut Value) {
    let Some(fields) = result.as_object_mut() else { return };
    let Some(marks) = fields.remove(FIELD).and_then(|marks| serde_json::from_value::<TurnMarks>(marks).ok())
    else {
        return;
    };
    let calls = fields.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten();
    for (call, id) in calls.filter_map(Value::as_object_mut).zip(marks.ids) {
        call.extend(id.map(|id| ("id".to_owned(), id.into())));
    }
    fields.insert("provider_data".to_owned(), marks.data);
}

/// An earlier turn with calls.
pub(super) struct Turn {
    thought: Thought,
    steps: Vec<Step>,
    marks: Option<TurnMarks>,
}

/// The turns before a call, oldest first; empty for another role, and where no turn has marks.
pub(super) fn turns(view: View<'_>, intent: &CallIntent) -> Vec<Turn> {
    if intent.role != Role::Think {
        return Vec::new();
    }
    let mut ended: Vec<(u64, &NodeId)> = view
        .of_role(Role::Think)
        .filter(|(_, instance)| instance.state() == NodeState::Executed)
        .map(|(node, instance)| (instance.commit_number, &node.id))
        .collect();
    ended.sort();
    let turns: Vec<Turn> = ended.into_iter().filter_map(|(_, node)| turn(view, node)).collect();
    if turns.iter().any(|turn| turn.marks.is_some()) { turns } else { Vec::new() }
}

fn turn(view: View<'_>, node: &NodeId) -> Option<Turn> {
    let Some(Answer::Thought(thought)) = view.answer(node) else { return None };
    let result = view.run.instance(node)?.result()?.inline.as_ref()?.value();
    let marks = result.get(FIELD).and_then(|marks| serde_json::from_value(marks.clone()).ok());
    let steps = thought.steps(node);
    (!steps.is_empty()).then_some(Turn { thought, steps, marks })
}

/// The conversation: the goal, each turn with the results of its calls, what else was found, and the tools that searches `found`.
pub(super) fn messages(
    view: View<'_>,
    intent: &CallIntent,
    turns: &[Turn],
    found: &str,
    read: &ReadResult<'_>,
) -> Vec<Value> {
    let shown = &intent.context.shown;
    let asked = format!("{}\n{}", goal(view.goal.terms()), request(Role::Think));
    let mut messages = vec![json!({"role": "user", "content": asked})];
    for turn in turns {
        messages.push(turn.message());
        for (at, step) in turn.steps.iter().enumerate() {
            let found = shown.iter().find(|shown| shown.node == step.id);
            let content = found.map_or_else(|| NOT_RUN.to_owned(), |shown| body(view, shown, read));
            let mut message = json!({"role": "tool", "tool": step.tool, "content": content});
            if let Some(id) = turn.id(at) {
                message["call"] = id.into();
            }
            messages.push(message);
        }
    }
    let is_of_turn = |shown: &&Shown| turns.iter().any(|turn| turn.has(&shown.node));
    let others = results(view, shown.iter().filter(|shown| !is_of_turn(shown)), read) + found;
    if !others.is_empty() {
        messages.push(
            json!({"role": "user", "content": format!("{}\n{}", others.trim_start(), request(Role::Think))}),
        );
    }
    messages
}

impl Turn {
    fn has(&self, node: &NodeId) -> bool {
        self.steps.iter().any(|step| step.id == *node)
    }

    fn id(&self, at: usize) -> Option<&str> {
        self.marks.as_ref()?.ids.get(at)?.as_deref()
    }

    fn message(&self) -> Value {
        let calls = self.steps.iter().enumerate().map(|(at, step)| {
            let mut call = json!({"tool": step.tool, "params": step.params});
            if let Some(id) = self.id(at) {
                call["id"] = id.into();
            }
            call
        });
        let mut message = Map::from_iter([
            ("role".to_owned(), Value::from("assistant")),
            ("content".to_owned(), self.thought.text.clone().unwrap_or_default().into()),
            ("calls".to_owned(), calls.collect()),
        ]);
        if let Some(marks) = &self.marks {
            message.insert("provider_data".to_owned(), marks.data.clone());
        }
        Value::Object(message)
    }
}
