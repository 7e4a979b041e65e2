//! What a valid plan is made of. Every default is filled in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Graph;
use super::draft::NodeFields;
use super::graph::Derived;
use crate::agent::Oversight;
use crate::gate::{OnLostResult, CallClass};
use crate::id::{Digest, NodeId, Ticks};
use crate::json::{Object, has_canonical_numbers, canonicalize_numbers};
use crate::run::{FailureCategory, RecoveryStrategy};

/// An immutable version of a graph of nodes. Only validation makes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The author's name for it.
    pub id: String,
    /// One line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// 1 at first; every accepted change adds one.
    pub version: u32,
    /// All nodes ever, in ascending order of their ids (bytes).
    pub nodes: Vec<Node>,
    /// What the run is for.
    pub outputs: Vec<NodeId>,
    /// Whether the author (or a delta) named the outputs; else they are the exits of version 1.
    pub outputs_declared: bool,
    /// Limits and choices.
    pub policy: Policy,
    /// Rules over the map of the outputs, checked once per version at quiescence; empty means none.
    #[serde(default)]
    pub contract: Vec<Rule>,
    /// Whether nothing is normalised: a reference adds no edge.
    #[serde(default)]
    pub strict: bool,
    /// See [`Plan::graph`].
    #[serde(skip)]
    pub(super) derived: Derived,
}

impl Plan {
    /// Its edges. Made when it is first asked for, so not before the plan has all its nodes.
    pub fn graph(&self) -> &Arc<Graph> {
        self.derived.graph(&self.nodes)
    }

    /// The identity of the work of the node at `at`, which is given nothing but its literal parameters and is run by `sigma`:
    /// `identify` gives it once for all runs of the plan.
    pub(crate) fn constant_identity(
        &self,
        at: usize,
        sigma: Digest,
        identify: impl Fn() -> Digest,
    ) -> Digest {
        self.derived.identity(&self.nodes, at, sigma, identify)
    }

    /// The node of this id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|at| &self.nodes[at])
    }

    /// Its place among the nodes.
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.nodes.binary_search_by(|probe| probe.id.cmp(id)).ok()
    }

    /// Whether [`Plan::canonicalize_numbers`] would leave it as it is, for sure.
    pub fn has_canonical_numbers(&self) -> bool {
        let fallbacks = self.nodes.iter().filter_map(|node| node.fallback.as_ref()?.params.as_ref());
        let params = self.nodes.iter().map(|node| &*node.params).chain(fallbacks);
        let rules = self.nodes.iter().flat_map(|node| &node.contract).chain(&self.contract);
        let specs = rules.filter_map(|rule| rule.spec.as_deref());
        params.flat_map(|params| params.values()).chain(specs).all(has_canonical_numbers)
    }

    /// Makes its numbers those that its canonical text says, so that it is the same plan as one read from there.
    pub fn canonicalize_numbers(&mut self) {
        for node in &mut self.nodes {
            let fallback = node.fallback.iter_mut().filter_map(|fields| fields.params.as_mut());
            fallback.flat_map(|params| params.values_mut()).for_each(canonicalize_numbers);
            if !has_canonical_numbers(node.params.as_value()) {
                node.params.make_mut().values_mut().for_each(canonicalize_numbers);
            }
        }
        let of_nodes = self.nodes.iter_mut().flat_map(|node| &mut node.contract);
        for spec in of_nodes.chain(&mut self.contract).filter_map(|rule| rule.spec.as_mut()) {
            if !has_canonical_numbers(spec) {
                canonicalize_numbers(Arc::make_mut(spec));
            }
        }
    }
}

/// One node, as it stands after normalisation. Its serde form has the field names of plan files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique in the run, never reused.
    pub id: NodeId,
    /// What executes it.
    pub kind: Kind,
    /// Name of the tool, for tool nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool: Option<String>,
    /// Name of the model, for model nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: Option<String>,
    /// What it waits for, in the author's order (which matters for ordered joins).
    #[serde(default, skip_serializing_if = "is_default")]
    pub deps: Vec<Dep>,
    /// `None` for an entry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub join: Option<Join>,
    /// How an any_of starts its candidates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dispatch: Dispatch,
    /// Literal parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Object,
    /// Parameters taken from results.
    #[serde(default, skip_serializing_if = "is_default")]
    pub param_refs: BTreeMap<String, ParamRef>,
    /// Nodes it declares to read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads: Vec<NodeId>,
    /// All must pass before it is executed.
    #[serde(default)]
    pub contract: Vec<Rule>,
    /// What it does to the world.
    #[serde(default)]
    pub effect: Effect,
    /// 0 observe, 1 operate, 2 control: a floor under what the gate sees.
    #[serde(default)]
    pub impact: u8,
    /// What a lost result permits.
    #[serde(default)]
    pub idem: Idempotency,
    /// What the tests of its contract do to the world, all together; `None` if it has none, or in a simulation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tests: Option<CallClass>,
    /// Per attempt.
    pub timeout: Ticks,
    /// After which silence an attempt counts as dead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub heartbeat_timeout: Option<Ticks>,
    /// Retries within one patch.
    #[serde(default)]
    pub retries: i64,
    /// Patches in all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patches: i64,
    /// Whether a person is asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approval: Approval,
    /// After which silence cancels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub human_timeout: Option<Ticks>,
    /// What the node becomes once retries cannot help: a patch written beforehand.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: Option<Box<NodeFields>>,
}

/// What a reader fills in need not be written: the plan stands in the first record of every run of it. What is
/// completed from the tool where nothing is said is always written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Node {
    /// What an attempt of it does to the world, the tests of its contract included.
    pub fn reach(&self) -> CallClass {
        self.tests.map_or(self.own(), |tests| self.own().and(tests))
    }

    fn own(&self) -> CallClass {
        CallClass { impact: self.impact, effect: self.effect, idem: self.idem }
    }

    /// Whether it does something to the world that stopping it half-way would leave undone: such a node drains instead
    /// of being stopped.
    pub fn acts(&self) -> bool {
        self.reach().acts()
    }

    /// What may be done about an attempt of it if nobody knows what it came to: what the pickier of its own work and
    /// the tests of its contract permits. Whether a lost attempt is in doubt is decided here and nowhere else.
    pub fn on_lost_result(&self) -> OnLostResult {
        let own = self.own().on_lost_result();
        self.tests.map_or(own, |tests| own.max(tests.on_lost_result()))
    }

    /// Whether it steers a run rather than working for it (reflection, observer, micro-planner, interjection,
    /// aggregator).
    pub fn is_control(&self) -> bool {
        self.kind.is_control()
    }
}

/// What executes a node.
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
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 9] = [
        Kind::Tool,
        Kind::Model,
        Kind::Reflection,
        Kind::Observer,
        Kind::MicroPlanner,
        Kind::Interjection,
        Kind::Aggregator,
        Kind::HumanApproval,
        Kind::SubAgent,
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
            Kind::Tool | Kind::Model | Kind::HumanApproval | Kind::SubAgent => false,
        }
    }
}

/// An edge, seen from its consumer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the id of a node, or {n: id, on: success | terminal}")]
pub struct Dep {
    /// The source.
    pub n: NodeId,
    /// What it must have become.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on: On,
}

/// What satisfies an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// The source is executed.
    #[default]
    Success,
    /// The source is in any terminal state. Carries no data, creates no demand.
    Terminal,
}

/// How edges combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every edge holds.
    AllOf,
    /// One candidate is executed.
    AnyOf,
}

/// How an any_of starts its candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// All at once.
    #[default]
    Parallel,
    /// One after the other, each when those before are lost.
    Ordered,
}

/// A parameter taken from another node's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a reference: {from: NODE, path: PATH}")]
pub struct ParamRef {
    /// A node id, or `$winner` in an any_of node.
    pub from: NodeId,
    /// Dot path into the result; keys, and list indices without leading zeros.
    pub path: Option<String>,
    /// Text in which every `{}` becomes the value.
    #[serde(default)]
    pub template: Option<String>,
}

impl ParamRef {
    /// The source that means "whichever candidate won".
    pub const WINNER: &'static str = "$winner";
}

/// One rule of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// How it is judged.
    pub method: Method,
    /// P(correct | accepted), in (0, 1]; `None` is unknown (1 for `schema`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub p: Option<f64>,
    /// What is asked for; its form depends on the method. Nodes of one tool share what the tool says of its result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spec: Option<Arc<Value>>,
}

/// How a contract rule is judged.
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

impl Method {
    /// Who judges by it, if nothing here does.
    pub fn external_judge(self) -> Option<&'static str> {
        match self {
            Method::Schema | Method::Code | Method::Test => None,
            Method::Model => Some("a model"),
            Method::Human => Some("a person"),
        }
    }
}

/// What a node does to the world.
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
    /// Whether it changes anything.
    pub fn acts(self) -> bool {
        match self {
            Effect::Write | Effect::External => true,
            Effect::None | Effect::Read => false,
        }
    }
}

/// What may be done about an attempt whose result was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Doing it twice is doing it once.
    #[default]
    Natural,
    /// The receiver recognises the key.
    Keyed,
    /// Nothing: only a person can tell.
    None,
}

/// When a person is asked.
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

/// What becomes of an effectful attempt of unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// The operator is asked (real runs).
    Ask,
    /// It has failed (simulation).
    Fail,
}

/// Limits and choices of a run, all filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Attempts that may run at once; 0 is unlimited.
    pub slots: u32,
    /// Requests to the planner.
    pub max_replans: u32,
    /// Versions of the plan.
    pub max_versions: u32,
    /// Nodes ever.
    pub max_nodes: u32,
    /// Nodes on a path.
    pub max_depth: u32,
    /// (retries + 1)(patches + 1) of any node.
    pub max_attempts: i64,
    /// First wait before a retry.
    pub backoff_base: Ticks,
    /// Longest wait before a retry.
    pub backoff_cap: Ticks,
    /// What becomes of an effectful attempt of unknown outcome.
    pub in_doubt: InDoubt,
    /// How far people watch the run; `None`: they are asked where nodes say so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oversight: Option<Oversight>,
    /// What the run is about, such as `legal`: decides how failures are met.
    #[serde(default, skip_serializing_if = "is_default")]
    pub domain: Option<String>,
    /// What is done about failures where that is more than the default and the domain ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovery: BTreeMap<FailureCategory, RecoveryStrategy>,
}

impl Policy {
    /// The defaults of `conformance/README.md`.
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
    };

    /// The defaults of plan files, in milliseconds; `slots` is twice the cores of the machine.
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
        }
    }
}
