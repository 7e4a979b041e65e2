//! A node of a plan, with every default filled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::draft::NodeFields;
use super::{
    Approval, Dep, Dispatch, Effect, ForEach, Freshness, Guard, Idempotency, Join, Kind, Method, ParamRef,
    Rule, Undo,
};
use crate::gate::{CallClass, OnLostResult};
use crate::id::{NodeId, Ticks};
use crate::json::Object;

/// A normalised node. The serde form has the field names of plan files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique in the run, never reused.
    pub id: NodeId,
    /// The executor.
    pub kind: Kind,
    /// Name of the tool, for tool nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool: Option<String>,
    /// Name of the model, for model nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: Option<String>,
    /// Edges from sources, in the author's order (significant for ordered joins).
    #[serde(default, skip_serializing_if = "is_default")]
    pub deps: Vec<Dep>,
    /// Rule that combines the edges; `None` for an entry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: Option<Join>,
    /// Start order of the candidates of an `any_of`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dispatch: Dispatch,
    /// Literal parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Object,
    /// Parameters taken from results.
    #[serde(default, skip_serializing_if = "is_default")]
    pub param_refs: BTreeMap<String, ParamRef>,
    /// Nodes declared as read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads: Vec<NodeId>,
    /// Rules for the result; all must pass before the node counts as executed.
    #[serde(default)]
    pub contract: Vec<Rule>,
    /// Effect on the world.
    #[serde(default)]
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control; a lower bound for the gate.
    #[serde(default)]
    pub impact: u8,
    /// Permitted reaction to a lost result.
    #[serde(default)]
    pub idem: Idempotency,
    /// Combined class of the contract's tests; `None` without tests and in a simulation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tests: Option<CallClass>,
    /// Timeout of one attempt, in ticks.
    pub timeout: Ticks,
    /// Longest silence of an attempt before the run declares the attempt dead, in ticks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub heartbeat_timeout: Option<Ticks>,
    /// Retries within one patch.
    #[serde(default)]
    pub retries: i64,
    /// Patches in all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patches: i64,
    /// Moment to ask a person.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approval: Approval,
    /// Longest wait for a person before the node is cancelled, in ticks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub human_timeout: Option<Ticks>,
    /// Patch applied once retries cannot help.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<Box<NodeFields>>,
    /// Guards; all must hold, or the node is skipped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: Vec<Guard>,
    /// Source list of a node that expands to one child per element.
    #[serde(default, skip_serializing_if = "is_default")]
    pub for_each: Option<Box<ForEach>>,
    /// Reuse of the results of a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fresh: Freshness,
    /// Longest wait for an answer from outside, in ticks, for nodes of kind wait.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deadline: Option<Ticks>,
    /// Action that undoes the node's effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub undo: Option<Box<Undo>>,
    /// Origin of an engine-made node; `None` for a node of the written plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub made: Option<Box<Made>>,
}

/// Origin of an engine-made node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Made {
    /// A child for an element of a list.
    Child {
        /// The collector.
        of: NodeId,
        /// The parameter with the element.
        element: String,
    },
    /// The collector of children.
    Collector {
        /// Collected nodes, in the order of the list.
        items: Vec<NodeId>,
        /// Most children by the plan: their names stay reserved.
        max: u64,
    },
    /// A node that undoes the effect of another.
    Undo {
        /// The other node.
        of: NodeId,
        /// Number of the undo, from 1.
        round: u32,
        /// Place in the round, from 0.
        turn: u32,
        /// Most impact that the person who asked for the undo allows; `None` for the intent of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        intent: Option<u8>,
    },
}

/// Skips default values in the journal, since the first record of every run holds the plan. Fields completed
/// from the tool are always written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Node {
    /// Class of an attempt: the node's own class combined with the class of its contract's tests.
    pub fn reach(&self) -> CallClass {
        self.tests.map_or(self.own(), |tests| self.own().and(tests))
    }

    fn own(&self) -> CallClass {
        CallClass { impact: self.impact, effect: self.effect, idem: self.idem }
    }

    /// Returns whether stopping an attempt half-way could leave an effect incomplete. Such nodes drain instead of
    /// being stopped.
    pub fn acts(&self) -> bool {
        self.reach().acts()
    }

    /// Returns whether an attempt may change the world, itself or through a run that it opens: an approval of the node, or of a guard
    /// above it, then allows one effect, in one run. The only place that decides this.
    pub fn may_change_world(&self) -> bool {
        self.acts() || self.kind == Kind::SubAgent
    }

    /// Reaction to a lost result: the stricter answer of the node's own class and the class of its
    /// tests. The only place that decides whether a lost attempt is in doubt.
    pub fn on_lost_result(&self) -> OnLostResult {
        let own = self.own().on_lost_result();
        self.tests.map_or(own, |tests| own.max(tests.on_lost_result()))
    }

    /// Returns whether a rule of the contract has this method.
    pub fn is_judged_by(&self, method: Method) -> bool {
        self.contract.iter().any(|rule| rule.method == method)
    }

    /// Returns whether a person has to approve the result: by `approval: after`, or by a rule of the contract.
    pub fn asks_after(&self) -> bool {
        self.approval == Approval::After || self.is_judged_by(Method::Human)
    }

    /// Returns whether the node's tool is the one of its model.
    pub fn calls_model(&self) -> bool {
        self.kind == Kind::Model || self.model.is_some() && self.kind.may_call_model()
    }

    /// Name of the parameter with a template over the node's dependencies; `None` for a node without one.
    pub fn template_param(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Aggregator => Some("template"),
            Kind::Model => Some("prompt"),
            _ => None,
        }
    }

    /// Name of the parameter with the element: of an expanding node, and of its children.
    pub fn element(&self) -> Option<&str> {
        match (self.made.as_deref(), &self.for_each) {
            (Some(Made::Child { element, .. }), _) => Some(element),
            (_, Some(list)) => Some(&list.parameter),
            _ => None,
        }
    }

    /// Name under which the prompt of a model node reads the element; `None` if the element is the prompt itself.
    pub fn element_in_prompt(&self) -> Option<&str> {
        self.element().filter(|name| self.kind == Kind::Model && !["prompt", "messages"].contains(name))
    }

    /// Names of the parameters taken from results.
    pub(super) fn referred(&self) -> impl Iterator<Item = &str> {
        let list = self.for_each.iter().map(|list| list.parameter.as_str());
        let prompted = self.element_in_prompt();
        self.param_refs.keys().map(String::as_str).chain(list).filter(move |&name| Some(name) != prompted)
    }

    /// The collector of a child.
    pub fn parent(&self) -> Option<&NodeId> {
        match self.made.as_deref() {
            Some(Made::Child { of, .. }) => Some(of),
            _ => None,
        }
    }

    /// Nodes collected by a collector, in the order of the list.
    pub fn items(&self) -> Option<&[NodeId]> {
        match self.made.as_deref() {
            Some(Made::Collector { items, .. }) => Some(items),
            _ => None,
        }
    }

    /// Maximum number of children of a node that expands, or has expanded.
    pub(crate) fn list_max(&self) -> Option<u64> {
        match (self.made.as_deref(), &self.for_each) {
            (Some(Made::Collector { max, .. }), _) => Some(*max),
            (_, Some(list)) => Some(list.max),
            _ => None,
        }
    }

    /// Returns whether the node undoes the effect of another.
    pub fn is_undo(&self) -> bool {
        matches!(self.made.as_deref(), Some(Made::Undo { .. }))
    }

    /// Returns whether the node steers the run (reflection, observer, micro-planner, interjection, aggregator).
    pub fn is_control(&self) -> bool {
        self.kind.is_control()
    }
}
