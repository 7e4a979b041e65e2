//! Control nodes: their roles, ids and descriptions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{GoalTerms, View};
use crate::id::{NAME_BYTES_MAX, NodeId};
use crate::plan::{Dep, DepDraft, Kind, Method, NodeDraft, On, RuleDraft};

/// Role of a model in a goal run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Writes the steps of a plan.
    Planner,
    /// Judges results: go on, conclude, or plan again.
    Reflect,
    /// Judges one result.
    Observe,
    /// Writes the patch of a failed node. The one role without a node.
    Micro,
    /// One turn of a model that calls tools.
    Think,
    /// Writes the answer.
    Answer,
    /// Considers the message of an operator.
    Interject,
}

/// Id of the node that holds the answer of a goal run.
pub const ANSWER: &str = "answer";

/// Prefixes that no step's id may have.
const RESERVED: [&str; 6] = ["plan.", "reflect.", "observe.", "think.", "interject.", "call."];

impl Role {
    /// The name in files and conformance cases.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Reflect => "reflect",
            Role::Observe => "observe",
            Role::Micro => "micro",
            Role::Think => "think",
            Role::Answer => "answer",
            Role::Interject => "interject",
        }
    }

    /// First part of the ids of the role's nodes.
    pub(super) fn family(self) -> &'static str {
        match self {
            Role::Planner => "plan",
            Role::Reflect | Role::Observe | Role::Micro | Role::Think | Role::Answer | Role::Interject => {
                self.as_str()
            }
        }
    }

    /// Role of the control node with this id; `None` for work.
    pub(super) fn of_id(id: &str) -> Option<Role> {
        if id == ANSWER {
            return Some(Role::Answer);
        }
        let (family, _) = id.split_once('.')?;
        let roles = [Role::Planner, Role::Reflect, Role::Observe, Role::Think, Role::Interject];
        roles.into_iter().find(|role| role.family() == family)
    }

    /// True if the index of tools is part of the role's context.
    pub(super) fn sees_tools(self) -> bool {
        matches!(self, Role::Planner | Role::Think)
    }

    fn kind(self) -> Kind {
        match self {
            Role::Planner | Role::Think | Role::Micro => Kind::Model,
            Role::Reflect => Kind::Reflection,
            Role::Observe => Kind::Observer,
            Role::Answer => Kind::Aggregator,
            Role::Interject => Kind::Interjection,
        }
    }

    /// Retries of the role's nodes. Planners and turns have one more, because nothing else can repair a bad plan.
    fn retries(self) -> i64 {
        match self {
            Role::Planner | Role::Think => 2,
            Role::Reflect | Role::Observe | Role::Answer | Role::Interject => 1,
            Role::Micro => 0,
        }
    }
}

/// True if no step may have this id.
pub(super) fn is_reserved(id: &str) -> bool {
    id == ANSWER || RESERVED.iter().any(|prefix| id.starts_with(prefix))
}

impl View<'_> {
    /// Id of the next node of a role. Runs that open with a turn count it as their first planner.
    pub(super) fn next_id(&self, role: Role) -> NodeId {
        self.next_id_after(role, 0)
    }

    /// Id of the next node of a role behind `more` nodes that the same change adds.
    pub(super) fn next_id_after(&self, role: Role, more: usize) -> NodeId {
        let opening = u32::from(role == Role::Planner && self.goal.terms.mode.opens_with_turn());
        let known = self.goal.roles.values().filter(|known| **known == role).count() as u32;
        let numbered = |number: u32| NodeId::from(format!("{}.{number}", role.family()).as_str());
        // An operator may have used the next number for a node of their own.
        let mut free = (known + opening + 1..).map(numbered).filter(|id| self.run.node(id).is_none());
        free.nth(more).expect("a plan has finitely many nodes")
    }

    /// Id of the observer of a step, apart from the ids in `taken`.
    pub(super) fn observer_id(&self, step: &NodeId, taken: &BTreeMap<NodeId, NodeId>) -> NodeId {
        let is_free = |id: &NodeId| self.run.node(id).is_none() && !taken.contains_key(id);
        let named = NodeId::from(format!("observe.{step}").as_str());
        if named.as_str().len() <= NAME_BYTES_MAX && is_free(&named) {
            return named;
        }
        let numbered = |number: u32| NodeId::from(format!("observe.{number}").as_str());
        (1u32..).map(numbered).find(is_free).expect("a plan has finitely many nodes")
    }

    /// A control node with terminal edges on `sources`. Its attempts are calls of a model; a schema is its contract.
    pub(super) fn control<'s>(
        &self,
        role: Role,
        id: NodeId,
        sources: impl IntoIterator<Item = &'s NodeId>,
    ) -> NodeDraft {
        control(role, id, sources, &self.goal.terms)
    }
}

pub(super) fn control<'s>(
    role: Role,
    id: NodeId,
    sources: impl IntoIterator<Item = &'s NodeId>,
    terms: &GoalTerms,
) -> NodeDraft {
    let model = terms.model_of(role).map(str::to_owned);
    // In a plan file these parameters hold a text; here the policy writes the prompt.
    let text = match role {
        Role::Answer => Some("template"),
        Role::Planner | Role::Think | Role::Micro => Some("prompt"),
        Role::Reflect | Role::Observe | Role::Interject => None,
    };
    let text = text.filter(|_| model.is_some());
    let params = text.map(|name| Map::from_iter([(name.to_owned(), Value::from(""))]));
    let on_end = |source: &NodeId| DepDraft(Dep { n: source.clone(), on: On::Terminal });
    NodeDraft {
        kind: Some(role.kind()),
        deps: Some(sources.into_iter().map(on_end).collect()),
        contract: Some(vec![RuleDraft { method: Some(Method::Schema), p: None, spec: None }]),
        timeout: Some(terms.control_timeout),
        model,
        params,
        retries: Some(role.retries()),
        patches: Some(0),
        ..NodeDraft::named(id)
    }
}
