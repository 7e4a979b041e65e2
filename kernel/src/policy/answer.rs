//! Answers of models, as typed values. [`judge`](super::judge()) has checked their form.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::tool_search::{SEARCH_TOOL, search_words};
use super::{Role, conditions};
use crate::id::NodeId;
use crate::json::Json;
use crate::plan::{ForEach, Guard};

/// A checked answer of a control node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Planned(Planned),
    Reflected(Reflected),
    Observed(Observed),
    Thought(Thought),
}

impl Answer {
    /// Reads the result of a control node; `None` for the result null of a node that made no call.
    pub(super) fn read(role: Role, result: &Json) -> Option<Answer> {
        let text = result.as_str();
        match role {
            Role::Planner => serde_json::from_str(text).ok().map(Answer::Planned),
            Role::Reflect | Role::Interject => serde_json::from_str(text).ok().map(Answer::Reflected),
            Role::Observe => serde_json::from_str(text).ok().map(Answer::Observed),
            Role::Think => serde_json::from_str(text).ok().map(Answer::Thought),
            Role::Micro | Role::Answer => None,
        }
    }

    /// The words of a search for tools; `None` for any other answer.
    pub(super) fn search(&self) -> Option<String> {
        match self {
            Answer::Planned(plan) => plan.search.as_deref().map(search_words),
            Answer::Thought(turn) => turn.search(),
            Answer::Reflected(_) | Answer::Observed(_) => None,
        }
    }
}

/// Answer of a planner.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Planned {
    pub(super) answer: Option<String>,
    pub(super) missing: Option<String>,
    /// Words for tools that the prompt does not list; nothing else is meant then.
    #[serde(default)]
    pub(super) search: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// A step of a planner, or a call of a turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Step {
    pub(super) id: NodeId,
    pub(super) tool: String,
    pub(super) params: Map<String, Value>,
    pub(super) refs: Vec<Reference>,
    pub(super) after: Vec<NodeId>,
    #[serde(default, deserialize_with = "guards")]
    pub(super) when: Vec<Guard>,
    #[serde(default, deserialize_with = "list")]
    pub(super) for_each: Option<ForEach>,
}

fn guards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Guard>, D::Error> {
    conditions::guards(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("malformed guards"))
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ForEach>, D::Error> {
    conditions::list(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("malformed for_each"))
}

impl Step {
    /// Every node that the step names as a source, each mention once more.
    pub(super) fn sources(&self) -> impl Iterator<Item = &NodeId> {
        let references = self.refs.iter().map(|reference| &reference.from);
        let guards = self.when.iter().map(|guard| &guard.from);
        self.after.iter().chain(references).chain(guards).chain(self.for_each.iter().map(|list| &list.from))
    }

    /// Every path that the step takes into a result, with the name of the parameter or field.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        let references = self.refs.iter().map(|reference| (&*reference.param, &*reference.path));
        let guards = self.when.iter().map(|guard| ("when", path_of(&guard.path)));
        let list = self.for_each.iter().map(|list| ("for_each", path_of(&list.path)));
        references.chain(guards).chain(list)
    }
}

fn path_of(path: &Option<String>) -> &str {
    path.as_deref().unwrap_or_default()
}

/// A parameter taken from a result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Reference {
    pub(super) param: String,
    pub(super) from: NodeId,
    pub(super) path: String,
    pub(super) template: Option<String>,
}

/// Answer of a reflection or an interjection.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Reflected {
    pub(super) decision: Decision,
    pub(super) verdict: Option<String>,
    pub(super) next: Option<String>,
    pub(super) cancel: Vec<NodeId>,
}

/// The decision of a reflection or an interjection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The work goes on as it is.
    Continue,
    /// The run ends with an answer from what is there.
    Conclude,
    /// A planner is asked for more steps.
    Replan,
}

/// Answer of an observer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Observed {
    pub(super) decision: Observation,
    pub(super) next: Option<String>,
    pub(super) cancel: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Observation {
    Continue,
    Inject,
    Cancel,
    Reflect,
}

/// A turn of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Thought {
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ToolCall>,
}

impl Thought {
    /// The text of a turn without calls. A text beside calls is a remark, and an empty text is none.
    pub(super) fn direct_text(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| self.calls.is_empty() && !text.is_empty())
    }

    /// The words of the calls that search for tools; `None` without such a call.
    pub(super) fn search(&self) -> Option<String> {
        let mut searches = self.calls.iter().filter(|call| call.tool == SEARCH_TOOL).peekable();
        searches.peek()?;
        let words = searches.filter_map(|call| call.params.get("words")?.as_str());
        Some(search_words(&words.collect::<Vec<_>>().join(" ")))
    }

    /// True if the turn asks for work.
    pub(super) fn works(&self) -> bool {
        !self.calls.is_empty() && self.search().is_none()
    }

    /// The calls of the turn `think.K` as steps `call.K.1`, `call.K.2` and so on. A turn that searches has none: the calls beside a
    /// search are not made.
    pub(super) fn steps(&self, turn: &NodeId) -> Vec<Step> {
        if self.works() { self.calls_as_steps(turn) } else { Vec::new() }
    }

    /// Every call as a step, searches among them.
    pub(super) fn calls_as_steps(&self, turn: &NodeId) -> Vec<Step> {
        let number = turn.as_str().strip_prefix("think.").unwrap_or_default();
        let step = |(at, call): (usize, &ToolCall)| Step {
            id: NodeId::from(format!("call.{number}.{}", at + 1).as_str()),
            tool: call.tool.clone(),
            params: call.params.clone(),
            refs: Vec::new(),
            after: Vec::new(),
            when: Vec::new(),
            for_each: None,
        };
        self.calls.iter().enumerate().map(step).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ToolCall {
    pub(super) tool: String,
    pub(super) params: Map<String, Value>,
}

/// Answer of the micro-planner.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Advice {
    pub(super) decision: Remedy,
    pub(super) tool: Option<String>,
    pub(super) params: Option<Map<String, Value>>,
    pub(super) refs: Option<Vec<Reference>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remedy {
    Retry,
    Substitute,
    Skip,
}

/// An answer over all results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Written {
    pub(super) answer: String,
    pub(super) citations: Vec<NodeId>,
}

/// The literal parameters of a step: those that are not null.
pub(super) fn literals(params: &Map<String, Value>) -> Map<String, Value> {
    params
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
