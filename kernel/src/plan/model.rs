//! Parts of a valid plan, with every default filled in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draft::NodeFields;
use super::graph::Derived;
use super::{ForEach, Freshness, Graph, Guard, Undo};
use crate::agent::Oversight;
use crate::gate::{CallClass, OnLostResult};
use crate::id::{Digest, NodeId, Ticks};
use crate::json::{Object, canonicalize_numbers, has_canonical_numbers};
use crate::ledger::CallLimits;
use crate::run::{FailureCategory, RecoveryStrategy};

/// An immutable version of a graph of nodes. Validation is the only constructor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The author's name for the plan.
    pub id: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// 1 at first; every accepted change adds one.
    pub version: u32,
    /// All nodes of this and earlier versions, ascending by the bytes of their ids.
    pub nodes: Vec<Node>,
    /// Nodes the run is for.
    pub outputs: Vec<NodeId>,
    /// True if the author or a delta named the outputs; otherwise the outputs are the exits of version 1.
    pub outputs_declared: bool,
    /// Limits and choices.
    pub policy: Policy,
    /// Rules over the map of the outputs, checked once per version at quiescence; empty means none.
    #[serde(default)]
    pub contract: Vec<Rule>,
    /// True if normalisation adds no edges for references.
    #[serde(default)]
    pub strict: bool,
    #[serde(skip)]
    pub(super) derived: Derived,
}

impl Plan {
    /// Returns the adjacency, computed on first use. Call only after the plan has all its nodes.
    pub fn graph(&self) -> &Arc<Graph> {
        self.derived.graph(&self.nodes)
    }

    /// Returns the work identity of the node at `at`, a node with literal parameters only, run by the
    /// executable `sigma`. All runs of the plan share one call of `identify`.
    pub(crate) fn constant_identity(
        &self,
        at: usize,
        sigma: Digest,
        identify: impl Fn() -> Digest,
    ) -> Digest {
        self.derived.identity(&self.nodes, at, sigma, identify)
    }

    /// The plan with these nodes, ascending by id, as the first version of a run.
    pub(crate) fn with_nodes(&self, nodes: Vec<Node>) -> Plan {
        Plan { version: 1, nodes, derived: Derived::default(), ..self.clone() }
    }

    /// Finds a node by id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|at| &self.nodes[at])
    }

    /// Index of a node.
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|probe| probe.id.cmp(id)).ok()
    }

    /// Returns whether [`Plan::canonicalize_numbers`] would change nothing. May return `false` for a plan without
    /// changes.
    pub fn has_canonical_numbers(&self) -> bool {
        let fallbacks = self.nodes.iter().filter_map(|node| node.fallback.as_deref());
        let extensions = fallbacks.clone().flat_map(NodeFields::values);
        let fallbacks = fallbacks.filter_map(|fields| fields.params.as_ref());
        let undos = self.nodes.iter().filter_map(|node| node.undo.as_deref());
        let params = self.nodes.iter().map(|node| &*node.params).chain(fallbacks);
        let params = params.chain(undos.clone().map(|undo| &*undo.params));
        let rules = self.nodes.iter().flat_map(|node| &node.contract).chain(&self.contract);
        let rules = rules.chain(undos.flat_map(|undo| &undo.contract));
        let specs = rules.filter_map(|rule| rule.spec.as_deref());
        let guards = self.nodes.iter().flat_map(|node| &node.when).filter_map(|guard| guard.value.as_ref());
        let values = params.flat_map(|params| params.values()).chain(specs).chain(guards);
        values.chain(extensions).all(has_canonical_numbers)
    }

    /// Replaces every number by the number that its canonical text parses to, so the plan equals a plan read
    /// back from the journal.
    pub fn canonicalize_numbers(&mut self) {
        for node in &mut self.nodes {
            let fallback = node.fallback.iter_mut().filter_map(|fields| fields.params.as_mut());
            fallback.flat_map(|params| params.values_mut()).for_each(canonicalize_numbers);
            let fallback = node.fallback.iter_mut();
            fallback.flat_map(|fields| fields.values_mut()).for_each(canonicalize_numbers);
            let guards = node.when.iter_mut().filter_map(|guard| guard.value.as_mut());
            guards.for_each(canonicalize_numbers);
            if let Some(undo) = &mut node.undo
                && !has_canonical_numbers(undo.params.as_value())
            {
                undo.params.make_mut().values_mut().for_each(canonicalize_numbers);
            }
            if !has_canonical_numbers(node.params.as_value()) {
                node.params.make_mut().values_mut().for_each(canonicalize_numbers);
            }
        }
        let of_nodes = self.nodes.iter_mut().flat_map(|node| {
            let undo = node.undo.iter_mut().flat_map(|undo| &mut undo.contract);
            node.contract.iter_mut().chain(undo)
        });
        for spec in of_nodes.chain(&mut self.contract).filter_map(|rule| rule.spec.as_mut()) {
            if !has_canonical_numbers(spec) {
                canonicalize_numbers(Arc::make_mut(spec));
            }
        }
    }
}

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
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
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

/// Executor of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Kind {
    Tool,
    Model,
    Reflection,
    Observer,
    MicroPlanner,
    Interjection,
    Aggregator,
    HumanApproval,
    SubAgent,
    Earlier,
    Wait,
    Collector,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Tool,
        Kind::Model,
        Kind::Reflection,
        Kind::Observer,
        Kind::MicroPlanner,
        Kind::Interjection,
        Kind::Aggregator,
        Kind::HumanApproval,
        Kind::SubAgent,
        Kind::Earlier,
        Kind::Wait,
        Kind::Collector,
    ];

    /// The word used in plan files.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Tool => "tool",
            Kind::Model => "model",
            Kind::Reflection => "reflection",
            Kind::Observer => "observer",
            Kind::MicroPlanner => "micro_planner",
            Kind::Interjection => "interjection",
            Kind::Aggregator => "aggregator",
            Kind::HumanApproval => "human_approval",
            Kind::SubAgent => "sub_agent",
            Kind::Earlier => "earlier",
            Kind::Wait => "wait",
            Kind::Collector => "collector",
        }
    }

    /// True if nodes of the kind may name a model, which their attempts call.
    pub fn may_call_model(self) -> bool {
        match self {
            Kind::Model | Kind::Reflection | Kind::Observer | Kind::Interjection | Kind::Aggregator => true,
            Kind::Tool
            | Kind::MicroPlanner
            | Kind::HumanApproval
            | Kind::SubAgent
            | Kind::Earlier
            | Kind::Wait
            | Kind::Collector => false,
        }
    }

    /// See [`Node::is_control`].
    pub fn is_control(self) -> bool {
        match self {
            Kind::Reflection
            | Kind::Observer
            | Kind::MicroPlanner
            | Kind::Interjection
            | Kind::Aggregator => true,
            Kind::Tool
            | Kind::Model
            | Kind::HumanApproval
            | Kind::SubAgent
            | Kind::Earlier
            | Kind::Wait
            | Kind::Collector => false,
        }
    }
}

/// An edge, seen from the consumer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the id of a node, or {n: id, on: success | terminal}")]
pub struct Dep {
    /// The source.
    pub n: NodeId,
    /// The state required of the source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on: On,
}

/// Condition that satisfies an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// The source is executed.
    #[default]
    Success,
    /// The source is in any terminal state. Carries no data and creates no demand.
    Terminal,
}

/// Rule that combines edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every edge holds.
    AllOf,
    /// At least one candidate is executed.
    AnyOf,
}

/// Start order of the candidates of an `any_of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// All at once.
    #[default]
    Parallel,
    /// In list order, each after the ones before have failed.
    Ordered,
}

/// A parameter taken from another node's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a reference: {from: NODE, path: PATH}")]
pub struct ParamRef {
    /// A node id, or `$winner` in an `any_of` node.
    pub from: NodeId,
    /// Dot path into the result: keys, and list indices without leading zeros.
    pub path: Option<String>,
    /// Text with `{}` in place of the value.
    #[serde(default)]
    pub template: Option<String>,
}

impl ParamRef {
    /// The source "the candidate that won".
    pub const WINNER: &'static str = "$winner";
}

/// A rule of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Method of judging.
    pub method: Method,
    /// P(correct | accepted), in (0, 1]; `None` means unknown (1 for `schema`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub p: Option<f64>,
    /// The requirement; the form depends on the method. Nodes of one tool share the tool's result schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spec: Option<Arc<Value>>,
}

/// Method of judging a contract rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Method {
    Schema,
    Code,
    Test,
    Model,
    Human,
}

/// Effect of a node on the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the variants are the words of the plan format
pub enum Effect {
    #[default]
    None,
    Read,
    Write,
    External,
}

impl Effect {
    /// The word of the plan format.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::None => "none",
            Effect::Read => "read",
            Effect::Write => "write",
            Effect::External => "external",
        }
    }

    /// Returns whether the effect changes anything.
    pub fn acts(self) -> bool {
        match self {
            Effect::Write | Effect::External => true,
            Effect::None | Effect::Read => false,
        }
    }
}

/// Permitted reaction to a lost result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Repeating is harmless.
    #[default]
    Natural,
    /// The receiver recognises the idempotency key.
    Keyed,
    /// Nothing; only a person can tell.
    None,
}

/// Moment to ask a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Never.
    #[default]
    None,
    /// Before the action.
    Before,
    /// Before the result is published.
    After,
}

/// Treatment of an effectful attempt with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// Ask the operator (real runs).
    Ask,
    /// Count the attempt as failed (simulation).
    Fail,
}

/// Reaction to a failed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Effects stay.
    #[default]
    Keep,
    /// Executed effects are undone.
    Undo,
}

/// Default number of early answers that a wait keeps.
pub const KEPT_ANSWERS_MAX: u32 = 16;

fn kept_answers_max() -> u32 {
    KEPT_ANSWERS_MAX
}

fn is_kept_answers_max(most: &u32) -> bool {
    *most == KEPT_ANSWERS_MAX
}

/// Limits and choices of a run, all filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Attempts running at once; 0 means unlimited.
    pub slots: u32,
    /// Requests to the planner.
    pub max_replans: u32,
    /// Versions of the plan.
    pub max_versions: u32,
    /// Nodes over all versions.
    pub max_nodes: u32,
    /// Nodes on a path.
    pub max_depth: u32,
    /// Upper bound of (retries + 1)(patches + 1) of any node.
    pub max_attempts: i64,
    /// First wait before a retry, in ticks.
    pub backoff_base: Ticks,
    /// Longest wait before a retry, in ticks.
    pub backoff_cap: Ticks,
    /// Treatment of an effectful attempt with an unknown outcome.
    pub in_doubt: InDoubt,
    /// Degree to which people watch the run; `None` asks people only where nodes say so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oversight: Option<Oversight>,
    /// Subject of the run, such as `legal`; selects recovery strategies and evaluation weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub domain: Option<String>,
    /// Recovery strategies stronger than the default and the domain ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovery: BTreeMap<FailureCategory, RecoveryStrategy>,
    /// Limits of the calls of models of a run that no other run opened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub calls: CallLimits,
    /// Reaction to a failed run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// Number of early answers that a wait keeps.
    #[serde(default = "kept_answers_max", skip_serializing_if = "is_kept_answers_max")]
    pub max_kept: u32,
}

impl Policy {
    /// Defaults of simulations.
    pub const SIMULATION: Policy = Policy {
        slots: 0,
        max_replans: 0,
        max_versions: 16,
        max_nodes: 64,
        max_depth: 32,
        max_attempts: 256,
        backoff_base: 1,
        backoff_cap: 60,
        in_doubt: InDoubt::Fail,
        oversight: None,
        domain: None,
        recovery: BTreeMap::new(),
        calls: CallLimits::NONE,
        on_failure: OnFailure::Keep,
        max_kept: KEPT_ANSWERS_MAX,
    };

    /// Defaults of real runs, in milliseconds; `slots` is twice the cores of the machine.
    pub const fn real(slots: u32) -> Policy {
        Policy {
            slots,
            max_replans: 1,
            max_versions: 1_000,
            max_nodes: 10_000,
            max_depth: 10_000,
            max_attempts: 256,
            backoff_base: 200,
            backoff_cap: 60_000,
            in_doubt: InDoubt::Ask,
            oversight: None,
            domain: None,
            recovery: BTreeMap::new(),
            calls: CallLimits::NONE,
            on_failure: OnFailure::Keep,
            max_kept: KEPT_ANSWERS_MAX,
        }
    }
}
